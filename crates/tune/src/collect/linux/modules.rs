//! Parameters of Linux kernel modules: the values in force, and those that modprobe sets
//! (modprobe.d(5)).

use std::collections::BTreeMap;

use crate::collect::collected::{Collected, State};
use crate::collect::linux::drop_ins::{Part, parts};
use crate::collect::persistent::put_setting;
use crate::collect::text::{telling_value, unquoted};
use crate::facts::{Facts, Value};

/// Folders of modprobe. The first one takes precedence.
const FOLDERS: &[&str] =
    &["/etc/modprobe.d/", "/run/modprobe.d/", "/usr/local/lib/modprobe.d/", "/usr/lib/modprobe.d/", "/lib/modprobe.d/"];

/// The file of module-init-tools. kmod does not read it.
const OLD: &str = "/etc/modprobe.conf";

/// Ends of file names that module-init-tools ignored.
const LEFT_BY_PACKAGES: &[&str] = &["~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"];

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    for (path, reason) in &collected.denied {
        if let Some((module, name)) = path.strip_prefix("/sys/module/").and_then(|rest| rest.split_once("/parameters/")) {
            facts.put_unknown(&format!("module.{module}.{name}"), &format!("{path}: {reason}"));
        }
    }
    for (path, text) in collected.files_under("/sys/module/") {
        let mut parts = path.trim_start_matches("/sys/module/").splitn(3, '/');
        if let (Some(module), Some("parameters"), Some(name)) = (parts.next(), parts.next(), parts.next()) {
            facts.put(&format!("module.{module}.{name}"), telling_value(text.trim()), path);
        } else if let Some((module, "version")) = path.trim_start_matches("/sys/module/").split_once('/') {
            facts.put(&format!("module_version.{module}"), text.trim(), path);
        }
    }
    persistent(collected, facts);
}

/// What modprobe sets. The last value of a parameter takes effect. A part that was not read may set
/// any parameter.
fn persistent(collected: &Collected, facts: &mut Facts) {
    let mut found: BTreeMap<String, (Value, String)> = BTreeMap::new();
    let mut unread: Option<String> = None;
    for part in order(collected) {
        match part {
            Part::Read(path, text) => options(text, path, &mut found),
            Part::Unread(path) => {
                found.clear();
                unread = Some(collected.why_unread(&path));
            }
        }
    }
    if let Some(text) = collected.file("/proc/cmdline") {
        boot_options(text, &mut found);
    }
    if let Some(reason) = &unread {
        facts.put_unknown("persistent.module.", reason);
    }
    for (key, (value, origin)) in found {
        facts.put(&format!("persistent.module.{key}"), value.clone(), &origin);
        if let Some(running) = facts.host.get(&format!("module.{key}")).cloned() {
            put_setting(&format!("module {key}"), &running, value, &origin, facts);
        }
    }
}

/// The files in the order of reading, or the output of `modprobe -c`.
fn order(collected: &Collected) -> Vec<Part<'_>> {
    if !super::is_modern(collected) {
        return old_order(collected);
    }
    let files = parts(collected, FOLDERS, &[".conf", ".alias"]);
    let is_whole = !files.iter().any(|part| matches!(part, Part::Unread(_)));
    let asked = collected.outputs("modprobe").find(|(rest, output)| rest.starts_with(['-', 'c']) && output.exit == Some(0));
    // modprobe silently ignores files that it may not read.
    match asked.filter(|_| is_whole) {
        Some((_, output)) => vec![Part::Read(&output.line, &output.text)],
        None => files,
    }
}

/// The files that module-init-tools read: every file in the folder, with any extension.
fn old_order(collected: &Collected) -> Vec<Part<'_>> {
    let old = match collected.state(OLD) {
        State::Read(text) => Some(Part::Read(OLD, text)),
        State::Unread => Some(Part::Unread(OLD.to_owned())),
        State::Absent => None,
    };
    let is_read = |path: &str| !LEFT_BY_PACKAGES.iter().any(|end| path.ends_with(end));
    let files = collected.files_under("/etc/modprobe.d/").map(|(path, text)| Part::Read(path, text));
    let denied = collected.denied_under("/etc/modprobe.d/").map(|path| Part::Unread(path.to_owned()));
    let is_read = |part: &Part<'_>| match part {
        Part::Read(path, _) => is_read(path),
        Part::Unread(path) => is_read(path),
    };
    let files = files.chain(denied).filter(is_read);
    old.into_iter().chain(files).collect()
}

/// `options MODULE NAME=VALUE…` lines of a file. A backslash at the end continues a line, even a
/// comment.
fn options(text: &str, path: &str, found: &mut BTreeMap<String, (Value, String)>) {
    let mut joined = String::new();
    let mut begin = 1;
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if joined.is_empty() {
            begin = index + 1;
        }
        match line.strip_suffix('\\') {
            Some(more) => joined.push_str(more),
            None => {
                joined.push_str(line);
                option_line(&std::mem::take(&mut joined), &format!("{path}:{begin}"), found);
            }
        }
    }
    option_line(&joined, &format!("{path}:{begin}"), found);
}

fn option_line(line: &str, origin: &str, found: &mut BTreeMap<String, (Value, String)>) {
    let mut words = quoted_words(line).into_iter();
    if let (Some("options"), Some(module)) = (words.next(), words.next()) {
        for word in words {
            let (key, setting) = word.split_once('=').unwrap_or((word, "1"));
            put(module, key, setting, origin, found);
        }
    }
}

fn put(module: &str, key: &str, setting: &str, origin: &str, found: &mut BTreeMap<String, (Value, String)>) {
    let key = format!("{}.{}", module.replace('-', "_"), key.replace('-', "_"));
    found.insert(key, (telling_value(unquoted(setting)), origin.to_owned()));
}

/// Words separated by blanks. A blank in double quotes belongs to its word.
fn quoted_words(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        !is_quoted && (letter == ' ' || letter == '\t')
    };
    line.split(is_end).filter(|word| !word.is_empty()).collect()
}

/// `MODULE.NAME=VALUE` on the kernel's command line. modprobe adds these after the options of
/// files.
fn boot_options(text: &str, found: &mut BTreeMap<String, (Value, String)>) {
    /// Programs that have settings of this form.
    const PROGRAMS: &[&str] = &["ip", "modprobe", "rd", "systemd", "udev", "luks", "fstab"];
    for word in quoted_words(text.trim()) {
        let Some((name, setting)) = word.split_once('=') else { continue };
        let Some((module, key)) = name.split_once('.') else { continue };
        if !PROGRAMS.contains(&module) && !module.is_empty() && !key.is_empty() {
            put(module, key, setting, "/proc/cmdline", found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Facts {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\n");
        files.iter().for_each(|(path, text)| collected.take_file(path, text.as_bytes()));
        let mut found = Facts::default();
        facts(&collected, &mut found);
        found
    }

    #[test]
    fn only_files_of_modprobe_count_and_the_last_value_of_all_folders_wins() {
        let found = read(&[
            ("/etc/modprobe.d/a.conf.rpmsave", "options nfs max_session_slots=1\n"),
            ("/usr/lib/modprobe.d/b.conf", "options nfs max_session_slots=2\n"),
            ("/lib/modprobe.d/c.conf", "options scsi_mod max_luns=3\noptions nfs \\\n  recover_lost_locks=Y\n"),
            ("/etc/modprobe.d/c.conf", "options sd-mod a=1 a=4\n# options sd_mod a=6 \\\noptions sd_mod a=7\n"),
        ]);
        assert_eq!(found.value("persistent.module.nfs.max_session_slots"), Some(&2.into()));
        assert_eq!(found.value("persistent.module.scsi_mod.max_luns"), None, "the file is masked");
        assert_eq!(found.value("persistent.module.sd_mod.a"), Some(&4.into()));
    }

    #[test]
    fn a_line_is_continued_and_the_command_line_of_the_kernel_is_added_last() {
        let found = read(&[
            ("/etc/modprobe.d/a.conf", "options nfs \\\n  max_session_slots=5\noptions scsi_mod max_luns=5\n"),
            ("/proc/cmdline", "ro scsi-mod.max_luns=9 rd.iscsi.waitnet=1\n"),
        ]);
        assert_eq!(found.value("persistent.module.nfs.max_session_slots"), Some(&5.into()));
        assert_eq!(found.value("persistent.module.scsi_mod.max_luns"), Some(&9.into()));
        assert_eq!(found.value("persistent.module.rd.iscsi.waitnet"), None);
    }

    #[test]
    fn a_file_that_was_not_read_leaves_the_options_of_earlier_files_unknown() {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\n");
        collected.take_file("/etc/modprobe.d/a.conf", b"options nfs a=1\n");
        collected.denied.insert("/etc/modprobe.d/b.conf".to_owned(), "permission denied".to_owned());
        let mut found = Facts::default();
        facts(&collected, &mut found);
        assert_eq!(found.value("persistent.module.nfs.a"), None);
        assert!(found.unknown["persistent.module."].contains("permission denied"));
    }
}
