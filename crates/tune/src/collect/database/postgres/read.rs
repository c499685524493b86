//! Reads `postgresql.conf` and its includes in the order in which the server reads them
//! (ParseConfigFile of guc.c and guc-file.l).

use super::lines::{Line, line};
use crate::collect::collected::Collected;
use crate::collect::database::reading::{Budget, Reading};
use crate::collect::redact::REDACTED;
use crate::collect::sources::{Source, resolved};

/// Settings as they are written.
pub(in crate::collect) type Found = Reading<String>;

/// How deep files may include each other (CONF_FILE_MAX_DEPTH).
const DEPTH_MAX: usize = 10;

/// Old and new names of settings (map_old_guc_names).
const RENAMED: &[(&str, &str)] =
    &[("sort_mem", "work_mem"), ("vacuum_mem", "maintenance_work_mem"), ("force_parallel_mode", "debug_parallel_query")];

/// Reads the configuration file and its includes.
pub(super) fn configuration(collected: &Collected, path: &str, found: &mut Found) {
    let mut reader = Reader { collected, found, budget: Budget::default() };
    match collected.source(path) {
        // A server without a configuration file does not start.
        Source::Absent => reader.found.reject(format!("{path} is not there")),
        source => {
            if let Some(text) = reader.found.open(path, source) {
                reader.text(text, path, 0);
            }
        }
    }
}

/// Reads the file that ALTER SYSTEM writes. The server reads it last, and it may be missing.
pub(super) fn automatic(collected: &Collected, path: &str, found: &mut Found) {
    let mut reader = Reader { collected, found, budget: Budget::default() };
    if let Some(text) = reader.found.open(path, collected.source(path)) {
        reader.text(text, path, 0);
    }
}

struct Reader<'a, 'b> {
    collected: &'a Collected,
    found: &'b mut Found,
    budget: Budget,
}

impl Reader<'_, '_> {
    fn text(&mut self, text: &str, path: &str, depth: usize) {
        if !self.budget.take(text) {
            return self.found.gap(format!("{path} is one of more files than are read"));
        }
        for (number, said) in (1..).zip(text.split('\n')) {
            let origin = format!("{path}:{number}");
            match line(said) {
                Line::Empty => {}
                Line::Says(name, said) if name.starts_with("include") => self.include(&name, &said, path, &origin, depth + 1),
                Line::Says(name, said) => {
                    let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name.as_str(), |(_, new)| new);
                    self.found.set(name, said, origin);
                }
                // A capture replaces a secret value together with its quotes.
                Line::Wrong if said.contains(REDACTED) => self.left_out(said, &origin),
                Line::Wrong => self.found.reject(format!("{origin} is a syntax error, with which the server takes no file")),
            }
        }
    }

    fn left_out(&mut self, said: &str, origin: &str) {
        let reason = format!("{origin}: the value is left out of what is read");
        let name = said.trim_start().split(|letter: char| !letter.is_ascii_alphanumeric() && !"_.".contains(letter)).next();
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.found.doubt(&name.to_ascii_lowercase(), reason),
            None => self.found.gap(reason),
        }
    }

    fn include(&mut self, name: &str, said: &str, from: &str, origin: &str, depth: usize) {
        let path = resolved(said, from);
        let refused = |what: &str| format!("{origin} includes {path}, {what}, with which the server takes no file");
        if !matches!(name, "include" | "include_if_exists" | "include_dir") {
            return self.found.set(name, said.to_owned(), origin.to_owned());
        }
        if said.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
            return self.found.reject(refused("which is no name"));
        }
        if depth > DEPTH_MAX || path == from {
            return self.found.reject(refused("which is one file too many"));
        }
        if name != "include_dir" {
            let source = self.collected.source(&path);
            if source == Source::Absent && name == "include" {
                self.found.reject(refused("which is not there"));
            } else if let Some(text) = self.found.open(&path, source) {
                self.text(text, &path, depth);
            }
            return;
        }
        match self.collected.listing(&path) {
            Source::Absent => self.found.reject(refused("which is not there")),
            source => {
                let names = self.found.open(&path, source).into_iter().flatten();
                // The server reads them in byte order. It ignores hidden files and names that do
                // not end with `.conf`.
                let is_read = |name: &&String| name.len() > 5 && name.ends_with(".conf") && !name.starts_with('.');
                for name in names.filter(is_read) {
                    let file = resolved(name, &format!("{path}/"));
                    // The server ignores a folder with such a name.
                    if !self.collected.folders.contains_key(&file) {
                        let source = self.collected.source(&file);
                        if let Some(text) = self.found.open(&file, source) {
                            self.text(text, &file, depth + 1);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `/c/postgresql.conf` with other files, in folders whose listings are known.
    fn read(main: &str, others: &[(&str, &str)]) -> Found {
        let mut collected = Collected::default();
        collected.take_file("/c/postgresql.conf", main.as_bytes());
        for (path, text) in others {
            collected.take_file(path, text.as_bytes());
            let (folder, name) = path.rsplit_once('/').unwrap();
            collected.folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
        }
        let mut found = Found::default();
        configuration(&collected, "/c/postgresql.conf", &mut found);
        found.end_of_files();
        found
    }

    fn fsync(main: &str, others: &[(&str, &str)]) -> Option<String> {
        read(main, others).get("fsync").map(|(said, _)| said.clone())
    }

    #[test]
    fn an_include_is_read_where_it_stands() {
        let others = [("/c/conf.d/a.conf", "fsync = on\n"), ("/c/x", "fsync = on\n")];
        for include in ["include_dir 'conf.d'", "Include_Dir = '/c/conf.d'", "include x", "INCLUDE_IF_EXISTS 'x'"] {
            assert_eq!(fsync(&format!("{include}\nfsync = off"), &others).as_deref(), Some("off"), "{include}");
            assert_eq!(fsync(&format!("fsync = off\n{include}"), &others).as_deref(), Some("on"), "{include}");
            assert_eq!(fsync(&format!("fsync = off\n#{include}"), &others).as_deref(), Some("off"), "{include}");
        }
    }

    #[test]
    fn a_folder_gives_its_files_in_the_order_of_bytes_without_hidden_ones_and_other_ends() {
        let off = |name: &'static str| (name, "fsync = off\n");
        let on = |name: &'static str| (name, "fsync = on\n");
        let main = "fsync = start\ninclude_dir 'd'";
        for (files, wanted) in [
            (vec![off("/c/d/10.conf"), on("/c/d/9.conf")], "on"),
            (vec![off("/c/d/a.conf"), on("/c/d/Z.conf")], "off"),
            (
                vec![off("/c/d/.a.conf"), off("/c/d/a.CONF"), off("/c/d/a.conf.bak"), off("/c/d/.conf"), off("/c/d/a.conf~")],
                "start",
            ),
        ] {
            assert_eq!(fsync(main, &files).as_deref(), Some(wanted), "{files:?}");
        }
    }

    #[test]
    fn includes_of_includes_are_found_from_the_file_that_names_them() {
        let others = [("/c/d/a.conf", "include 'more/b'\n"), ("/c/d/more/b", "fsync = off\n"), ("/c/more/b", "fsync = on\n")];
        assert_eq!(fsync("include_dir d", &others).as_deref(), Some("off"));
    }

    #[test]
    fn what_was_not_read_makes_everything_before_it_unknown() {
        for include in ["include 'x'", "include_if_exists 'x'", "include_dir 'x'", "include '/srv/x'"] {
            let found = read(&format!("fsync = on\n{include}\nwal_level = replica"), &[]);
            assert!(found.is_unknown("fsync") && found.is_unknown("full_page_writes"), "{include}");
            assert!(!found.is_unknown("wal_level") && found.wanted.len() == 1, "{include}");
        }
    }

    #[test]
    fn with_a_file_that_the_server_refuses_nothing_is_known() {
        let absent = [("/c/d/a.conf", "include '../postgresql.conf'\n")];
        for main in
            ["fsync = on\noops", "fsync = on\ninclude ' '", "fsync = on\ninclude postgresql.conf", "include_dir d\nfsync = on"]
        {
            assert!(read(main, &absent).is_unknown("fsync"), "{main}");
        }
        assert!(!read("fsync = on\nssl_passphrase_command = '[redacted]", &[]).is_unknown("fsync"));
    }
}
