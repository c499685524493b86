//! `millrace serve`: the filer.

mod arguments;
mod listen;
mod plan;
mod ready;
mod tls;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use filer::admin::AdminSocket;
use filer::metrics::Endpoint;
use filer::server::Server;
use filer::setup::log_served;
use filer::{Filer, ListenerRole, sys};

use crate::error_printing::log_error;
pub(crate) use arguments::Args;
use arguments::LogFormat;
use plan::Plan;
use ready::Ready;
use volume::Volume;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    init_log(args.log_format);
    match serve(&args) {
        // With --log-format json every line on stderr must be JSON.
        Err(error) if args.log_format == LogFormat::Json => {
            log_error(&error);
            Ok(ExitCode::from(2))
        }
        other => other,
    }
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    // These signals are blocked before any thread starts, so that no thread receives them.
    let signals = sys::Signals::block(args.config.is_some());
    sys::ignore_file_size_signal();
    sys::raise_descriptor_limit(filer::limits::DESCRIPTORS_WANTED);
    sys::keep_memory_small();
    let (server, admin, metrics) = start(args)?;
    admin.serve(&server).context("start a thread for the admin socket")?;
    metrics.map_or(Ok(()), |endpoint| endpoint.serve(&server)).context("start a thread for metrics")?;
    let (ordered, waiting) = (Arc::clone(&server), Arc::clone(&server));
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || obey(&signals, &ordered))
        .context("start a thread for signals")?;
    ready::notify("READY=1");
    let flushed = waiting.run();
    ready::notify("STOPPING=1");
    drop(admin);
    if let Err(error) = flushed {
        tracing::error!(%error, "the last flush failed: data written without a COMMIT may be lost");
        return Ok(ExitCode::from(1));
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Handles signals until one stops the filer.
fn obey(signals: &sys::Signals, server: &Arc<Server>) {
    loop {
        match signals.wait() {
            sys::Signal::Stop(signal) => {
                tracing::info!(signal, "stopping on a signal");
                return server.stop();
            }
            sys::Signal::Reload => {
                // The log has the error.
                let _ = server.reload();
            }
        }
    }
}

/// Starts the filer, up to the line that reports that it is ready.
fn start(args: &Args) -> anyhow::Result<(Arc<Server>, AdminSocket, Option<Endpoint>)> {
    let (uid, gid) = sys::effective_ids();
    let plan = match &args.config {
        Some(file) => plan::from_file(file, uid)?,
        None => plan::from_arguments(args, uid)?,
    };
    let exports = plan.exports.entries().iter();
    let volumes: Vec<Volume> = exports.map(|entry| entry.export.volume().clone()).collect();
    // A start that fails removes the state that it made.
    let started = start_with(args, plan, (uid, gid));
    started.inspect_err(|_| volumes.iter().for_each(Volume::discard_new_state))
}

/// Starts with open volumes. It logs what the filer serves after all sockets are bound.
fn start_with(args: &Args, plan: Plan, (uid, gid): (u32, u32)) -> anyhow::Result<(Arc<Server>, AdminSocket, Option<Endpoint>)> {
    let Plan { exports, listen, portmap, admin: admin_path, metrics, iscsi, tls, setup } = plan;
    let from_file = args.config.is_some();
    let listeners = listen::bind(&listen, &portmap, &iscsi.portals, from_file)?;
    let (listen, portmap) =
        (listen::addresses(&listeners, ListenerRole::Nfs)?, listen::addresses(&listeners, ListenerRole::Portmap)?);
    let (portals, datagrams) = (listen::portals(&listeners)?, listen::bind_datagrams(&portmap)?);
    let metrics = metrics.map(|address| listen::bind_metrics(address, from_file)).transpose()?;
    let admin = AdminSocket::bind(&admin_path).map_err(|error| listen::cannot_bind_admin(&admin_path, &error, from_file))?;
    exports.entries().iter().for_each(|entry| log_served(&entry.export));
    if let Some(medium) = &args.medium {
        tracing::info!(%medium, "replies wait for a modelled medium");
    }
    if args.loss_layer {
        tracing::warn!(seed = args.loss_seed, "loss layer on: for tests, not for service");
    }
    let all = |addresses: &[SocketAddr]| {
        (!addresses.is_empty()).then(|| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    };
    let metrics_shown = metrics.as_ref().map(|endpoint| endpoint.address().to_string());
    tracing::info!(
        addresses = all(&listen),
        portals = all(&portals),
        portmap = all(&portmap),
        metrics = metrics_shown,
        "listening"
    );
    if args.config.is_none() && args.tls.is_optional() && listen.iter().any(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            addresses = all(&listen),
            "anyone who reaches these addresses can read and write the files as any user (TLS is not required); --config FILE can restrict clients, --tls required demands TLS"
        );
    }
    if uid != 0 {
        tracing::info!(uid, "not root: requests of this uid only");
    }
    let port = listen.first().map_or(0, SocketAddr::port);
    let dir = exports.entries().first().filter(|_| args.config.is_none()).map(|entry| entry.export.volume().dir().to_path_buf());
    let filer = Filer::new(filer::Config { exports, only: (uid != 0).then_some((uid, gid)), port });
    filer.set_tls(tls);
    let server = Server::new(filer, listeners, setup, iscsi);
    for socket in datagrams {
        filer::nfs::portmap_datagrams::serve(socket, server.shared_filer()).context("start a thread for portmap")?;
    }
    let (listen, portmap, metrics_at) = (&listen, &portmap, metrics.as_ref().map(Endpoint::address));
    let ready = Ready {
        json: args.json || args.log_format == LogFormat::Json,
        dir: dir.as_deref(),
        listen,
        portmap,
        portals: &portals,
        admin: &admin_path,
        metrics: metrics_at,
    };
    ready.say(&server.filer().exports(), server.targets())?;
    Ok((server, admin, metrics))
}

fn init_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG").unwrap_or_else(|_| "info".into());
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A log line that cannot be written is dropped. Otherwise tracing reports the error on stderr,
    // and a failed write there is a panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_ansi(colours).init(),
        LogFormat::Json => {
            log.json().flatten_event(true).init();
            std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "internal error")));
        }
    }
}
