//! Options that mount.nfs adds to those of fstab, a unit or a map: `/etc/nfsmount.conf` and the
//! files in `/etc/nfsmount.conf.d` (nfsmount.conf(5)).
//!
//! mount.nfs appends the options of the sections for the mount point, the server and all mounts, in
//! this order. It skips an option that was given before, but compares only names: after `hard` in
//! fstab it adds `soft` of the file, and the last one takes effect (`mount.nfs -f -v` shows the
//! result).

use crate::collect::collected::{Collected, State};
use crate::collect::linux::drop_ins::{Part, parts};
use crate::collect::mounts::order::slot;
use crate::collect::text::{pair, telling, unquoted};

const MAIN: &str = "/etc/nfsmount.conf";
const FOLDER: &str = "/etc/nfsmount.conf.d/";

/// A section: its kind and its name in lower case.
type Section = (String, String);

/// What the files set.
#[derive(Debug, Default)]
pub(in crate::collect) struct NfsMountConf {
    /// Sections with key (in lower case) and value, in the order of reading.
    values: Vec<(Section, String, String)>,
    /// Why the files are not known completely.
    pub(in crate::collect) unread: Option<String>,
}

impl NfsMountConf {
    pub(super) fn read(collected: &Collected) -> Self {
        let mut conf = Self::default();
        let main = match collected.state(MAIN) {
            State::Read(text) => Some(Part::Read(MAIN, text)),
            State::Unread => Some(Part::Unread(MAIN.to_owned())),
            State::Absent => None,
        };
        let files: Vec<Part<'_>> = main.into_iter().chain(parts(collected, &[FOLDER], &[".conf"])).collect();
        let is_whole = files.iter().all(|part| matches!(part, Part::Read(..)));
        let asked = collected.outputs("nfsconf").find(|(rest, output)| rest.contains("nfsmount") && output.exit == Some(0));
        if let Some((_, output)) = asked.filter(|_| is_whole) {
            conf.add(&output.text, &output.line);
            return conf;
        }
        for part in files {
            match part {
                Part::Read(path, text) => conf.add(text, path),
                Part::Unread(path) => conf.unread = Some(collected.why_unread(&path)),
            }
        }
        conf
    }

    /// Adds the sections of a file. A later value of a key replaces an earlier one.
    fn add(&mut self, text: &str, path: &str) {
        let mut section: Option<Section> = None;
        for (number, line) in telling(text, &['#', ';']) {
            if let Some(head) = line.strip_prefix('[') {
                section = head.split_once(']').map(|(head, _)| section_of(head));
            } else if let (Some((key, said)), Some(section)) = (pair(line, '='), &section) {
                if key.trim_start_matches('-') == "include" {
                    self.unread = Some(format!("{path}:{number} includes {}, which is not followed", unquoted(said)));
                    continue;
                }
                let said = unquoted(said.split('#').next().unwrap_or(said)).to_ascii_lowercase();
                self.set(section, key.to_ascii_lowercase(), said);
            }
        }
    }

    /// Sets a value. It replaces the value of the same key in all sections of the same kind, even
    /// in those for other servers, because mount.nfs stores them so (nfs-utils, conf_remove_now).
    fn set(&mut self, section: &Section, key: String, said: String) {
        self.values.retain(|((kind, _), known, _)| (kind, known) != (&section.0, &key));
        self.values.push((section.clone(), key, said));
    }

    /// The options of a mount, followed by those that the files add.
    pub(in crate::collect) fn with(&self, point: &str, server: &str, own: &[String]) -> Vec<String> {
        let mut options = own.to_vec();
        for (kind, name) in [("mountpoint", point), ("server", server), ("nfsmount_global_options", "")] {
            let is_of = |((known, of), ..): &&(Section, String, String)| known == kind && of.eq_ignore_ascii_case(name);
            // mount.nfs processes the values from the last to the first.
            for (_, key, value) in self.values.iter().rev().filter(is_of) {
                let is_given = options.iter().any(|option| is_same(option, key));
                options.extend((!is_given).then(|| option_of(key, value)));
            }
        }
        options
    }
}

/// The section in a head: `MountPoint "/srv/pg"`, `Server "filer"`, `NFSMount_Global_Options`.
fn section_of(head: &str) -> Section {
    // If no name is in quotes, the complete head is the kind.
    let (kind, name) = head.split_once('"').unwrap_or((head, ""));
    let name = name.split('"').next().unwrap_or_default();
    (kind.trim().to_ascii_lowercase(), name.to_ascii_lowercase())
}

/// Whether a key sets the same option as one of a mount: `noac` and `ac` are the same, and so are
/// `nfsvers` and `vers`.
fn is_same(option: &str, key: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    let bare = |name: &str| name.strip_prefix("no").unwrap_or(name).to_owned();
    bare(name) == bare(key) || ["vers", "nfsvers", "defaultvers"].contains(&key) && slot(name) == "vers"
}

fn option_of(key: &str, value: &str) -> String {
    match (key, value) {
        ("background", "true") => "bg".to_owned(),
        ("foreground", "true") => "fg".to_owned(),
        ("defaultvers", _) => format!("vers={value}"),
        ("defaultproto", _) => format!("proto={value}"),
        (_, "true") => key.to_owned(),
        (_, "false") => key.strip_prefix("no").map_or_else(|| format!("no{key}"), str::to_owned),
        _ => format!("{key}={}", bytes_of(value)),
    }
}

/// A size in bytes: `32k` becomes 32768.
fn bytes_of(value: &str) -> String {
    let is_size = value.ends_with(['k', 'm', 'g']);
    let bytes = is_size.then(|| crate::collect::text::bytes(value)).flatten();
    bytes.map_or_else(|| value.to_owned(), |bytes| bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::mounts::split;

    fn with(files: &[(&str, &str)], own: &str) -> String {
        let mut collected = Collected::default();
        files.iter().for_each(|(path, text)| collected.take_file(path, text.as_bytes()));
        NfsMountConf::read(&collected).with("/srv/pg", "filer", &split(own)).join(",")
    }

    #[test]
    fn sections_are_added_behind_the_options_of_a_mount() {
        let all = "[ NFSMount_Global_Options ]\nSoft=True\nac=False\nrsize=32k\n[ Server \"FILER\" ]\nrsize=64k\n[ MountPoint \"/srv/PG\" ] # x\nLock=false\n";
        assert_eq!(with(&[(MAIN, all)], "vers=3"), "vers=3,nolock,rsize=65536,noac,soft");
        assert_eq!(with(&[(MAIN, all)], "vers=3,hard,ac,rsize=1"), "vers=3,hard,ac,rsize=1,nolock,soft");
        assert_eq!(with(&[(MAIN, "[ MountPoint /srv/pg ]\nSoft=True\n")], "rw"), "rw");
        assert_eq!(with(&[(MAIN, "[ NFSMount_Global_Options ]\nnfsvers=4.1\nbackground=True\n")], "vers=3"), "vers=3,bg");
    }

    #[test]
    fn a_later_file_replaces_values_and_other_names_are_not_read() {
        let soft = "[ NFSMount_Global_Options ]\nSoft=True\n";
        let not = "[ nfsmount_global_options ]\nsoft = false\n";
        assert_eq!(with(&[(MAIN, soft), ("/etc/nfsmount.conf.d/a.conf", not)], "rw"), "rw,nosoft");
        assert_eq!(with(&[("/etc/nfsmount.conf.d/a.conf", soft), ("/etc/nfsmount.conf.d/b.conf.bak", not)], "rw"), "rw,soft");
    }
}
