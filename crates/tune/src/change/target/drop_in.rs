//! Settings in drop-in folders, whose files a program reads in the order of their names: `sysctl.d`, `modprobe.d`, `limits.d`.

use std::collections::BTreeMap;

use super::{DROP_IN, Part, Resolved, assigned};
use crate::change::edit::{Edit, Style};
use crate::change::limits::DROP_INS_MAX;
use crate::change::root::Root;

/// The folders of a program.
pub(super) struct Folders<'a> {
    /// The folder of this host's administrator, in which Millrace's file is. Its files mask those of the same name in `others`.
    pub(super) own: &'a str,
    /// Folders of packages and of this boot, in the order of precedence. Their files are never edited.
    pub(super) others: &'a [&'a str],
    pub(super) suffix: &'a str,
    /// A file that is read after all others.
    pub(super) last: Option<&'a str>,
}

/// A line in Millrace's file. If a file that is read later sets the same key, its line is edited instead; a later file of a package is
/// followed by a file of Millrace that is read after it.
pub(super) fn part(setting: &Resolved<'_>, root: &Root, folders: &Folders<'_>, style: Style, remarks: &mut Vec<String>) -> Part {
    let Folders { own, suffix, last, .. } = folders;
    let ours = format!("{own}/{DROP_IN}.{suffix}");
    let edit = assigned(setting, style, setting.key());
    let later = later_files(root, folders).into_iter().chain(last.map(str::to_owned));
    let sets = |path: &String| edit.sets(&root.read_text(path).ok().flatten().unwrap_or_default());
    let Some(winner) = later.rev().find(sets) else { return Part::File { path: ours, edit } };
    if Some(winner.as_str()) == *last || winner.strip_prefix(own).is_some_and(|rest| rest.starts_with('/')) {
        remarks.push(format!("{winner} sets it too and is read after {ours}: its line is the one that changes"));
        return Part::File { path: winner, edit };
    }
    // `x.millrace.conf` is read after `x.conf`, which no other file follows that sets the key.
    let name = winner.rsplit('/').next().unwrap_or(&winner);
    let stem = name.strip_suffix(suffix).and_then(|stem| stem.strip_suffix('.')).unwrap_or(name);
    let path = format!("{own}/{stem}.millrace.{suffix}");
    remarks.push(format!(
        "{winner}{} sets it too and is read after {ours}: the line goes to {path}, which is read later",
        made_by(&winner)
    ));
    Part::File { path, edit }
}

/// The origin of a file that the administrator did not write, by its directory (sysctl.d(5), modprobe.d(5)).
fn made_by(path: &str) -> &'static str {
    match path {
        _ if path.starts_with("/run/") => ", which a program made at run time,",
        _ if path.starts_with("/usr/local/") => "",
        _ => ", of a package,",
    }
}

/// The files that are read after Millrace's, in the order of reading.
fn later_files(root: &Root, folders: &Folders<'_>) -> Vec<String> {
    let ours = format!("{DROP_IN}.{}", folders.suffix);
    let end = format!(".{}", folders.suffix);
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for folder in [folders.own].iter().chain(folders.others) {
        let Ok(entries) = root.resolve(folder).and_then(|real| std::fs::read_dir(root.host(&real))) else { continue };
        let names = entries.take(DROP_INS_MAX).flatten().filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| name.ends_with(&end) && !name.starts_with('.') && *name > ours) {
            let path = format!("{folder}/{name}");
            by_name.entry(name).or_insert(path);
        }
    }
    by_name.into_values().collect()
}

impl Edit {
    /// Whether a text sets the key of this edit.
    fn sets(&self, text: &str) -> bool {
        match self {
            Self::Assign { style, key, .. } => style.last_in(text, key).is_some(),
            _ => false,
        }
    }
}
