//! `cat` and `cp`.

use super::Progress;
use super::target::Target;
use crate::closed_output::TO_STDOUT;
use crate::cmd::interrupts::{Interrupts, Stopped};
use crate::error_printing::{hinted, refusal};
use anyhow::{Context, anyhow, bail};
use dnfs::file::CreateMode;
use dnfs::{Client, Error, FileHandle, FileKind, FsError, NfsUrl, SetAttributes, Stability, WriteVerifier};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of one call of the client, which splits them and keeps the parts in flight.
const CHUNK_BYTES: usize = 4 << 20;
/// Printed at the first signal.
const INTERRUPTED: &str = "interrupted: removing the incomplete copy; a second signal ends the program at once";
/// Attempts to send a file. Each further attempt follows a loss of unstable data by the server.
const ROUNDS_MAX: usize = 3;

#[derive(clap::Args)]
pub(super) struct Cat {
    /// URL of the file
    url: String,
}

#[derive(clap::Args)]
pub(super) struct Cp {
    /// A local path or an nfs:// URL
    from: String,
    /// A local path or an nfs:// URL; in a directory the copy has the name of the source
    to: String,
    /// Known from cp(1), and refused with what to do instead
    #[arg(short, long, hide = true)]
    recursive: bool,
    /// Print one JSON object on stdout when done
    #[arg(long)]
    json: bool,
}

pub(super) fn cat(args: &Cat) -> anyhow::Result<()> {
    let target = Target::find(&args.url)?;
    let (handle, _) = target.file()?;
    let mut out = io::stdout().lock();
    let mut closed = None;
    let outcome = read_file(&target.client, &handle, |bytes| {
        out.write_all(bytes).inspect_err(|error| closed = Some(error.kind()))?;
        Ok(())
    });
    match (outcome, closed) {
        (Err(error), Some(_)) => Err(error.context(TO_STDOUT)),
        (outcome, _) => outcome.map(|_| ()).with_context(|| format!("read {}", target.url)),
    }
}

pub(super) fn cp(args: &Cp) -> anyhow::Result<()> {
    let begun = std::time::Instant::now();
    if args.recursive {
        return Err(a_directory(&args.from));
    }
    let interrupts = Interrupts::watch_in_thread(INTERRUPTED).context("start a thread")?;
    let copied = match (args.from.starts_with("nfs://"), args.to.starts_with("nfs://")) {
        (false, true) => upload(&args.from, &args.to, &interrupts),
        (true, false) => download(&args.from, &args.to, &interrupts),
        (true, true) => {
            return Err(refusal(
                format!("copy {} to {}: both are on a server", args.from, args.to),
                "copy to a local file first",
            ));
        }
        (false, false) => {
            let hint = "one of them is a URL, as in nfs://filer/vol/dump.sql; between local files use cp";
            return Err(refusal(format!("copy {} to {}: neither begins with nfs://", args.from, args.to), hint));
        }
    };
    // A server that does not answer ends the copy with an error of its own some seconds after the signal.
    let bytes = copied.map_err(|error| match interrupts.check() {
        Err(stopped) if !error.chain().any(|cause| cause.is::<Stopped>()) => {
            anyhow!(stopped).context(format!("copy {} to {}", args.from, args.to))
        }
        _ => error,
    })?;
    if args.json {
        let seconds = begun.elapsed().as_secs_f64();
        println!("{}", serde_json::json!({ "from": args.from, "to": args.to, "bytes": bytes, "seconds": seconds }));
    }
    Ok(())
}

/// The error for a directory: this command copies single files, a program on a mount copies trees.
fn a_directory(from: &str) -> anyhow::Error {
    let hint =
        "copy its files one by one, or all by cp on a mount: millrace exec --mount /mnt/x=nfs://HOST/EXPORT -- cp -r DIR /mnt/x/";
    refusal(format!("copy {from}: it is a directory"), hint)
}

/// Reads a file from its start to its end.
fn read_file(client: &Client, file: &FileHandle, mut sink: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let done = client.read(file, offset, &mut [IoSliceMut::new(&mut buffer)])?;
        sink(buffer.get(..done.bytes).unwrap_or_default())?;
        offset += done.bytes as u64;
        if done.eof || done.bytes == 0 {
            return Ok(offset);
        }
    }
}

/// Copies into a new file beside the destination, syncs it, and renames it over the destination: a
/// copy is complete or does not exist.
fn download(from: &str, to: &str, interrupts: &Interrupts) -> anyhow::Result<u64> {
    let source = Target::find(from)?;
    let (handle, attributes) = source.file()?;
    let mut path = PathBuf::from(to);
    if path.is_dir() {
        let name = source.place.as_ref().map(|place| String::from_utf8_lossy(&place.1).into_owned());
        path.push(name.with_context(|| format!("find the name of a file in {}", source.url))?);
    }
    let path = regular(path, &source.url)?;
    let part = sibling(&path);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        let what = format!("copy {} to {}", source.url, path.display());
        return Err(match parent.ancestors().find(|above| above.exists()).filter(|above| !above.is_dir()) {
            Some(file) => refusal(
                format!("{what}: {} is a file, not a directory", file.display()),
                "name a directory, or a file in one, as the destination",
            ),
            None => refusal(
                format!("{what}: there is no directory {}", parent.display()),
                format!("create it: mkdir -p {}", parent.display()),
            ),
        });
    }
    let copied = (|| {
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(attributes.mode & 0o777).open(&part);
        let mut file = opened.map_err(|error| local(&path, error))?;
        let mut progress = Progress::new();
        let mut done = 0;
        let bytes = read_file(&source.client, &handle, |bytes| {
            interrupts.check()?;
            file.write_all(bytes).map_err(|error| local(&path, error))?;
            done += bytes.len() as u64;
            progress.show(|| share(done, attributes.size));
            Ok(())
        })?;
        file.sync_all().and_then(|()| std::fs::rename(&part, &path)).map_err(|error| local(&path, error))?;
        anyhow::Ok(bytes)
    })();
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied.with_context(|| format!("copy {} to {}", source.url, path.display()))
}

/// The regular file that a path names, or will name. A symbolic link is followed: the copy replaces
/// the file, not the link.
fn regular(path: PathBuf, source: &NfsUrl) -> anyhow::Result<PathBuf> {
    let what = || format!("copy {source} to {}", path.display());
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => std::fs::canonicalize(&path).with_context(what),
        Ok(_) => Err(refusal(
            format!("{}: it is not a regular file", what()),
            format!("name a file, or write to it: millrace nfs cat {source} > {}", path.display()),
        )),
        Err(_) if path.is_symlink() => {
            Err(refusal(format!("{}: it is a symbolic link to a file that does not exist", what()), "name the file itself"))
        }
        Err(_) => Ok(path),
    }
}

/// An error of the file on this host.
fn local(path: &Path, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on this host, or name a path on another file system",
        _ => "name a path in a directory of this host that this user may write",
    };
    hinted(anyhow!(error).context(format!("write the local file {}", path.display())), hint)
}

/// The name under which a copy is written until it is complete.
fn part_name() -> String {
    format!(".millrace-cp-{}.part", std::process::id())
}

fn sibling(path: &Path) -> PathBuf {
    path.with_file_name(part_name())
}

/// Like [`download`], from this host to the server.
fn upload(from: &str, to: &str, interrupts: &Interrupts) -> anyhow::Result<u64> {
    let mut source = File::open(from).map_err(|error| {
        let hint = if error.kind() == ErrorKind::NotFound { "check the path; a file of a server begins with nfs://" } else { "" };
        hinted(anyhow!(error).context(format!("open {from}")), hint)
    })?;
    let metadata = source.metadata().with_context(|| format!("open {from}"))?;
    if metadata.is_dir() {
        return Err(a_directory(from));
    }
    let target = Target::find(to)?;
    let base = || Path::new(from).file_name().map(|name| name.as_encoded_bytes().to_vec());
    let (dir, name) = match (&target.object, &target.place) {
        (Some((handle, attributes)), _) if attributes.kind == FileKind::Directory => {
            (*handle, base().with_context(|| format!("find the name of a file in {from}"))?)
        }
        (_, Some((dir, name))) => (*dir, name.clone()),
        (_, None) => {
            return Err(refusal(format!("copy to {}: it names no file", target.url), "add a name: nfs://HOST/EXPORT/NAME"));
        }
    };
    if let Some((_, attributes)) = &target.object
        && !matches!(attributes.kind, FileKind::Regular | FileKind::Directory)
    {
        return Err(refusal(format!("copy to {}: it is not a regular file", target.url), "name a file, or a directory"));
    }
    let part = part_name().into_bytes();
    let client = &target.client;
    let copied = (|| {
        let mode = Some(metadata.permissions().mode() & 0o777);
        let file = create(client, &dir, &part, mode)?;
        let bytes = send_file(client, &file, &mut source, metadata.len(), interrupts)?;
        client.rename(&dir, &part, &dir, &name)?;
        anyhow::Ok(bytes)
    })();
    if copied.is_err() && client.remove(&dir, &part).is_err_and(|error| !matches!(error, Error::Fs(FsError::NotFound))) {
        eprintln!("millrace: {} may remain in the directory of {}", String::from_utf8_lossy(&part), target.url);
    }
    copied.with_context(|| format!("copy {from} to {}", target.url))
}

/// Creates a new, empty file.
pub(super) fn create(client: &Client, dir: &FileHandle, name: &[u8], mode: Option<u32>) -> Result<FileHandle, Error> {
    let attributes = SetAttributes { mode, ..SetAttributes::default() };
    match client.create(dir, name, CreateMode::Guarded(attributes))? {
        (Some(handle), _) => Ok(handle),
        (None, _) => client.lookup(dir, name).map(|(handle, _)| handle),
    }
}

/// Sends the file with unstable writes, then commits. If the server lost data in between, sends the
/// file again from the start, which a pipe does not allow.
fn send_file(client: &Client, file: &FileHandle, source: &mut File, size: u64, interrupts: &Interrupts) -> anyhow::Result<u64> {
    let mut progress = Progress::new();
    for round in 0..ROUNDS_MAX {
        match source.rewind() {
            Err(error) if error.kind() == ErrorKind::NotSeekable && round > 0 => {
                return Err(hinted(
                    anyhow!("the server lost data that was sent, and a pipe cannot be read twice"),
                    "copy a file, or run the command that writes to the pipe again",
                ));
            }
            Err(error) if error.kind() != ErrorKind::NotSeekable => return Err(error.into()),
            _ => {}
        }
        let mut writer = Writer::new(client, file);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            interrupts.check()?;
            let bytes = fill(source, &mut buffer)?;
            if bytes == 0 {
                break;
            }
            writer.write(buffer.get(..bytes).unwrap_or_default())?;
            progress.show(|| share(writer.offset, size));
        }
        if writer.commit()? {
            return Ok(writer.offset);
        }
    }
    bail!("the server lost unstable data {ROUNDS_MAX} times")
}

/// Sends WRITEs one after the other, and remembers their verifier.
pub(super) struct Writer<'a> {
    client: &'a Client,
    file: &'a FileHandle,
    pub(super) offset: u64,
    verifier: Option<WriteVerifier>, // of unstable writes
    lost: bool,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(client: &'a Client, file: &'a FileHandle) -> Self {
        Self { client, file, offset: 0, verifier: None, lost: false }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let done = self.client.write(self.file, self.offset, &[IoSlice::new(bytes)], Stability::Unstable)?;
            if done.committed == Stability::Unstable {
                self.lost |= done.verifier_changed || self.verifier.is_some_and(|verifier| verifier != done.verifier);
                self.verifier = Some(done.verifier);
            }
            self.offset += done.bytes as u64;
            bytes = bytes.get(done.bytes..).unwrap_or_default();
            if done.bytes == 0 {
                return Err(Error::Fs(FsError::Io));
            }
        }
        Ok(())
    }

    /// Commits the writes. Returns false if the server may have lost some of them.
    pub(super) fn commit(&self) -> Result<bool, Error> {
        let Some(written) = self.verifier else { return Ok(!self.lost) };
        let (verifier, _) = self.client.commit(self.file)?;
        Ok(!self.lost && verifier == written)
    }
}

/// Fills the buffer unless the source ends: one read of a pipe may return less.
fn fill(source: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

fn share(done: u64, all: u64) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!("{} of {} MiB", mib(done), mib(all.max(done)))
}
