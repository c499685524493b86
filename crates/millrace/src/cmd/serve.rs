//! `millrace serve`: the filer.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use filer::admin::AdminSocket;
use filer::exports::Exports;
use filer::policy::{Policy, Rights, Squash};
use filer::server::Server;
use filer::{Export, Filer, sys};
use volume::medium::{Medium, Profile};
use volume::{LossConfig, OpenError, Volume};

use crate::complain::{hinted, refusal};

/// The path every filer serves its directory under.
const EXPORT: &str = "/vol";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The directory to serve, as export /vol
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Address and port; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    listen: SocketAddr,
    /// Where the filer keeps its own few records, never below DIR [default: $XDG_STATE_HOME/millrace, for root /var/lib/millrace, in a folder for DIR]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Path of the admin socket [default: admin.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    admin: Option<PathBuf>,
    /// Print one JSON line on stdout when ready
    #[arg(long)]
    json: bool,
    /// Let root on a client be root here
    #[arg(long)]
    no_root_squash: bool,
    /// Test switch: remember what is not yet promised stable, so that `millrace volume power-cut` can take it back
    #[arg(long)]
    loss_layer: bool,
    /// Answer as if DIR lay on this medium: a profile (fc15k, fc10k, sata, nvme, nvram-array, cloud), keys, or both
    #[arg(long, value_name = "PROFILE,KEY=VALUE,…")]
    medium: Option<String>,
    /// With --loss-layer: the seed by which some of it survives a cut; 0: nothing does
    #[arg(long, value_name = "N", requires = "loss_layer", default_value_t = 0)]
    loss_seed: u64,
}

const AFTER_HELP: &str = "\
Examples:
  millrace serve /srv/db                                serve on 127.0.0.1:2049
  millrace serve /srv/db --listen 0.0.0.0:2049          serve other machines too
  millrace serve . --listen 127.0.0.1:0 --json          any free port, said on stdout
  millrace serve . --medium spindles=80,service_ms=8    answer as slowly as 80 disks would (docs/media.md)
  mount -t nfs -o vers=3,nolock,port=2049,mountport=2049,tcp 127.0.0.1:/vol /mnt

As root the filer serves every user and checks their rights itself; as another user it serves only that one.
Anyone who reaches the port can claim any uid (AUTH_SYS): listen where only trusted machines reach.
SIGTERM or SIGINT ends it cleanly. The log goes to stderr; MILLRACE_LOG=debug says more.

Exit codes: 0 stopped when asked to, everything flushed; 1 the last flush failed; 2 could not start.";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    init_log();
    // Before any thread is started, so that none of them is hit.
    let signals = sys::StopSignals::block();
    sys::ignore_file_size_signal();
    sys::keep_memory_small();
    let (server, admin) = start(&args)?;
    admin.serve(&server).context("cannot start a thread for the admin socket")?;
    let (stopped, waiting) = (Arc::clone(&server), Arc::clone(&server));
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let signal = signals.wait();
            tracing::info!(signal, "stop asked for");
            stopped.stop();
        })
        .context("cannot start a thread for signals")?;
    let flushed = waiting.run();
    drop(admin);
    if let Err(error) = flushed {
        tracing::error!(%error, "the last flush failed: what was written without a commit may be lost");
        return Ok(ExitCode::from(1));
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Everything up to the line that says ready.
fn start(args: &Args) -> anyhow::Result<(Arc<Server>, AdminSocket)> {
    let dir = directory(&args.dir)?;
    let medium = args.medium.as_deref().map(medium).transpose()?;
    let (uid, gid) = sys::effective_ids();
    let state_dir = match &args.state {
        Some(state) => state.clone(),
        None => default_state(&dir, uid)?,
    };
    let loss = args.loss_layer.then_some(LossConfig { seed: args.loss_seed });
    let config = volume::Config { dir: dir.clone(), state_dir: state_dir.clone(), loss };
    let volume = Volume::open(config).map_err(|error| cannot_open(&dir, error))?;
    let listener = TcpListener::bind(args.listen).map_err(|error| cannot_listen(args.listen, &error))?;
    let address = listener.local_addr().context("cannot learn the address listened on")?;
    let admin_path = args.admin.clone().unwrap_or_else(|| state_dir.join("admin.sock"));
    let admin = AdminSocket::bind(&admin_path).map_err(|error| cannot_bind_admin(&admin_path, &error))?;
    let export = Export::new(EXPORT.trim_start_matches('/'), EXPORT, volume);
    let export = match medium {
        Some(medium) => {
            tracing::info!(medium = %medium.profile(), "answers wait for a modelled medium");
            export.on_medium(medium)
        }
        None => export,
    };
    let verifier = format_args!("{:016x}", u64::from_be_bytes(export.volume().verifier())).to_string();
    tracing::info!(dir = %dir.display(), %address, state = %state_dir.display(), %verifier, "serving {EXPORT}");
    if uid != 0 {
        tracing::info!(uid, "not root: requests of this uid only");
    }
    if args.loss_layer {
        tracing::warn!(seed = args.loss_seed, "loss layer on: for tests, not for service");
    }
    let squash = if args.no_root_squash { Squash::None } else { Squash::Root };
    let policy = Policy::open(Rights { squash, ..Rights::default() });
    let only = (uid != 0).then_some((uid, gid));
    let filer = Filer::new(filer::Config { exports: Exports::one(export, policy), only, port: address.port() });
    let server = Server::new(filer, listener);
    say_ready(args, address, &dir, &admin_path)?;
    Ok((server, admin))
}

/// The medium of that text, or what is wrong with it.
fn medium(text: &str) -> anyhow::Result<Medium> {
    let profile = Profile::parse(text).map_err(|error| {
        let hint = error.hint();
        hinted(anyhow!(error).context(format!("cannot use --medium {text}")), hint)
    })?;
    Ok(Medium::new(profile))
}

fn say_ready(args: &Args, address: SocketAddr, dir: &Path, admin: &Path) -> anyhow::Result<()> {
    let port = address.port();
    // A wildcard address is nobody's: on this host, loopback reaches it.
    let host = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => "127.0.0.1".to_owned(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => "[::1]".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let url = format!("nfs://{host}:{port}{EXPORT}?nfsport={port}&mountport={port}");
    let mut out = std::io::stdout().lock();
    let said = if args.json {
        let admin = std::path::absolute(admin).unwrap_or_else(|_| admin.to_path_buf());
        writeln!(out, "{}", serde_json::json!({"nfs": url, "admin": admin, "pid": std::process::id()}))
    } else {
        writeln!(out, "serving {} as {url}", dir.display())
    };
    said.and_then(|()| out.flush()).context("cannot write to stdout")
}

/// The served directory, or what is wrong with it.
fn directory(dir: &Path) -> anyhow::Result<PathBuf> {
    let shown = dir.display();
    let path = dir.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => refusal(format!("cannot serve {shown}: no such directory"), format!("mkdir -p {shown}")),
        ErrorKind::PermissionDenied => {
            refusal(format!("cannot serve {shown}: permission denied"), "run as a user who may enter it, or as root")
        }
        _ => anyhow!(error).context(format!("cannot serve {shown}")),
    })?;
    if !path.is_dir() {
        return Err(refusal(format!("cannot serve {shown}: not a directory"), "name the directory the file is in"));
    }
    Ok(path)
}

/// `$XDG_STATE_HOME/millrace/…`, or /var/lib/millrace for root: a folder named after the directory, told from others of
/// that name by a hash of the whole path.
fn default_state(dir: &Path, uid: u32) -> anyhow::Result<PathBuf> {
    let base = if uid == 0 {
        PathBuf::from("/var/lib/millrace")
    } else {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .ok_or_else(|| {
                refusal("cannot choose a state directory: neither XDG_STATE_HOME nor HOME is set", "name one with --state DIR")
            })?
            .join("millrace")
    };
    // FNV-1a: the name must be the same in every later version.
    let hash = dir
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let name = dir.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    Ok(base.join(format!("{name}-{hash:016x}")))
}

fn cannot_open(dir: &Path, error: OpenError) -> anyhow::Error {
    let hint = match &error {
        OpenError::Directory { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "run as a user who may read it, or as root".to_owned()
        }
        OpenError::StateInside { .. } => "name a directory elsewhere with --state DIR".to_owned(),
        OpenError::State { path, source } if source.kind() == ErrorKind::PermissionDenied => {
            format!("make {} writable for this user, or name another with --state DIR", path.display())
        }
        OpenError::InUse { .. } => "stop that filer first, or serve another directory with another --state DIR".to_owned(),
        _ => String::new(),
    };
    let error = anyhow!(error).context(format!("cannot serve {}", dir.display()));
    hinted(error, hint)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => refusal(
            format!("cannot listen on {address}: the port is in use"),
            format!("choose another, or any free one: --listen {}:0", address.ip()),
        ),
        ErrorKind::PermissionDenied => refusal(
            format!("cannot listen on {address}: ports below 1024 need root"),
            "choose a port from 1024, give the program CAP_NET_BIND_SERVICE, or lower net.ipv4.ip_unprivileged_port_start",
        ),
        ErrorKind::AddrNotAvailable => {
            refusal(format!("cannot listen on {address}: not an address of this machine"), "see `ip address` for those it has")
        }
        _ => anyhow!("cannot listen on {address}: {error}"),
    }
}

fn cannot_bind_admin(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "a filer answers there, or a file stands there: name another path with --admin PATH",
        ErrorKind::InvalidInput => "a socket path has to be shorter than 108 bytes: name another with --admin PATH",
        ErrorKind::NotFound => "its directory does not exist: make it, or name another path with --admin PATH",
        _ => "name another path with --admin PATH",
    };
    refusal(format!("cannot make the admin socket {shown}: {error}"), hint)
}

fn init_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG").unwrap_or_else(|_| "info".into());
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}
