//! Files and folders as their program would find them: the text, that they do not exist, or why
//! this is not known.

use std::collections::BTreeSet;

use super::collected::Collected;
use super::layout;

/// What is known about a file or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source<T> {
    /// It was read.
    Read(T),
    /// It does not exist, or the program ignores it.
    Absent,
    /// It was not read, for this reason.
    Unread(String),
}

/// Files that every collector takes. If a MANIFEST does not list one, it does not exist on the
/// host.
const ALWAYS_COLLECTED: &[&str] = &["/etc/my.cnf", "/etc/mysql/my.cnf"];

impl Collected {
    /// A configuration file. One that was read only in part counts as not read.
    pub(super) fn source(&self, path: &str) -> Source<&str> {
        if let Some(flaw) = self.flawed.get(path) {
            return Source::Unread(format!("{path} {flaw}"));
        }
        if let Some(text) = self.file(path) {
            return Source::Read(text);
        }
        let is_looked_for = self.listed && ALWAYS_COLLECTED.contains(&path) && layout::wanted(path);
        let is_beside = || !self.listed && ALWAYS_COLLECTED.contains(&path) && self.folders.contains_key("/etc");
        if self.denied.contains_key(path) {
            Source::Unread(self.why(path))
        } else if self.absent.contains(path) || is_looked_for || is_beside() {
            Source::Absent
        } else {
            Source::Unread(self.why(path))
        }
    }

    /// Whether a file may exist that was not read. On a live host, every file was looked for.
    pub(super) fn is_unread(&self, path: &str) -> bool {
        let was_looked_for = self.live && !self.denied.contains_key(path);
        !was_looked_for && matches!(self.source(path), Source::Unread(_))
    }

    /// The names in a configuration folder.
    pub(super) fn listing(&self, folder: &str) -> Source<&BTreeSet<String>> {
        let folder = folder.trim_end_matches('/');
        if let Some(reason) = self.denied.get(folder) {
            return Source::Unread(format!("{folder}: {reason}"));
        }
        match self.folders.get(folder) {
            Some(names) => Source::Read(names),
            None if self.absent.contains(folder) => Source::Absent,
            None => Source::Unread(self.why(folder)),
        }
    }
}

/// Whether every user may write a file with these permissions. MySQL and MariaDB ignore such a
/// file.
pub(super) fn is_writable(mode: u32) -> bool {
    mode & 0o002 != 0
}

/// The path that a file names: absolute, or relative to the folder of the file. `.`, `..` and
/// doubled slashes are removed.
pub(super) fn resolved(path: &str, from: &str) -> String {
    let folder = if path.starts_with('/') { "" } else { from.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_from_the_folder_of_the_file_that_names_it() {
        assert_eq!(resolved("conf.d", "/etc/pg/postgresql.conf"), "/etc/pg/conf.d");
        assert_eq!(resolved("../a//b/./c.conf", "/etc/pg/postgresql.conf"), "/etc/a/b/c.conf");
        assert_eq!(resolved("/srv/x.conf", "/etc/pg/postgresql.conf"), "/srv/x.conf");
        assert_eq!(resolved("../../../x", "/etc/a"), "/x");
    }

    #[test]
    fn what_was_not_read_is_not_taken_for_absent() {
        let mut collected = Collected::default();
        collected.take_file("/a.conf", b"x = 1\n");
        collected.absent.insert("/b.conf".to_owned());
        collected.denied.insert("/c.conf".to_owned(), "permission denied".to_owned());
        collected.take_file("/d.conf", b"\xef\xbb\xbfx = 1\n");
        assert_eq!(collected.source("/a.conf"), Source::Read("x = 1\n"));
        assert_eq!(collected.source("/b.conf"), Source::Absent);
        for (path, reason) in [("/c.conf", "permission denied"), ("/d.conf", "byte order mark"), ("/e.conf", "not collected")] {
            assert!(matches!(collected.source(path), Source::Unread(said) if said.contains(reason)), "{path}");
        }
        assert!(matches!(collected.listing("/x.d/"), Source::Unread(_)));
        collected.folders.insert("/x.d".to_owned(), BTreeSet::new());
        assert!(matches!(collected.listing("/x.d/"), Source::Read(names) if names.is_empty()));
    }
}
