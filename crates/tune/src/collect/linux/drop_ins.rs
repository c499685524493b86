//! Files of several folders that a program reads as one configuration: `sysctl.d`, `modprobe.d`.
//!
//! If several folders have a file with the same name, only the one in the first folder is read. It
//! may be empty or a link to /dev/null, which masks the others. The program reads the files in the
//! order of their names.

use std::collections::BTreeMap;

use crate::collect::collected::{Collected, State};

/// A part of the configuration. Parts are in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The path and the text of a file.
    Read(&'a str, &'a str),
    /// The path of a file or a folder that exists or may exist and was not read.
    Unread(String),
}

/// The files in these folders whose names end with one of `ends`. Each folder ends with `/`, and
/// the first one takes precedence.
pub(super) fn parts<'a>(collected: &'a Collected, folders: &[&'a str], ends: &[&str]) -> Vec<Part<'a>> {
    let mut by_name: BTreeMap<String, Part<'a>> = BTreeMap::new();
    let mut unread = Vec::new();
    let is_read = |name: &str| !name.starts_with('.') && !name.contains('/') && ends.iter().any(|end| name.ends_with(end));
    for folder in folders {
        let files = collected.files_under(folder).map(|(path, text)| (path.to_owned(), Part::Read(path, text)));
        let denied = collected.denied_under(folder).map(str::to_owned).chain(collected.missing_in(folder));
        for (path, part) in files.chain(denied.map(|path| (path.clone(), Part::Unread(path)))) {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            if is_read(&name) {
                by_name.entry(name).or_insert(part);
            }
        }
        if let State::Unread = collected.folder(folder) {
            unread.push(Part::Unread((*folder).to_owned()));
        }
    }
    // A file in a folder that was not read may have any name, so it may be the last one.
    by_name.into_values().chain(unread).collect()
}
