//! Mounts of the automounter: `/etc/auto.master`, the files in `/etc/auto.master.d`, and their maps
//! in files (auto.master(5), autofs(5)).

use host::mount_table::is_nfs;

use crate::collect::collected::{Collected, State};
use crate::collect::linux::drop_ins::{Part, parts};
use crate::collect::mounts::{Mounts, server, split};
use crate::collect::text::{telling, words};
use crate::facts::Facts;

const MASTER: &str = "/etc/auto.master";

/// Adds the NFS mounts in the maps. For a map that is not read, a remark says that its mounts are
/// not known.
pub(super) fn mounts(collected: &Collected, found: &mut Mounts, facts: &mut Facts) {
    let main = match collected.state(MASTER) {
        State::Read(text) => Some((MASTER, text)),
        State::Unread if collected.denied.contains_key(MASTER) => {
            facts.remark(format!("{}: mounts of the automounter are not known", collected.why_unread(MASTER)));
            found.unread_maps = Some(collected.why_unread(MASTER));
            None
        }
        _ => None,
    };
    let more = parts(collected, &["/etc/auto.master.d/"], &[".autofs"]).into_iter().filter_map(|part| match part {
        Part::Read(path, text) => Some((path, text)),
        Part::Unread(_) => None,
    });
    for (path, text) in main.into_iter().chain(more) {
        for (number, line) in joined(text) {
            master_line(&line, &format!("{path}:{number}"), collected, found, facts);
        }
    }
}

/// A line `POINT MAP [OPTIONS]`.
fn master_line(line: &str, origin: &str, collected: &Collected, found: &mut Mounts, facts: &mut Facts) {
    let mut all = words(line);
    let (Some(point), Some(map)) = (all.next(), all.next()) else { return };
    let path = map.strip_prefix("file:").unwrap_or(map);
    // Other maps are not collected. The text of a program map is collected as empty.
    if point.starts_with('+') || !path.starts_with("/etc/auto") || collected.file(path) == Some("") {
        return facts.remark(format!("{origin}: the map {map} is not read: the mounts of {point} are not known"));
    }
    let options: Vec<String> = all.filter(|word| !word.starts_with("--")).flat_map(options_of).collect();
    match collected.state(path) {
        State::Absent => {}
        State::Unread => {
            facts.remark(format!("{}: the mounts of {point} are not known", collected.why_unread(path)));
            found.unread_maps = Some(collected.why_unread(path));
        }
        State::Read(text) => {
            for (number, line) in joined(text) {
                map_line(&line, point, &options, &format!("{path}:{number}"), found);
            }
        }
    }
}

/// A line `KEY [-OPTIONS] SOURCE`. If a key has several mounts, each is `[-OPTIONS] /PATH SOURCE`.
fn map_line(line: &str, point: &str, defaults: &[String], origin: &str, found: &mut Mounts) {
    let mut all = words(line).peekable();
    let Some(key) = all.next() else { return };
    // The keys of a direct map are absolute paths.
    let base = if key.starts_with('/') { key.to_owned() } else { format!("{}/{key}", point.trim_end_matches('/')) };
    let mut common = defaults.to_vec();
    while let Some(word) = all.next_if(|word| word.starts_with('-')) {
        common.extend(options_of(word));
    }
    let (mut own, mut below) = (common.clone(), "");
    for word in all {
        if word.starts_with('-') {
            own.extend(options_of(word));
        } else if word.starts_with('/') && server(word).is_none() {
            below = word.trim_end_matches('/');
        } else {
            put(&format!("{base}{below}"), &word.replace('&', key), &own, origin, found);
            (own, below) = (common.clone(), "");
        }
    }
}

fn put(point: &str, source: &str, options: &[String], origin: &str, found: &mut Mounts) {
    let fstype = options.iter().rev().find_map(|option| option.strip_prefix("fstype=")).unwrap_or("nfs");
    if is_nfs(fstype) && server(source).is_some() {
        let options = options.iter().filter(|option| !option.starts_with("fstype=")).cloned().collect();
        found.by_program(point, source, fstype, options, origin, "autofs");
    }
}

fn options_of(word: &str) -> Vec<String> {
    split(word.trim_start_matches('-'))
}

/// Lines, joined with those that continue them after a backslash.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in telling(text, &['#']) {
        let (bare, more) = line.strip_suffix('\\').map_or((line, false), |bare| (bare, true));
        match found.last_mut().filter(|_| continues) {
            Some((_, last)) => *last = format!("{last} {bare}"),
            None => found.push((number, bare.to_owned())),
        }
        continues = more;
    }
    found
}
