//! Entries of a capture that a parser may read, kept until the MANIFEST says what each of them is.

use std::collections::{BTreeMap, BTreeSet};

use super::collected::{Collected, LISTING};
use super::layout::{self, Place};
use super::limits::{CAPTURE_BYTES_MAX, FILES_MAX};
use super::redact::redacted;
use super::sources::{is_writable, resolved};
use super::{manifest, text};

/// The entries of a capture. The MANIFEST may be the last of them.
#[derive(Default)]
pub(super) struct Entries {
    kept: Vec<(String, Place, Vec<u8>)>,
    remarks: Vec<String>,
    /// Links: the entry's path, the file in whose place the link is, and its target.
    links: Vec<(String, Place, String)>,
    bytes: usize,
    /// Folders of trees, by their path in the capture, with the names in them that a parser may
    /// read.
    folders: BTreeMap<String, BTreeSet<String>>,
    /// Entries that every user may write, and the number of the other entries.
    writable: BTreeSet<String>,
    protected: usize,
    /// Number of entries so far, including those that no parser reads.
    pub(super) seen: usize,
}

impl Entries {
    pub(super) fn remark(&mut self, remark: String) {
        // Later remarks would add nothing.
        if self.remarks.len() < 100 {
            self.remarks.push(remark);
        }
    }

    /// Counts an entry and returns its place; `None` if no parser reads it.
    pub(super) fn place(&mut self, path: &str) -> Option<Place> {
        let place = layout::place(path);
        if matches!(place, Some(Place::File(_) | Place::InTree)) {
            self.name(path);
        }
        match place {
            None => {
                self.remark(format!("entry {:?} leads out of the capture or is too deep: skipped", text::head(path, 120)));
                None
            }
            Some(Place::Nothing) => None,
            Some(_) if self.bytes >= CAPTURE_BYTES_MAX || self.kept.len() >= FILES_MAX => {
                self.remark(format!("entry {:?} is skipped: more than a capture may hold", text::head(path, 120)));
                None
            }
            Some(place) => Some(place),
        }
    }

    /// Notes a name in its folder, even if the entry is skipped later.
    fn name(&mut self, path: &str) {
        if let Some((folder, name)) = path.trim_start_matches("./").rsplit_once('/') {
            self.folder(folder);
            if let Some(names) = self.folders.get_mut(folder).filter(|names| names.len() < FILES_MAX) {
                names.insert(name.to_owned());
            }
        }
    }

    /// Notes a folder and the folders above it.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let mut path = Some(path).filter(|path| !path.is_empty());
        while let Some(folder) = path.filter(|folder| self.folders.len() < FILES_MAX && !self.folders.contains_key(*folder)) {
            self.folders.insert(folder.to_owned(), BTreeSet::new());
            path = folder.rsplit_once('/').map(|(above, _)| above);
        }
    }

    /// Keeps an entry. `mode` has its permissions.
    pub(super) fn keep(&mut self, path: &str, place: Place, bytes: Vec<u8>, mode: u32) {
        let inner = path.trim_start_matches("./");
        if is_writable(mode) {
            self.writable.insert(inner.to_owned());
        } else {
            self.protected += 1;
        }
        self.bytes += bytes.len();
        self.kept.push((path.to_owned(), place, bytes));
    }

    /// Notes a link. It is followed only inside the capture.
    pub(super) fn link(&mut self, path: &str, place: Place, target: &str) {
        match place {
            Place::File(_) | Place::InTree if self.links.len() < FILES_MAX => {
                self.links.push((path.to_owned(), place, target.to_owned()));
            }
            _ => self.remark(format!("entry {:?} is a link or a device: skipped", text::head(path, 120))),
        }
    }

    /// Places the entries on the host. `None` if only lists were kept.
    pub(super) fn into_collected(mut self) -> Option<Collected> {
        let mut collected = Collected { remarks: std::mem::take(&mut self.remarks), ..Collected::default() };
        self.kept.sort_by(|left, right| left.0.cmp(&right.0));
        let (listed, root) = self.manifest(&mut collected);
        let tree = self.tree_root();
        self.folders(&root, &tree, &mut collected);
        // A file in the MANIFEST existed on the host, even if it is not in the capture.
        for path in listed.keys().filter_map(|path| path.strip_prefix("files")) {
            if let Some((folder, name)) = path.rsplit_once('/').filter(|(folder, _)| collected.folders.contains_key(*folder)) {
                collected.folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
            }
        }
        // If every entry may be written by all users, the archive has lost the host's permissions.
        let is_writable = |path: &str| self.protected > 0 && self.writable.contains(path);
        let mut useful = false;
        let mut found = BTreeSet::new();
        for (path, place, bytes) in self.kept {
            let path = path.trim_start_matches("./");
            let inner = path.strip_prefix(root.as_str()).unwrap_or(path);
            let entry = listed.get(inner);
            found.insert(inner.to_owned());
            // The file or folder was looked for and does not exist.
            if let Some(entry) = entry.filter(|entry| entry.is_absent()) {
                collected.absent.insert(entry.line.clone());
                continue;
            }
            // If a file or command could not be read or run, the entry's text is the reason.
            if let Some(entry) = entry.filter(|entry| matches!(entry.exit, Some(126 | 127))) {
                let reason =
                    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).lines().next().unwrap_or_default().to_owned();
                collected.denied.insert(entry.line.clone(), redacted("", &reason));
                continue;
            }
            let place = if place == Place::InTree { Place::File(in_tree(inner, &tree)) } else { place };
            match place {
                Place::File(file) => {
                    collected.take_file(&file, &bytes);
                    collected.writable.extend(is_writable(path).then_some(file));
                }
                Place::Command(slug) => {
                    let line = entry.map_or(slug.as_str(), |entry| entry.line.as_str());
                    collected.take_command(line, &bytes, entry.and_then(|entry| entry.exit));
                }
                Place::Site => collected.site = text::decode(&bytes, "site.toml", &mut collected.remarks),
                Place::Manifest | Place::Nothing | Place::InTree => continue,
            }
            useful = true;
        }
        follow(&placed(self.links, &root, &tree), &mut collected);
        for entry in listed.values().filter(|entry| entry.is_absent()) {
            collected.absent.insert(entry.line.clone());
        }
        for entry in listed.values().filter(|entry| entry.exit != Some(0) && !entry.is_absent() && !entry.line.is_empty()) {
            let code = entry.exit.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
            collected.denied.entry(entry.line.clone()).or_insert(format!("{code} as {}", entry.user));
        }
        let missing = listed.values().filter(|entry| entry.exit == Some(0) && !found.contains(&entry.path));
        let missing: Vec<_> = missing.filter(|entry| layout::place(&entry.path) != Some(Place::Nothing)).collect();
        for entry in missing.iter().take(20) {
            collected.remarks.push(format!("MANIFEST names {:?}, which is not there", entry.path));
        }
        for entry in missing {
            let folder = entry.line.strip_prefix(LISTING).map(|folder| folder.trim().trim_end_matches('/').to_owned());
            let name = folder.unwrap_or_else(|| entry.line.clone());
            collected.folders.remove(&name);
            collected.denied.insert(name, "the MANIFEST names it, and it is not in the capture".to_owned());
        }
        useful.then_some(collected)
    }

    /// The folders above the host's root in a tree; empty if the tree begins with the root.
    fn tree_root(&self) -> String {
        let roots = self.kept.iter().filter(|(_, place, _)| matches!(place, Place::File(_)));
        let roots = roots.filter_map(|(path, ..)| layout::below_root(path)).map(|(root, _)| root);
        roots.min_by_key(|root| root.matches('/').count() + usize::from(!root.is_empty())).unwrap_or_default()
    }

    /// Places the folders of a tree and those below `files` on the host.
    fn folders(&self, root: &str, tree: &str, collected: &mut Collected) {
        for (folder, names) in &self.folders {
            let inner = folder.strip_prefix(root).unwrap_or(folder);
            let path = match inner.strip_prefix("files/") {
                Some(path) => format!("/{path}"),
                None => in_tree(inner, tree),
            };
            collected.folders.entry(path).or_default().extend(names.iter().cloned());
        }
    }

    /// Reads the MANIFEST. Returns its entries by path and the folder that contains it.
    fn manifest(&self, collected: &mut Collected) -> (BTreeMap<String, manifest::Listed>, String) {
        let Some((path, _, bytes)) = self.kept.iter().find(|(_, place, _)| *place == Place::Manifest) else {
            return (BTreeMap::new(), String::new());
        };
        let text = text::decode(bytes, "MANIFEST", &mut collected.remarks).unwrap_or_default();
        let listed = manifest::read(&text, collected);
        collected.listed = !listed.is_empty();
        if !listed.is_empty() {
            collected.root = Some(listed.iter().any(|entry| entry.user == "root"));
        }
        let path = path.trim_start_matches("./");
        let root = path.strip_suffix("MANIFEST").unwrap_or_default().to_owned();
        (listed.into_iter().map(|entry| (entry.path.clone(), entry)).collect(), root)
    }
}

/// The path on the host of an entry in a tree whose root is below these folders.
fn in_tree(path: &str, tree: &str) -> String {
    let inner = path.strip_prefix(tree).unwrap_or(path);
    format!("/{}", inner.trim_start_matches('/'))
}

/// Links with the files of the host in whose place they are.
fn placed(links: Vec<(String, Place, String)>, root: &str, tree: &str) -> Vec<(String, String, String)> {
    let of = |(path, place, target): (String, Place, String)| {
        let inner = path.trim_start_matches("./");
        let file = match place {
            Place::File(file) => file,
            _ => in_tree(inner.strip_prefix(root).unwrap_or(inner), tree),
        };
        (path, file, target)
    };
    links.into_iter().map(of).collect()
}

/// How many links may follow each other.
const LINKS_MAX: usize = 8;

/// Adds the files in whose place links are, with the text of their targets. The text is empty for
/// /dev/null, which masks a file. A target that is not in the capture was not read.
fn follow(links: &[(String, String, String)], collected: &mut Collected) {
    let targets: BTreeMap<&str, &str> = links.iter().map(|(_, file, target)| (file.as_str(), target.as_str())).collect();
    for (path, file, _) in links {
        let mut at = file.clone();
        for _ in 0..LINKS_MAX {
            match targets.get(at.as_str()) {
                Some(target) => at = resolved(target, &at),
                None => break,
            }
        }
        let text = if at == "/dev/null" { Some(String::new()) } else { collected.files.get(&at).cloned() };
        match text {
            Some(text) => {
                collected.files.entry(file.clone()).or_insert(text);
            }
            None => {
                collected.remarks.push(format!("entry {:?} is a link or a device: skipped", text::head(path, 120)));
                collected.denied.entry(file.clone()).or_insert("a link to what is not in the capture".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::sources::Source;

    #[test]
    fn a_link_is_followed_inside_the_capture_and_one_that_leads_out_was_not_read() {
        let mut entries = Entries::default();
        let link = |entries: &mut Entries, path: &str, target: &str| {
            let place = entries.place(path).unwrap();
            entries.link(path, place, target);
        };
        link(&mut entries, "etc/mysql/my.cnf", "/etc/alternatives/my.cnf");
        link(&mut entries, "etc/alternatives/my.cnf", "/etc/mysql/mariadb.cnf");
        link(&mut entries, "srv/db/conf.d/a.conf", "/elsewhere/a.conf");
        for path in ["etc/mysql/mariadb.cnf", "srv/db/postgresql.conf"] {
            let place = entries.place(path).unwrap();
            entries.keep(path, place, b"text".to_vec(), 0o644);
        }
        let collected = entries.into_collected().unwrap();
        assert!(matches!(collected.source("/etc/mysql/my.cnf"), Source::Read(_)));
        // The listing of its folder still names it.
        assert!(matches!(collected.listing("/srv/db/conf.d"), Source::Read(names) if names.contains("a.conf")));
        assert!(matches!(collected.source("/srv/db/conf.d/a.conf"), Source::Unread(_)));
    }
}
