//! `millrace serve`: the filer.

mod listen;
mod plan;
mod ready;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use filer::admin::AdminSocket;
use filer::metrics::Endpoint;
use filer::server::Server;
use filer::{Filer, ListenerRole, sys};

use plan::Plan;
use ready::Ready;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The directory to serve, as export /vol
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Serve what this file says, several volumes with rules of their own (docs/filer.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_DIRECTORY)]
    config: Option<PathBuf>,
    /// Address and port; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    listen: SocketAddr,
    /// Where the filer keeps its own few records, never below DIR [default: $XDG_STATE_HOME/millrace, for root /var/lib/millrace, in a folder for DIR]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Path of the admin socket [default: admin.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    admin: Option<PathBuf>,
    /// Tell counters and latencies over HTTP here, at /metrics; a port alone is one of 127.0.0.1, 0 any free one (docs/filer.md)
    #[arg(long, value_name = "ADDR:PORT", value_parser = address_or_port)]
    metrics: Option<SocketAddr>,
    /// How a line of the log is written; with json it is an object
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Print one JSON line on stdout when ready
    #[arg(long)]
    json: bool,
    /// Let root on a client be root here
    #[arg(long)]
    no_root_squash: bool,
    /// Test switch: remember what is not yet promised stable, so that `millrace volume power-cut` can take it back
    #[arg(long)]
    loss_layer: bool,
    /// Set a fault from the start: KIND,key=value,… (docs/faults.md); may be given several times
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Answer as if DIR lay on this medium: a profile (fc15k, fc10k, sata, nvme, nvram-array, cloud), keys, or both
    #[arg(long, value_name = "PROFILE,KEY=VALUE,…")]
    medium: Option<String>,
    /// Who keeps what is promised stable through a power cut: sync, or battery where the host keeps its memory
    #[arg(long, value_name = "sync|battery", default_value_t, conflicts_with = "loss_layer")]
    durability: volume::Durability,
    /// How data passes the page cache: cached, direct or dropbehind
    #[arg(long, value_name = "MODE", default_value_t)]
    cache: volume::CacheMode,
    /// What the host reads beside what was asked for: what it thinks comes next, or nothing
    #[arg(long, value_name = "host|minimal", default_value_t)]
    read_ahead: volume::ReadAhead,
    /// With --loss-layer: the seed by which some of it survives a cut; 0: nothing does
    #[arg(long, value_name = "N", requires = "loss_layer", default_value_t = 0)]
    loss_seed: u64,
    #[command(flatten)]
    under: tls::TlsArgs,
}

/// What is said in the file, if there is one.
const OF_ONE_DIRECTORY: [&str; 17] = [
    "dir",
    "listen",
    "state",
    "admin",
    "metrics",
    "no_root_squash",
    "loss_layer",
    "medium",
    "durability",
    "cache",
    "read_ahead",
    "loss_seed",
    "tls",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "fault",
];

#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  millrace serve /srv/db                                serve on 127.0.0.1:2049
  millrace serve /srv/db --listen 0.0.0.0:2049          serve other machines too
  millrace serve . --listen 127.0.0.1:0 --json          any free port, said on stdout
  millrace serve . --medium spindles=80,service_ms=8    answer as slowly as 80 disks would (docs/media.md)
  millrace serve --config /etc/millrace/filer.toml      several volumes, each with its own rules (docs/filer.md)
  millrace serve . --tls required --tls-cert filer.pem --tls-key filer.key    no byte in the clear
  millrace serve . --metrics 9100 --log-format json     counters for a collector, a log for a machine
  mount -t nfs -o vers=3,nolock,port=2049,mountport=2049,tcp 127.0.0.1:/vol /mnt

As root the filer serves every user and checks their rights itself; as another user it serves only that one.
Anyone who reaches the port can claim any uid (AUTH_SYS): listen where only trusted machines reach, or serve under
TLS only those with a certificate (--tls mutual).
SIGTERM or SIGINT ends it cleanly; with --config, SIGHUP or `millrace volume reload` reads the file again. The log goes to stderr; MILLRACE_LOG=debug says more.

Exit codes: 0 stopped when asked to, everything flushed; 1 the last flush failed; 2 could not start.";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    init_log(args.log_format);
    // Before any thread is started, so that none of them is hit.
    let signals = sys::Signals::block(args.config.is_some());
    sys::ignore_file_size_signal();
    sys::raise_descriptor_limit(filer::limits::DESCRIPTORS_WANTED);
    sys::keep_memory_small();
    let (server, admin, metrics) = start(&args)?;
    admin.serve(&server).context("cannot start a thread for the admin socket")?;
    metrics.map_or(Ok(()), |endpoint| endpoint.serve(&server)).context("cannot start a thread for metrics")?;
    let (ordered, waiting) = (Arc::clone(&server), Arc::clone(&server));
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || obey(&signals, &ordered))
        .context("cannot start a thread for signals")?;
    ready::notify("READY=1");
    let flushed = waiting.run();
    ready::notify("STOPPING=1");
    drop(admin);
    if let Err(error) = flushed {
        tracing::error!(%error, "the last flush failed: what was written without a commit may be lost");
        return Ok(ExitCode::from(1));
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Does what signals ask for, until one says stop.
fn obey(signals: &sys::Signals, server: &Arc<Server>) {
    loop {
        match signals.wait() {
            sys::Signal::Stop(signal) => {
                tracing::info!(signal, "stop asked for");
                return server.stop();
            }
            sys::Signal::Reload => {
                // What went wrong is in the log.
                let _ = server.reload();
            }
        }
    }
}

/// Everything up to the line that says ready.
fn start(args: &Args) -> anyhow::Result<(Arc<Server>, AdminSocket, Option<Endpoint>)> {
    let (uid, gid) = sys::effective_ids();
    let plan = match &args.config {
        Some(file) => plan::from_file(file, uid)?,
        None => plan::from_arguments(args, uid)?,
    };
    let Plan { exports, listen, portmap, admin: admin_path, metrics, tls, setup } = plan;
    let listeners = listen::bind(&listen, &portmap)?;
    let (listen, portmap) = (listen::addresses(&listeners, ListenerRole::Nfs)?, listen::addresses(&listeners, ListenerRole::Portmap)?);
    let admin = AdminSocket::bind(&admin_path).map_err(|error| listen::cannot_bind_admin(&admin_path, &error))?;
    let metrics = metrics.map(listen::bind_metrics).transpose()?;
    tracing::info!(addresses = ?listen, "listening");
    if uid != 0 {
        tracing::info!(uid, "not root: requests of this uid only");
    }
    let port = listen.first().map_or(0, SocketAddr::port);
    let filer = Filer::new(filer::Config { exports, only: (uid != 0).then_some((uid, gid)), port });
    filer.set_tls(tls);
    let server = Server::new(filer, listeners, setup);
    let dir = args.config.is_none().then(|| args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone()));
    let (listen, portmap, metrics_at) = (&listen, &portmap, metrics.as_ref().map(Endpoint::address));
    let ready = Ready { json: args.json, dir: dir.as_deref(), listen, portmap, admin: &admin_path, metrics: metrics_at };
    ready.say(&server.filer().exports())?;
    Ok((server, admin, metrics))
}

/// An address and port, or a port of this host alone.
fn address_or_port(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "give ADDR:PORT or a port, as in 127.0.0.1:9100, [::1]:9100 or 9100".to_owned())
}

fn init_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG").unwrap_or_else(|_| "info".into());
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(colours).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
