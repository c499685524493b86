//! What was read of a host: texts of files and outputs of commands without their secrets, and what
//! could not be read.

use std::collections::{BTreeMap, BTreeSet};

use super::command_line::rest_after;
use super::layout;
use super::limits::{CAPTURE_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX};
use super::redact::redacted;
use super::running::Running;
use super::text;

/// The command whose output is the names in a folder.
pub(super) const LISTING: &str = "ls";

/// The command whose output lists the files that every user may write.
pub(super) const WRITABLE: &str = "find -perm -o=w";

/// Output of one command.
#[derive(Debug, Clone)]
pub(super) struct Output {
    /// The command line, or a slug of it if only a file name gives it.
    pub(super) line: String,
    /// Its standard output.
    pub(super) text: String,
    /// Its exit code, if it is known.
    pub(super) exit: Option<i32>,
}

/// Whether a file or a folder of the host was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State<'a> {
    /// It was read. This is the text; for a folder, it is empty.
    Read(&'a str),
    /// It does not exist.
    Absent,
    /// It exists or may exist, and was not read.
    Unread,
}

/// Everything that was read of one host.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Name of the host.
    pub(super) host: String,
    /// `Linux`, `SunOS`, `AIX`, `HP-UX` or `ONTAP`; empty if it is not known.
    pub(super) system: String,
    /// When it was read, in RFC 3339 format.
    pub(super) time: String,
    /// Whether it was read as root; `None` if this is not known.
    pub(super) root: Option<bool>,
    /// Texts of files by absolute path.
    pub(super) files: BTreeMap<String, String>,
    /// Outputs of commands, in the order found.
    pub(super) commands: Vec<Output>,
    /// What could not be read, by path or by command line, with the reason.
    pub(super) denied: BTreeMap<String, String>,
    /// Files and folders that were looked for and do not exist, or that their program ignores.
    pub(super) absent: BTreeSet<String>,
    /// Names of the files in a folder, if the complete folder was listed.
    pub(super) folders: BTreeMap<String, BTreeSet<String>>,
    /// Files that every user may write.
    pub(super) writable: BTreeSet<String>,
    /// Files that were read in part, or that their program reads differently, with the reason.
    pub(super) flawed: BTreeMap<String, &'static str>,
    /// The version of the capture's format; 0 if the capture does not name one.
    pub(super) version: u32,
    /// The text of the site file.
    pub(super) site: Option<String>,
    /// Whether this is the running host. Then a file that is missing here does not exist.
    pub(super) live: bool,
    /// Database servers that do not run: the path of the configuration file for PostgreSQL, `mysql`
    /// for MySQL and MariaDB.
    pub(super) stopped: BTreeSet<String>,
    /// Running database servers, found by their processes.
    pub(super) running: Vec<Running>,
    /// Whether a MANIFEST lists what was looked for.
    pub(super) listed: bool,
    /// Remarks on what could not be read or understood.
    pub(super) remarks: Vec<String>,
    /// Number of bytes taken so far.
    pub(super) bytes: usize,
    /// Whether the limit of a capture is reached.
    pub(super) full: bool,
}

impl Collected {
    /// Takes a file. A long file is cut and a binary one is skipped, both with a remark.
    pub(super) fn take_file(&mut self, path: &str, bytes: &[u8]) {
        let remarks_before = self.remarks.len();
        if let Some(flaw) = flaw(bytes) {
            self.flawed.insert(path.to_owned(), flaw);
        }
        if let Some(text) = self.text(bytes, path) {
            self.files.entry(path.to_owned()).or_insert(text);
        } else if self.remarks.len() > remarks_before {
            self.denied.insert(path.to_owned(), "it is not text".to_owned());
        }
    }

    /// Takes the output of a command.
    pub(super) fn take_command(&mut self, line: &str, bytes: &[u8], exit: Option<i32>) {
        if let Some(text) = self.text(bytes, line) {
            self.commands.push(Output { line: line.to_owned(), text, exit });
        }
    }

    /// The text of the bytes without secrets; `None` if the limit of a capture is reached or the
    /// bytes are not text.
    fn text(&mut self, bytes: &[u8], origin: &str) -> Option<String> {
        let count = self.files.len() + self.commands.len();
        if self.bytes.saturating_add(bytes.len().min(FILE_BYTES_MAX)) > CAPTURE_BYTES_MAX || count >= FILES_MAX {
            if !self.full {
                self.remarks.push(format!("{origin} and what follows is skipped: more than a capture may hold"));
                self.full = true;
            }
            return None;
        }
        if bytes.len() > FILE_BYTES_MAX {
            self.remarks.push(format!("{origin} is longer than {FILE_BYTES_MAX} bytes: only its beginning is read"));
        }
        let bytes = &bytes[..bytes.len().min(FILE_BYTES_MAX)];
        self.bytes += bytes.len();
        text::decode(bytes, origin, &mut self.remarks).map(|text| redacted(origin, &text))
    }

    /// Splits outputs of `grep` over many small files (`PATH:TEXT` on each line) into these files,
    /// and stores outputs of `ls` as the names in folders.
    pub(super) fn spread(&mut self) {
        let listings = self.outputs(LISTING).filter(|(folder, output)| folder.starts_with('/') && output.exit == Some(0));
        let listings = listings
            .map(|(folder, output)| (folder.trim_end_matches('/').to_owned(), output.text.lines().map(str::to_owned).collect()));
        let listings: Vec<(String, BTreeSet<String>)> = listings.collect();
        self.folders.extend(listings);
        let writable = self.outputs(WRITABLE).flat_map(|(_, output)| output.text.lines());
        let writable: Vec<String> = writable.map(str::to_owned).collect();
        self.writable.extend(writable);
        let outputs: Vec<Output> = std::mem::take(&mut self.commands);
        let (found, others): (Vec<Output>, Vec<Output>) =
            outputs.into_iter().partition(|output| rest_after(&output.line, "grep").is_some());
        self.commands = others;
        for output in found {
            for (_, line) in text::lines(&output.text) {
                if let Some((path, said)) =
                    line.split_once(':').filter(|(path, _)| path.starts_with("/sys/") || path.starts_with("/proc/"))
                    && layout::wanted(path)
                    && self.files.len() < FILES_MAX
                {
                    let file = self.files.entry(path.to_owned()).or_default();
                    if !file.is_empty() {
                        file.push('\n');
                    }
                    file.push_str(&redacted(path, said));
                }
            }
        }
    }

    /// The running server that uses this configuration file.
    pub(super) fn running_with(&self, config: &str) -> Option<&Running> {
        self.running.iter().find(|server| server.config.as_deref() == Some(config))
    }

    /// The text of a file.
    pub(super) fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file was read, is absent, or is not known.
    ///
    /// What is known about a file that was not read and is not listed as absent: on a live host and
    /// in a tree of plain files it does not exist. In a capture since version 2 it is not known. In
    /// an earlier capture it does not exist, except for the two old files below, which are not
    /// known.
    pub(super) fn state(&self, path: &str) -> State<'_> {
        match self.files.get(path) {
            Some(text) => State::Read(text),
            None if self.denied.contains_key(path) => State::Unread,
            None if self.absent.contains(path) => State::Absent,
            None if self.version < 2 && (!self.listed || !matches!(path, "/etc/sysctl.conf" | "/etc/modprobe.conf")) => {
                State::Absent
            }
            None if self.live => State::Absent,
            None => State::Unread,
        }
    }

    /// The same for a folder (its path ends with `/`). `Read` means that the names of all its files
    /// are known.
    pub(super) fn folder(&self, path: &str) -> State<'_> {
        let bare = path.trim_end_matches('/');
        if self.denied.contains_key(bare) {
            State::Unread
        } else if self.absent.contains(bare) {
            State::Absent
        } else if self.live || self.version < 2 || self.folders.contains_key(bare) {
            State::Read("")
        } else {
            State::Unread
        }
    }

    /// Why a file or a folder was not read.
    pub(super) fn why_unread(&self, path: &str) -> String {
        let bare = path.trim_end_matches('/');
        match self.denied.get(bare) {
            Some(reason) => format!("{bare}: {reason}"),
            None => format!("{bare} is not in the capture, which does not say that it is absent"),
        }
    }

    /// Files below a folder that could not be read.
    pub(super) fn denied_under<'a, 'b>(&'a self, folder: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let from = self.denied.range(folder.to_owned()..);
        from.map(|(path, _)| path.as_str()).take_while(move |path| path.starts_with(folder))
    }

    /// Files below a folder that its listing names and that were not read.
    pub(super) fn missing_in(&self, folder: &str) -> Vec<String> {
        let names = self.folders.get(folder.trim_end_matches('/'));
        let paths = names.into_iter().flatten().map(|name| format!("{folder}{name}"));
        let is_known = |path: &str| self.files.contains_key(path) || self.denied.contains_key(path) || self.absent.contains(path);
        paths.filter(|path| !is_known(path)).collect()
    }

    /// Files whose path begins with `prefix`, in order.
    pub(super) fn files_under<'a, 'b>(&'a self, prefix: &'b str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 'b> {
        let from = self.files.range(prefix.to_owned()..);
        from.take_while(move |(path, _)| path.starts_with(prefix)).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Outputs of the commands that begin with these words, each with the rest of its command line.
    pub(super) fn outputs<'a, 'b>(&'a self, begin: &'b str) -> impl Iterator<Item = (String, &'a Output)> + use<'a, 'b> {
        self.commands.iter().filter_map(move |output| rest_after(&output.line, begin).map(|rest| (rest, output)))
    }

    /// Whether a command that begins with these words ran. One that failed and printed nothing does
    /// not count.
    pub(super) fn has_run(&self, begin: &str) -> bool {
        self.outputs(begin).any(|(_, output)| output.exit.is_none_or(|code| code == 0) || !output.text.trim().is_empty())
    }

    /// The output of exactly this command.
    pub(super) fn output(&self, line: &str) -> Option<&Output> {
        self.outputs(line).find(|(rest, _)| rest.is_empty()).map(|(_, output)| output)
    }

    /// Why the text of a file or a command is missing.
    pub(super) fn why(&self, name: &str) -> String {
        match self.denied.get(name) {
            Some(reason) => format!("{name}: {reason}"),
            None => format!("{name} was not collected"),
        }
    }
}

/// Why a program reads these bytes differently from the text that is kept.
fn flaw(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        _ if bytes.len() > FILE_BYTES_MAX => Some("is too long: only its beginning was read"),
        [0xef, 0xbb, 0xbf, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("begins with a byte order mark"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_that_is_too_large_is_cut_with_a_remark() {
        let mut collected = Collected::default();
        let long = vec![b'x'; FILE_BYTES_MAX + 1];
        for index in 0..40 {
            collected.take_file(&format!("/f{index}"), &long);
        }
        assert_eq!(collected.files.len(), CAPTURE_BYTES_MAX / FILE_BYTES_MAX);
        assert!(collected.remarks.iter().any(|remark| remark.contains("more than a capture may hold")));
    }
}
