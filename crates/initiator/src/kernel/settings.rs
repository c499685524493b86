//! A portal of a target, and the settings of a session over it.

use super::error::KernelError;
use iscsi_proto::chap::{Algorithm, Credential};
use std::net::SocketAddr;
use std::time::Duration;

/// Commands that a session keeps for itself, in addition to those of SCSI. Source: `ISCSI_MGMT_CMDS_MAX` in
/// include/scsi/libiscsi.h of Linux.
const OWN_COMMANDS: u32 = 15;
/// Fewest and most commands of a session; a power of two. Source: iscsid.conf, `node.session.cmds_max`.
const COMMANDS: std::ops::RangeInclusive<u32> = 128..=2048;
/// Longest value of a name or a secret. Source: `AUTH_STR_MAX_LEN` of open-iscsi, with a zero at its end.
const SECRET_BYTES_MAX: usize = 255;

/// A portal of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Its address.
    pub address: SocketAddr,
    /// The tag of its portal group, if it is known.
    pub group: Option<u16>,
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Commands in progress for a LUN.
    pub depth: u32,
    /// How long commands wait for a connection. Then they fail or take another path.
    pub replacement_timeout: Duration,
    /// Whether headers and data must have CRC32C digests.
    pub digests: (bool, bool),
    /// The CHAP algorithms to offer. `None`: those of iscsid.conf.
    pub chap_algorithms: Option<Vec<Algorithm>>,
    /// The CHAP credential of this side.
    pub credential: Option<Credential>,
    /// The CHAP credential of the target.
    pub target_credential: Option<Credential>,
}

impl Settings {
    /// Settings that require no digests and no CHAP.
    #[must_use]
    pub const fn new(depth: u32, replacement_timeout: Duration) -> Self {
        Self {
            depth,
            replacement_timeout,
            digests: (false, false),
            chap_algorithms: None,
            credential: None,
            target_credential: None,
        }
    }

    /// The settings of a record, without its secrets.
    pub(super) fn values(&self) -> Vec<(&'static str, String)> {
        let commands = (self.depth + OWN_COMMANDS).next_power_of_two().clamp(*COMMANDS.start(), *COMMANDS.end());
        let method = if self.credential.is_some() { "CHAP" } else { "None" };
        let mut values = vec![
            ("node.startup", "manual".to_owned()),
            // Other LUNs of the target do not become disks: Millrace names to the kernel the LUN to search for.
            ("node.session.scan", "manual".to_owned()),
            ("node.session.auth.authmethod", method.to_owned()),
            ("node.session.queue_depth", self.depth.to_string()),
            ("node.session.cmds_max", commands.to_string()),
            ("node.session.timeo.replacement_timeout", self.replacement_timeout.as_secs().to_string()),
        ];
        // Not all versions know both settings. A digest that is not required is left as iscsid.conf has it.
        let digests = [("node.conn[0].iscsi.HeaderDigest", self.digests.0), ("node.conn[0].iscsi.DataDigest", self.digests.1)];
        values.extend(digests.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (name, "CRC32C".to_owned())));
        let names = self.chap_algorithms.iter().map(|list| list.iter().map(|one| one.name()).collect::<Vec<_>>().join(","));
        values.extend(names.map(|names| ("node.session.auth.chap_algs", names)));
        values
    }

    /// The lines of a record that have its secrets.
    pub(super) fn secrets(&self) -> Result<String, KernelError> {
        let mut lines = String::new();
        for (credential, of) in [(&self.credential, ""), (&self.target_credential, "_in")] {
            let Some(credential) = credential else { continue };
            let user = value(credential.name().as_bytes(), "user")?;
            let secret = value(credential.secret(), "secret")?;
            lines += &format!("node.session.auth.username{of} = {user}\nnode.session.auth.password{of} = {secret}\n");
        }
        Ok(lines)
    }
}

/// A value for a line of a record, which cannot begin or end with a space.
fn value<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, KernelError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= SECRET_BYTES_MAX && text.trim() == *text);
    text.filter(|text| !text.chars().any(char::is_control)).ok_or(KernelError::Secret { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(depth: u32) -> Settings {
        Settings::new(depth, Duration::from_secs(15))
    }

    fn words(settings: &Settings) -> String {
        settings.values().iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn a_session_has_commands_for_its_queue_depth_as_a_power_of_two() {
        for (depth, commands) in [(1, 128), (32, 128), (113, 128), (128, 256), (256, 512), (1024, 2048)] {
            let both = format!("node.session.queue_depth={depth} node.session.cmds_max={commands} ");
            let words = words(&settings(depth));
            assert!(words.contains(&both), "{words}");
        }
    }

    #[test]
    fn no_boot_logs_in_no_lun_comes_by_itself_and_no_secret_is_among_the_words() {
        let plain = words(&settings(32));
        assert!(plain.starts_with("node.startup=manual node.session.scan=manual node.session.auth.authmethod=None "), "{plain}");
        assert!(plain.ends_with("replacement_timeout=15 "), "no digest that is not asked for: {plain}");
        let mut guarded = settings(32);
        guarded.credential = Some(Credential::new("host", b"a secret of it").unwrap());
        guarded.target_credential = Some(Credential::new("filer", b"its own secret").unwrap());
        guarded.digests = (false, true);
        let words = words(&guarded);
        assert!(words.contains("authmethod=CHAP ") && words.ends_with("node.conn[0].iscsi.DataDigest=CRC32C "), "{words}");
        assert!(!words.contains("secret"), "{words}");
        let lines = "node.session.auth.username = host\nnode.session.auth.password = a secret of it\n\
                     node.session.auth.username_in = filer\nnode.session.auth.password_in = its own secret\n";
        assert_eq!(guarded.secrets().unwrap(), lines);
        assert_eq!(settings(1).secrets().unwrap(), "");
    }

    #[test]
    fn a_secret_that_a_line_does_not_hold_is_refused_and_not_shown() {
        for secret in ["twelve bytes ", " twelve bytes", "twelve\nbytes", "twelve\tbytes"] {
            let mut guarded = settings(32);
            guarded.credential = Some(Credential::new("host", secret.as_bytes()).unwrap());
            let error = guarded.secrets().unwrap_err().to_string();
            assert!(error.contains("the CHAP secret") && !error.contains("twelve"), "{error}");
        }
    }
}
