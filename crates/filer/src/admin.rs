//! The admin socket, by which a running filer is administered: a Unix stream with one JSON object per line in each
//! direction.

mod faults;
mod luns;
mod volumes;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use results::filer_stats::{FilerStats, MediumStats};
use serde_json::{Value, json};
use volume::Error;

use crate::limits::{ADMIN_CLIENTS_MAX, ADMIN_LINE_BYTES_MAX, STACK_BYTES};
use crate::server::Server;
use crate::sys;

/// Why a power cut is refused.
const NO_LOSS_LAYER: &str = "it serves a volume without the loss layer; start it with --loss-layer, or with loss_layer = true for each volume of its file";

/// The bound socket. Its file is removed on drop.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Binds the socket, which only the user of the process may use. Replaces a socket that a killed filer left.
    ///
    /// # Errors
    /// `AddrInUse` if a filer answers at the path, or if the path is not a socket. Otherwise the system's.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = match sys::listen_privately(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_over(path)? => {
                std::fs::remove_file(path)?;
                sys::listen_privately(path)
            }
            other => other,
        }?;
        Ok(Self { listener, path: path.to_path_buf() })
    }

    /// Serves requests in threads of its own until the process ends.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn serve(&self, server: &Arc<Server>) -> io::Result<()> {
        let (listener, server) = (self.listener.try_clone()?, Arc::clone(server));
        std::thread::Builder::new().name("admin".into()).stack_size(STACK_BYTES).spawn(move || accept(&listener, &server))?;
        Ok(())
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the path is a socket on which no process listens.
fn is_left_over(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    Ok(matches!(UnixStream::connect(path), Err(error) if error.kind() == ErrorKind::ConnectionRefused))
}

fn accept(listener: &UnixListener, server: &Arc<Server>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept an admin connection");
                std::thread::sleep(std::time::Duration::from_millis(50));
                continue;
            }
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= ADMIN_CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(limit = ADMIN_CLIENTS_MAX, "admin connection refused: too many");
            continue;
        }
        let (server, counted) = (Arc::clone(server), Arc::clone(&clients));
        let serve = move || {
            if let Err(error) = talk(&stream, &server) {
                tracing::debug!(%error, "admin connection ended");
            }
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("admin".into()).stack_size(STACK_BYTES).spawn(serve).is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers the requests of one client until it disconnects.
fn talk(stream: &UnixStream, server: &Server) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.by_ref().take(ADMIN_LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let (reply, stop) = answer(&line, server);
        let mut text = reply.to_string();
        text.push('\n');
        (&mut &*stream).write_all(text.as_bytes())?;
        if stop {
            server.stop();
        }
        if !whole {
            return Ok(());
        }
    }
}

/// The reply to a request, and whether the filer must stop after sending it.
fn answer(line: &[u8], server: &Server) -> (Value, bool) {
    let failed = |error: String| (json!({"ok": false, "error": error}), false);
    let request: Value = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return failed(format!("parse the request: {error}")),
    };
    let Some(op) = request["op"].as_str() else { return failed("parse the request: it has no op".into()) };
    let about_volumes = volumes::answer(server, op, &request).or_else(|| luns::answer(server, op, &request));
    if let Some(answered) = about_volumes.or_else(|| faults::answer(server.filer(), op, &request)) {
        return answered.map_or_else(failed, |reply| (reply, false));
    }
    match op {
        "stats" => match serde_json::to_value(stats(server)) {
            Ok(mut stats) => {
                if let Some(fields) = stats.as_object_mut() {
                    fields.insert("ok".into(), true.into());
                }
                (stats, false)
            }
            Err(error) => failed(error.to_string()),
        },
        "power-cut" => match server.power_cut() {
            Ok(report) => {
                let exports = server.filer().exports();
                let epoch = exports.entries().iter().map(|entry| entry.export.volume().loss_epoch()).max();
                let volumes: Vec<_> = exports.entries().iter().map(|entry| entry.export.name().to_owned()).collect();
                let (writes, names) = (report.undone_writes, report.undone_names);
                let reply = json!({
                    "ok": true, "volumes": volumes, "undone_writes": writes, "undone_names": names, "loss_epoch": epoch
                });
                (reply, false)
            }
            Err(Error::NotSupported) => failed(NO_LOSS_LAYER.into()),
            Err(error) => failed(format!("cut the power: {error}")),
        },
        "reload" => match server.reload() {
            Some(Ok(done)) => (volumes::reloaded(done), false),
            Some(Err(error)) => failed(error.to_string()),
            None => failed("it was started without a configuration file; start it with --config FILE".into()),
        },
        "shutdown" => {
            tracing::info!("stop requested over the admin socket");
            (json!({"ok": true}), true)
        }
        other => {
            let others = format!("{}, {}, {}", volumes::NAMES, luns::NAMES, faults::NAMES);
            failed(format!("unknown op {other:?}: known are stats, reload, power-cut, shutdown, {others}"))
        }
    }
}

/// The current counters: of all volumes together, and the verifier and loss epoch of the first volume.
fn stats(server: &Server) -> FilerStats {
    let exports = server.filer().exports();
    let volumes = || exports.entries().iter().map(|entry| entry.export.volume());
    let medium = exports.entries().iter().find_map(|entry| entry.export.medium());
    let sum = |counter: fn(&volume::Counters) -> u64| volumes().map(|volume| counter(&volume.counters())).sum();
    FilerStats {
        pid: std::process::id(),
        uptime_s: server.uptime().as_secs_f64(),
        connections: server.connection_count() as u64,
        verifier: volumes().next().map_or_else(String::new, |volume| format!("{:016x}", u64::from_be_bytes(volume.verifier()))),
        loss_epoch: volumes().next().map_or(0, volume::Volume::loss_epoch),
        procedures: server.filer().procedures(),
        scsi: luns::commands(server.iscsi()),
        cold_reads: exports.entries().iter().map(|entry| entry.export.stats().cold_reads()).sum(),
        flushes: sum(|counted| counted.flushes),
        data_flushes: sum(|counted| counted.data_flushes),
        shared_flushes: sum(|counted| counted.shared_flushes),
        stable_writes: sum(|counted| counted.stable_writes),
        direct_writes: sum(|counted| counted.direct_writes),
        direct_reads: sum(|counted| counted.direct_reads),
        durability: same(volumes().map(|volume| volume.options().durability.as_str())),
        cache: same(volumes().map(|volume| volume.options().cache.as_str())),
        poisoned: volumes().any(volume::Volume::is_poisoned),
        faults: faults::kinds(server.filer()),
        medium: medium.map(|medium| medium_stats(medium, server.workers().delayed().counts())),
    }
}

/// The word if all words are equal, otherwise "mixed".
fn same(mut words: impl Iterator<Item = &'static str>) -> String {
    let first = words.next().unwrap_or_default();
    if words.all(|word| word == first) { first.to_owned() } else { "mixed".to_owned() }
}

fn medium_stats(medium: &volume::medium::Medium, (replies_held, waiting_cpu_ns): (u64, u64)) -> MediumStats {
    let counted = medium.counters();
    MediumStats {
        medium: medium.profile().to_string(),
        reads: counted.reads,
        writes: counted.writes,
        flushes: counted.flushes,
        cache_hits: counted.cache_hits,
        busy_ns: counted.busy_ns,
        waiting_max: counted.waiting_max,
        queued_ns: counted.queued_ns,
        read_ns: counted.read_ns,
        write_ns: counted.write_ns,
        flush_ns: counted.flush_ns,
        nvram_full: counted.nvram_full,
        replies_held,
        waiting_cpu_ns,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn no_other_user_can_open_the_admin_socket_at_any_moment() {
        let folder = tempfile::tempdir().unwrap();
        let (path, over) = (folder.path().join("admin.sock"), AtomicBool::new(false));
        let modes = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut modes = std::collections::BTreeSet::new();
                while !over.load(Ordering::Relaxed) {
                    modes.extend(std::fs::symlink_metadata(&path).map(|found| found.permissions().mode() & 0o777));
                }
                modes
            });
            for _ in 0..500 {
                drop(AdminSocket::bind(&path).unwrap());
            }
            let _last = AdminSocket::bind(&path).unwrap();
            assert!(AdminSocket::bind(&path).is_err_and(|error| error.kind() == ErrorKind::AddrInUse), "another filer answers");
            over.store(true, Ordering::Relaxed);
            watch.join().unwrap()
        });
        assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    }
}
