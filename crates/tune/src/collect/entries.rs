//! Entries of a capture that a parser may read, gathered until its MANIFEST says what each of them is.

use std::collections::{BTreeMap, BTreeSet};

use super::collected::Collected;
use super::layout::{self, Place};
use super::limits::{CAPTURE_BYTES_MAX, FILES_MAX};
use super::{manifest, text};

/// Entries worth keeping, until the MANIFEST is known, which may come last.
#[derive(Default)]
pub(super) struct Entries {
    kept: Vec<(String, Place, Vec<u8>)>,
    remarks: Vec<String>,
    bytes: usize,
    /// Entries seen so far, those that nobody reads included.
    pub(super) seen: usize,
}

impl Entries {
    pub(super) fn remark(&mut self, remark: String) {
        // The rest is as odd as what is named.
        if self.remarks.len() < 100 {
            self.remarks.push(remark);
        }
    }

    /// Counts an entry and says where it belongs; `None` when no parser reads it.
    pub(super) fn place(&mut self, path: &str) -> Option<Place> {
        match layout::place(path) {
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

    pub(super) fn keep(&mut self, path: &str, place: Place, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.kept.push((path.to_owned(), place, bytes));
    }

    /// `None` when nothing was kept but lists.
    pub(super) fn into_collected(mut self) -> Option<Collected> {
        let mut collected = Collected { remarks: std::mem::take(&mut self.remarks), ..Collected::default() };
        self.kept.sort_by(|left, right| left.0.cmp(&right.0));
        let (listed, root) = self.manifest(&mut collected);
        let mut useful = false;
        let mut found = BTreeSet::new();
        for (path, place, bytes) in self.kept {
            let path = path.trim_start_matches("./");
            let inner = path.strip_prefix(root.as_str()).unwrap_or(path);
            let entry = listed.get(inner);
            found.insert(inner.to_owned());
            // What could not be had has its reason as text.
            if let Some(entry) = entry.filter(|entry| matches!(entry.exit, Some(126 | 127))) {
                let reason =
                    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).lines().next().unwrap_or_default().to_owned();
                collected.denied.insert(entry.line.clone(), reason);
                continue;
            }
            match place {
                Place::File(file) => collected.take_file(&file, &bytes),
                Place::Command(slug) => {
                    let line = entry.map_or(slug.as_str(), |entry| entry.line.as_str());
                    collected.take_command(line, &bytes, entry.and_then(|entry| entry.exit));
                }
                Place::Site => collected.site = text::decode(&bytes, "site.toml", &mut collected.remarks),
                Place::Manifest | Place::Nothing => continue,
            }
            useful = true;
        }
        for entry in listed.values().filter(|entry| entry.exit != Some(0) && !entry.line.is_empty()) {
            let code = entry.exit.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
            collected.denied.entry(entry.line.clone()).or_insert(format!("{code} as {}", entry.user));
        }
        let missing = listed.values().filter(|entry| entry.exit == Some(0) && !found.contains(&entry.path));
        let missing: Vec<&str> =
            missing.map(|entry| entry.path.as_str()).filter(|path| layout::place(path) != Some(Place::Nothing)).collect();
        for path in missing.iter().take(20) {
            collected.remarks.push(format!("MANIFEST names {path:?}, which is not there"));
        }
        useful.then_some(collected)
    }

    /// Reads the MANIFEST: its entries by path, and the folder it lies in.
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
