//! The arguments of `millrace serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use filer::address_or_port;

use super::tls::TlsArgs;
use crate::cmd::values::whole;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The directory to serve, as export /vol; required without --config
    pub(super) dir: Option<PathBuf>,
    /// Serve the volumes of this configuration file, each with its own rules. Most other options are then keys of the file: for
    /// --metrics write metrics = "127.0.0.1:9749" in [filer] (docs/filer.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_DIRECTORY)]
    pub(super) config: Option<PathBuf>,
    /// Address and port to listen on; a port alone means 127.0.0.1, port 0 any free port; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049", value_parser = address_or_port)]
    pub(super) listen: Vec<SocketAddr>,
    /// Serve LUNs (`millrace lun create`) over iSCSI at this address and port; a port alone means 127.0.0.1, port 0 any free
    /// port. Given several times, each is a portal group, for initiators with several paths
    #[arg(long, value_name = "ADDR:PORT", value_parser = address_or_port)]
    pub(super) iscsi: Vec<SocketAddr>,
    /// Directory of the filer's own state, outside DIR [default: a subdirectory for DIR in $XDG_STATE_HOME/millrace or
    /// ~/.local/state/millrace; for root in /var/lib/millrace]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Path of the admin socket [default: admin.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    pub(super) admin: Option<PathBuf>,
    /// Serve /metrics for Prometheus at this address and port; a port alone means 127.0.0.1, port 0 any free port (docs/filer.md)
    #[arg(long, value_name = "ADDR:PORT", value_parser = address_or_port)]
    pub(super) metrics: Option<SocketAddr>,
    /// Format of the log: text, or one JSON object per line
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// Print one JSON line on stdout when ready; --log-format json implies it
    #[arg(long)]
    pub(super) json: bool,
    /// Let root of a client be root here, as no_root_squash in exports(5)
    #[arg(long)]
    pub(super) no_root_squash: bool,
    /// For tests: keep track of writes that are not yet on stable storage, so that `millrace volume power-cut` can discard them
    #[arg(long)]
    pub(super) loss_layer: bool,
    /// Inject a fault from the start: KIND,key=value,… (docs/faults.md); may be given several times
    #[arg(long, value_name = "FAULT")]
    pub(super) fault: Vec<String>,
    /// Reply as slowly as this storage medium would: a profile (such as fc15k, nvme or cloud), keys, or both
    #[arg(long, value_name = "PROFILE,KEY=VALUE,…", value_hint = clap::ValueHint::Other)]
    pub(super) medium: Option<String>,
    /// When a write counts as stable: sync, once it is flushed to the disk; battery, at once, because the host's memory survives
    /// a power cut (not with --loss-layer)
    #[arg(long, value_name = "sync|battery", value_hint = clap::ValueHint::Other, default_value_t, conflicts_with = "loss_layer")]
    pub(super) durability: volume::Durability,
    /// Use of the page cache: cached, write-around (stable writes by O_DIRECT), direct (reads
    /// too) or dropbehind (written, then dropped)
    #[arg(long, value_name = "MODE", default_value_t, hide_possible_values = true, value_parser = cache_mode())]
    pub(super) cache: volume::CacheMode,
    /// Read-ahead from the disk: host, as the host decides; minimal, only what a client reads
    #[arg(long, value_name = "host|minimal", value_hint = clap::ValueHint::Other, default_value_t)]
    pub(super) read_ahead: volume::ReadAhead,
    /// Declare that only this filer changes DIR. Replies then have pre-operation attributes, so clients keep more of their caches
    /// (docs/filer.md)
    #[arg(long)]
    pub(super) exclusive: bool,
    /// With --loss-layer: the seed that decides which unstable writes survive a power cut; with 0 all are lost
    #[arg(long, value_name = "N", requires = "loss_layer", default_value_t = 0,
          value_parser = whole("", 0..=u64::MAX, 7))]
    pub(super) loss_seed: u64,
    /// For tests: act as if the host had booted under this id, so that a start with another one is a reboot
    #[arg(long, value_name = "UUID", hide = true)]
    pub(super) boot_id: Option<volume::BootId>,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
}

/// Options that cannot be combined with --config.
const OF_ONE_DIRECTORY: [&str; 20] = [
    "dir",
    "listen",
    "iscsi",
    "state",
    "admin",
    "metrics",
    "no_root_squash",
    "loss_layer",
    "medium",
    "durability",
    "cache",
    "read_ahead",
    "exclusive",
    "loss_seed",
    "boot_id",
    "tls",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "fault",
];

/// Parses a cache mode as the volume does. The list of values is for shell completions.
fn cache_mode() -> impl TypedValueParser<Value = volume::CacheMode> {
    PossibleValuesParser::new(["cached", "write-around", "direct", "dropbehind"]).try_map(|word| word.parse())
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  millrace serve /srv/db                              serve on 127.0.0.1:2049
  millrace serve /srv/db --listen 0.0.0.0:2049        serve other machines too
  millrace serve . --listen 127.0.0.1:0 --json        any free port, printed on stdout
  millrace serve . --medium spindles=80,service_ms=8  reply as slowly as 80 disks would
  millrace serve . --iscsi 127.0.0.1:3260             LUNs over iSCSI too (millrace lun)
  millrace serve --config /etc/millrace/filer.toml    several volumes, each with its own rules
  millrace serve . --tls required --tls-cert filer.pem --tls-key filer.key  TLS only
  millrace serve . --metrics 9749 --log-format json   counters for Prometheus, the log as JSON
  mount -t nfs -o vers=3,nolock,port=2049,mountport=2049,tcp 127.0.0.1:/vol /mnt

As root the filer serves every user and checks their permissions itself; as another user it serves
only that one. Anyone who reaches the port can claim any uid (AUTH_SYS): listen only on a network of
trusted machines, or require client certificates (--tls mutual). SIGTERM or SIGINT ends it cleanly;
with --config, SIGHUP or `millrace volume reload` reads the file again. The log goes to stderr;
MILLRACE_LOG=debug logs more.

Exit codes: 0 stopped on request, all data is flushed; 1 the last flush failed; 2 could not start.";
