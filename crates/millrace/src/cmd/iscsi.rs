//! `millrace iscsi`: LUNs of an iSCSI target, without the kernel, and as block devices by the
//! kernel's initiator or Millrace's own.

mod attach;
mod attached;
mod bench;
mod detach;
mod discover;
mod kernel_record;
mod kernel_sessions;
mod list;

use crate::error_printing::print_error;
use anyhow::Context as _;
use initiator::{IscsiUrl, Options};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const AFTER_HELP: &str = "\
Examples:
  millrace iscsi discover iscsi://127.0.0.1
  millrace iscsi bench iscsi://filer/iqn.2026-11.org.example:vol/0 --depth 32
  millrace iscsi bench iscsi://10.0.0.1,10.0.1.1/iqn.2026-11.org.example:vol/0 --depth 128 --json
  millrace iscsi bench iscsi://filer/iqn.2026-11.org.example:vol/1 --rw randwrite --fua --overwrite
  millrace iscsi attach iscsi://filer/iqn.2026-11.org.example:vol/2 --mkfs xfs --mount /srv/db
  millrace iscsi attach iscsi://filer/iqn.2026-11.org.example:vol/3 --json
  millrace iscsi attach iscsi://filer/IQN/4 iscsi://filer/IQN/5 --mkfs btrfs --mount /srv/striped
  millrace iscsi attach iscsi://10.0.0.1,10.0.1.1/IQN/6 --client open-iscsi
  millrace iscsi list
  millrace iscsi detach /srv/db
  millrace iscsi detach --all

URL: iscsi://[USER%SECRET@]HOST[:PORT][,HOST2[:PORT2]…]/IQN/LUN, as `millrace lun list` shows it;
several hosts are portals of one target, used together. In a secret write / as %2F, ? as %3F, @ as
%40, and % before two hexadecimal digits as %25. Options after ?: header_digest=crc32c,
data_digest=crc32c, chap_algs=sha256,sha1,md5, target_user, target_password. Other users can read
arguments, so pass secrets in LIBISCSI_CHAP_USERNAME, LIBISCSI_CHAP_PASSWORD,
LIBISCSI_CHAP_TARGET_USERNAME and LIBISCSI_CHAP_TARGET_PASSWORD. The initiator's name is read from
/etc/iscsi/initiatorname.iscsi.

Exit codes: 0 done; 1 the target refused it (login, no such LUN, reserved, …); 2 could not run
(arguments, no portal answers).";

#[derive(clap::Subcommand)]
enum Action {
    /// List the targets of a portal and their addresses
    Discover(discover::Discover),
    /// Measure reads or writes: IOPS, latency, client CPU
    Bench(bench::Bench),
    /// Make LUNs block devices of this host, optionally with a file system; needs root
    Attach(attach::Attach),
    /// Detach a LUN: unmount it, remove the block device, log out
    Detach(detach::Detach),
    /// List the LUNs that are attached, with their paths
    List(list::List),
    /// Serve an attached LUN to the kernel; started by `attach`
    #[command(hide = true)]
    AttachDaemon(attach::daemon::AttachDaemon),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let outcome = match &args.action {
        Action::Discover(discover) => discover::run(discover),
        Action::Bench(bench) => bench::run(bench),
        Action::Attach(attach) => attach::run(attach),
        Action::Detach(detach) => detach::run(detach),
        Action::List(list) => list::run(list),
        Action::AttachDaemon(daemon) => attach::daemon::run(daemon),
    };
    let Err(error) = outcome else { return Ok(ExitCode::SUCCESS) };
    print_error(&error);
    let refused = error.downcast_ref::<initiator::Error>().is_some_and(initiator::Error::is_refusal)
        || error.downcast_ref::<initiator::Failure>().is_some()
        || error.downcast_ref::<attach::Refused>().is_some();
    Ok(ExitCode::from(if refused { 1 } else { 2 }))
}

/// Parses the URL. The initiator's name is `name`, or else that of the host.
fn url_and_options(url: &str, name: Option<&str>) -> anyhow::Result<(IscsiUrl, Options)> {
    let url: IscsiUrl = url.parse().context("use the URL")?;
    let mut options = Options::for_portals(url.portals.len());
    if let Some(name) = name {
        options.set_name(name).with_context(|| format!("use {name:?} as the initiator's name"))?;
    }
    Ok((url, options))
}

/// Describes the failures of a path. An attempt to bring the path up again that fails does not
/// count as going down.
fn trouble(downs: u64, failures: u64, error: Option<&str>) -> Option<String> {
    let error = error?;
    match (downs, failures) {
        (0, 0) => None,
        (0, 1) => Some(format!("1 attempt failed: {error}")),
        (0, failures) => Some(format!("{failures} attempts failed, last: {error}")),
        (1, _) => Some(format!("went down once, last: {error}")),
        (downs, _) => Some(format!("went down {downs} times, last: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::trouble;

    #[test]
    fn the_times_that_a_path_went_down_are_reported_and_not_its_retries() {
        let said = |downs, failures| trouble(downs, failures, Some("refused"));
        assert_eq!((said(0, 0), trouble(1, 1, None)), (None, None));
        assert_eq!(said(1, 9).as_deref(), Some("went down once, last: refused"));
        assert_eq!(said(2, 9).as_deref(), Some("went down 2 times, last: refused"));
        assert_eq!(said(0, 9).as_deref(), Some("9 attempts failed, last: refused"));
    }
}
