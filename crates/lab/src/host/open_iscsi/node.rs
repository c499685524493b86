//! Records of open-iscsi's database: iscsiadm(8).

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::host::process::Launch;
use crate::limits::{ISCSI_ADMIN_MAX, ISCSI_LOGIN_MAX};

/// Commands that a session keeps for itself beside those of SCSI. Source: `ISCSI_MGMT_CMDS_MAX` in include/scsi/libiscsi.h of Linux.
const OWN_COMMANDS: u32 = 15;
/// Fewest and most commands of a session; a power of two. Source: iscsid.conf, `node.session.cmds_max`.
const COMMANDS: std::ops::RangeInclusive<u32> = 128..=2048;
/// Seconds without a connection after which commands fail, and dm-multipath takes another path.
const REPLACEMENT_S: u32 = 15;
/// Exit code of iscsiadm(8) where there is no such record or session: ISCSI_ERR_NO_OBJS_FOUND.
const NOTHING_FOUND: i32 = 21;

/// A portal of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    target: String,
    portal: SocketAddr,
    group: u16,
}

impl Node {
    pub(super) fn of(target: &str, (portal, group): (SocketAddr, u16)) -> Self {
        Self { target: target.to_owned(), portal, group }
    }

    /// Makes its record by hand, with settings that do not depend on those of this host, and that no boot logs in to.
    pub(super) fn make(&self, depth: u32, log: &Path) -> Result<(), LabError> {
        run(&self.new_words(), log, ISCSI_ADMIN_MAX)?;
        run(&self.update_words(depth), log, ISCSI_ADMIN_MAX)
    }

    pub(super) fn login(&self, log: &Path) -> Result<(), LabError> {
        let mut words = self.words();
        words.push("--login".to_owned());
        run(&words, log, ISCSI_LOGIN_MAX)
    }

    fn words(&self) -> Vec<String> {
        ["-m", "node", "-T", &self.target, "-p", &self.portal.to_string()].map(str::to_owned).to_vec()
    }

    fn new_words(&self) -> Vec<String> {
        let portal = format!("{},{}", self.portal, self.group);
        ["-m", "node", "-o", "new", "-T", &self.target, "-p", &portal].map(str::to_owned).to_vec()
    }

    fn update_words(&self, depth: u32) -> Vec<String> {
        let commands = (depth + OWN_COMMANDS).next_power_of_two().clamp(*COMMANDS.start(), *COMMANDS.end());
        let settings = [
            ("node.startup", "manual".to_owned()),
            ("node.session.auth.authmethod", "None".to_owned()),
            ("node.session.queue_depth", depth.to_string()),
            ("node.session.cmds_max", commands.to_string()),
            ("node.session.timeo.replacement_timeout", REPLACEMENT_S.to_string()),
        ];
        let mut words = self.words();
        words.extend(["-o", "update"].map(str::to_owned));
        for (name, value) in settings {
            words.extend(["-n".to_owned(), name.to_owned(), "-v".to_owned(), value]);
        }
        words
    }
}

fn run(words: &[String], log: &Path, limit: std::time::Duration) -> Result<(), LabError> {
    let mut command = Command::new("iscsiadm");
    command.args(words).current_dir("/");
    Launch::new("iscsiadm", command, log.to_owned()).run(limit)
}

/// Logs out of all portals of a target and removes their records; nothing to do is no error. Also after Ctrl-C.
pub(super) fn forget(target: &str) -> Result<(), String> {
    let logged_out = quiet(&["-m", "node", "-T", target, "--logout"]);
    logged_out.and(quiet(&["-m", "node", "-T", target, "-o", "delete"]))
}

fn quiet(words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("iscsiadm");
    command.args(words).current_dir("/").process_group(0).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(0 | NOTHING_FOUND) => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "iqn.2026-11.internal.millrace:volume.0123";

    fn node(portal: &str) -> Node {
        Node::of(TARGET, (portal.parse().unwrap(), 2))
    }

    #[test]
    fn a_record_has_the_portal_group_of_its_portal() {
        let words = node("127.0.0.1:3260").new_words().join(" ");
        assert_eq!(words, format!("-m node -o new -T {TARGET} -p 127.0.0.1:3260,2"));
        assert!(node("[::1]:3260").new_words().join(" ").ends_with("-p [::1]:3260,2"));
    }

    #[test]
    fn queue_depth_is_the_plans_and_the_session_has_commands_for_it_as_a_power_of_two() {
        let words = |depth| node("127.0.0.1:3260").update_words(depth).join(" ");
        for (depth, commands) in [(1, 128), (32, 128), (113, 128), (128, 256), (256, 512), (1024, 2048)] {
            let both = format!("-n node.session.queue_depth -v {depth} -n node.session.cmds_max -v {commands} ");
            assert!(words(depth).contains(&both), "{}", words(depth));
        }
        assert!(words(32).contains("-n node.startup -v manual") && words(32).contains("authmethod -v None"));
    }
}
