//! Records of open-iscsi's database, and logins with them, by iscsiadm(8).

use super::error::KernelError;
use super::program::{expect, failed, run};
use super::record;
use super::settings::{Portal, Settings};
use super::waiting::{Nobody, Waiting};
use std::time::Duration;

const PROGRAM: &str = "iscsiadm";
/// Exit codes of iscsiadm(8): ISCSI_ERR_SESS_NOT_FOUND, ISCSI_ERR_SESS_EXISTS, ISCSI_ERR_NO_OBJS_FOUND.
const NO_SESSION: i32 = 2;
const SESSION_EXISTS: i32 = 15;
const NOTHING_FOUND: i32 = 21;
/// Longest time of one call that reads or changes open-iscsi's records: it takes a second on an
/// emulated host.
const RECORD_MAX: Duration = Duration::from_secs(60);
/// Longest time of a login or logout: open-iscsi itself tries for two minutes.
const SESSION_MAX: Duration = Duration::from_secs(150);

/// A target at one of its portals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) target: &'a str,
    pub(super) portal: Portal,
}

/// How a login ended without an error.
pub(super) enum Login {
    Done,
    /// A session existed already.
    Exists,
}

impl Node<'_> {
    /// Makes the node's record, with settings that do not depend on those of this host. Replaces a record that an earlier
    /// attachment left when the host ended.
    ///
    /// # Errors
    /// [`KernelError::OthersRecord`] if another program made the record. If the settings cannot be
    /// stored, the record is deleted again.
    pub(super) fn make(&self, settings: &Settings, waiting: &dyn Waiting) -> Result<(), KernelError> {
        if self.is_recorded(waiting)? {
            if !self.file().is_some_and(|file| record::is_marked(&file)) {
                return Err(KernelError::OthersRecord { target: self.target.to_owned(), portal: self.portal() });
            }
            self.delete(waiting)?;
        }
        expect(PROGRAM, &self.new_words(), RECORD_MAX, waiting)?;
        let set = self.set(settings, waiting);
        if set.is_err() {
            // The first error is the one that is returned.
            let _ = self.delete(&Nobody);
        }
        set
    }

    fn set(&self, settings: &Settings, waiting: &dyn Waiting) -> Result<(), KernelError> {
        // Secrets are written to the file, because every user of the host can see the arguments of
        // `iscsiadm`.
        let secrets = settings.secrets()?;
        if !secrets.is_empty() {
            let file = self.file().ok_or_else(|| KernelError::NoRecord { target: self.target.to_owned() })?;
            record::append(&file, &secrets)?;
        }
        // This rewrites the file, so the mark is added after it.
        expect(PROGRAM, &self.update_words(settings), RECORD_MAX, waiting)?;
        self.file().map_or(Ok(()), |file| record::mark(&file))
    }

    pub(super) fn login(&self, waiting: &dyn Waiting) -> Result<Login, KernelError> {
        let words = self.words(&["--login"]);
        let ended = run(PROGRAM, &words, SESSION_MAX, waiting)?;
        match ended.code {
            Some(0) => Ok(Login::Done),
            Some(SESSION_EXISTS) => Ok(Login::Exists),
            _ => Err(failed(PROGRAM, &words, ended)),
        }
    }

    /// Deletes the node's record if Millrace made it. A missing record is not an error.
    pub(super) fn forget(&self, waiting: &dyn Waiting) -> Result<(), KernelError> {
        match self.file() {
            Some(file) if !record::is_marked(&file) => Ok(()),
            // If the database is in another place, its marks cannot be read. Millrace made the
            // record.
            _ => self.delete(waiting),
        }
    }

    fn delete(&self, waiting: &dyn Waiting) -> Result<(), KernelError> {
        found_or_not(&self.words(&["-o", "delete"]), RECORD_MAX, waiting).map(|_| ())
    }

    fn is_recorded(&self, waiting: &dyn Waiting) -> Result<bool, KernelError> {
        found_or_not(&self.words(&[]), RECORD_MAX, waiting)
    }

    fn file(&self) -> Option<std::path::PathBuf> {
        record::find(self.target, self.portal.address)
    }

    /// As in `10.0.0.1:3260`.
    pub(super) fn portal(&self) -> String {
        self.portal.address.to_string()
    }

    fn words(&self, further: &[&str]) -> Vec<String> {
        let portal = self.portal();
        let words = ["-m", "node", "-T", self.target, "-p", &portal];
        words.iter().chain(further).map(|word| (*word).to_owned()).collect()
    }

    /// These words name the portal group: without it some of open-iscsi's commands do not find a
    /// session.
    fn new_words(&self) -> Vec<String> {
        let group = self.portal.group.map(|group| format!(",{group}")).unwrap_or_default();
        let portal = format!("{}{group}", self.portal());
        ["-m", "node", "-o", "new", "-T", self.target, "-p", &portal].map(str::to_owned).to_vec()
    }

    fn update_words(&self, settings: &Settings) -> Vec<String> {
        let mut words = self.words(&["-o", "update"]);
        for (name, value) in settings.values() {
            words.extend(["-n".to_owned(), name.to_owned(), "-v".to_owned(), value]);
        }
        words
    }
}

/// Deletes all records of a target, if there are any.
pub(super) fn forget_all(target: &str, waiting: &dyn Waiting) -> Result<(), KernelError> {
    found_or_not(&["-m", "node", "-T", target, "-o", "delete"], RECORD_MAX, waiting).map(|_| ())
}

/// Ends a session, by its number. A missing session is not an error.
pub(super) fn log_out(number: u32, waiting: &dyn Waiting) -> Result<(), KernelError> {
    found_or_not(&["-m", "session", "-r", &number.to_string(), "--logout"], SESSION_MAX, waiting).map(|_| ())
}

/// Runs `iscsiadm`. Returns whether it found the session or record.
fn found_or_not(words: &[impl AsRef<str>], limit: Duration, waiting: &dyn Waiting) -> Result<bool, KernelError> {
    let ended = run(PROGRAM, words, limit, waiting)?;
    match ended.code {
        Some(0) => Ok(true),
        Some(NO_SESSION | NOTHING_FOUND) => Ok(false),
        _ => Err(failed(PROGRAM, words, ended)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "iqn.2026-11.internal.millrace:volume.0123";

    fn node(portal: &str, group: Option<u16>) -> Node<'static> {
        Node { target: TARGET, portal: Portal { address: portal.parse().unwrap(), group } }
    }

    #[test]
    fn a_record_has_the_portal_group_of_its_portal() {
        let words = |portal: &str, group| node(portal, group).new_words().join(" ");
        assert_eq!(words("127.0.0.1:3260", Some(2)), format!("-m node -o new -T {TARGET} -p 127.0.0.1:3260,2"));
        assert!(words("[::1]:3260", Some(2)).ends_with("-p [::1]:3260,2"));
        assert!(words("[::1]:3260", None).ends_with("-p [::1]:3260"));
    }

    #[test]
    fn all_settings_are_changed_at_once() {
        let words = node("127.0.0.1:3260", Some(2)).update_words(&Settings::new(32, Duration::from_secs(15))).join(" ");
        let begin = format!("-m node -T {TARGET} -p 127.0.0.1:3260 -o update -n node.startup -v manual -n node.session.scan ");
        assert!(words.starts_with(&begin), "{words}");
        assert!(words.contains(" -n node.session.queue_depth -v 32 -n node.session.cmds_max -v 128 "), "{words}");
    }
}
