//! What was read of a host: texts of files and of commands, without their secrets, and what could not be read.

use std::collections::{BTreeMap, BTreeSet};

use super::command_line::rest_after;
use super::layout;
use super::limits::{CAPTURE_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX};
use super::redact::redacted;
use super::running::Running;
use super::text;

/// The command whose output is the names in a folder.
pub(super) const LISTING: &str = "ls";

/// The command whose output are the files that every user may write.
pub(super) const WRITABLE: &str = "find -perm -o=w";

/// Output of one command.
#[derive(Debug, Clone)]
pub(super) struct Output {
    /// The command line, or its slug where only a file's name says what it was.
    pub(super) line: String,
    /// What it wrote.
    pub(super) text: String,
    /// Its exit code.
    pub(super) exit: Option<i32>,
}

/// What is known of a file or a folder of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State<'a> {
    /// It was read: its text, of a folder nothing.
    Read(&'a str),
    /// It is not there.
    Absent,
    /// It is there, or may be there, and was not read.
    Unread,
}

/// Everything read of one host.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Name of the host.
    pub(super) host: String,
    /// `Linux`, `SunOS`, `AIX`, `HP-UX` or `ONTAP`, where something says it.
    pub(super) system: String,
    /// When it was read, RFC 3339.
    pub(super) time: String,
    /// Whether it was read as root; `None` where nobody says.
    pub(super) root: Option<bool>,
    /// Texts of files by absolute path.
    pub(super) files: BTreeMap<String, String>,
    /// Outputs of commands, in the order found.
    pub(super) commands: Vec<Output>,
    /// What could not be read, by path or by command line, with the reason.
    pub(super) denied: BTreeMap<String, String>,
    /// Files and folders that were looked for and are not there, or that their program ignores.
    pub(super) absent: BTreeSet<String>,
    /// Names of the files in a folder, where the whole of it was seen.
    pub(super) folders: BTreeMap<String, BTreeSet<String>>,
    /// Files that every user may write.
    pub(super) writable: BTreeSet<String>,
    /// Files that were read in part, or that their program reads differently: what is wrong with them.
    pub(super) flawed: BTreeMap<String, &'static str>,
    /// The version of the capture; 0 of other captures.
    pub(super) version: u32,
    /// The site file's text.
    pub(super) site: Option<String>,
    /// Whether everything was looked for: what is not here is not there.
    pub(super) live: bool,
    /// Database servers that do not run: the configuration file of a cluster of PostgreSQL, `mysql`.
    pub(super) stopped: BTreeSet<String>,
    /// Database servers that were found running, by their processes.
    pub(super) running: Vec<Running>,
    /// Whether a MANIFEST says what was looked for.
    pub(super) listed: bool,
    /// What was odd.
    pub(super) remarks: Vec<String>,
    /// Bytes taken so far.
    pub(super) bytes: usize,
    /// Whether there is no more room.
    pub(super) full: bool,
}

impl Collected {
    /// Takes a file. Long ones are cut, binary ones skipped, both with a remark.
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

    /// Text of the bytes, redacted, as far as there is room for it.
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

    /// Spreads outputs of `grep` over many small files (`PATH:TEXT` on each line) to the files they come from, and those of `ls` to
    /// the folders.
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

    /// The running server that reads this configuration file.
    pub(super) fn running_with(&self, config: &str) -> Option<&Running> {
        self.running.iter().find(|server| server.config.as_deref() == Some(config))
    }

    /// Text of a file.
    pub(super) fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// What is known of a file.
    ///
    /// A live host and a tree of plain files hold all there is. A capture says since version 2 what is not there: of what it does not
    /// mention, nothing is known. Earlier ones have the two old files wherever they exist.
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

    /// What is known of a folder (it ends with `/`): whether all its files are known by name.
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

    /// Files that could not be read, below a folder.
    pub(super) fn denied_under<'a, 'b>(&'a self, folder: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let from = self.denied.range(folder.to_owned()..);
        from.map(|(path, _)| path.as_str()).take_while(move |path| path.starts_with(folder))
    }

    /// Files that a listing names and that were not read, below a folder.
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

    /// Outputs of the command that begins with these words, with what follows them on the line.
    pub(super) fn outputs<'a, 'b>(&'a self, begin: &'b str) -> impl Iterator<Item = (String, &'a Output)> + use<'a, 'b> {
        self.commands.iter().filter_map(move |output| rest_after(&output.line, begin).map(|rest| (rest, output)))
    }

    /// Whether the command that begins with these words ran: one that failed without a word did not.
    pub(super) fn has_run(&self, begin: &str) -> bool {
        self.outputs(begin).any(|(_, output)| output.exit.is_none_or(|code| code == 0) || !output.text.trim().is_empty())
    }

    /// Output of exactly this command.
    pub(super) fn output(&self, line: &str) -> Option<&Output> {
        self.outputs(line).find(|(rest, _)| rest.is_empty()).map(|(_, output)| output)
    }

    /// Why a file or a command is not there.
    pub(super) fn why(&self, name: &str) -> String {
        match self.denied.get(name) {
            Some(reason) => format!("{name}: {reason}"),
            None => format!("{name} was not collected"),
        }
    }
}

/// Why a program reads more or other text than these bytes.
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
