//! Clusters of PostgreSQL by their files: `postgresql.conf`, `conf.d`, `postgresql.auto.conf`.

use std::collections::{BTreeMap, BTreeSet};

use super::settings::configured;
use crate::collect::collected::Collected;
use crate::collect::database::from_files::by_files;
use crate::collect::text::{odd, telling, unquoted};
use crate::facts::{COMMAND_LINE, Database, Facts, Server};

/// Settings by name, each as written and where.
type Found = BTreeMap<String, (String, String)>;

/// Settings on which the data depend, with the values they have had in every version where nothing sets them.
const DEFAULTS: [(&str, bool); 7] = [
    ("autovacuum", true),
    ("data_sync_retry", false),
    ("fsync", true),
    ("full_page_writes", true),
    ("ignore_checksum_failure", false),
    ("track_counts", true),
    ("zero_damaged_pages", false),
];

/// The clusters that files tell of, each with its own files alone.
pub(super) fn clusters(collected: &Collected) -> Vec<Server> {
    let named = |wanted: &'static str| collected.files.keys().filter(move |path| split(path).1 == wanted).map(String::as_str);
    let others = collected.running.iter().filter(|server| server.database == Database::Postgres);
    let others = others.filter_map(|server| server.config.as_deref()).filter(|path| collected.file(path).is_some());
    let mains: BTreeSet<&str> = named("postgresql.conf").chain(others).collect();
    let mut taken = BTreeSet::new();
    let mut servers = Vec::new();
    for main in &mains {
        let folder = split(main).0;
        let mut found = Found::new();
        let mut facts = Facts::default();
        let mut take = |path: &str, found: &mut Found| {
            if let Some(text) = collected.file(path) {
                taken.insert(path.to_owned());
                settings(text, path, found, &mut facts);
            }
        };
        take(main, &mut found);
        let running = collected.running_with(main);
        for path in drop_ins(collected, folder, running.is_some()) {
            take(path, &mut found);
        }
        let data = found.get("data_directory").map(|(said, _)| said.trim_end_matches('/').to_owned());
        let data = data.or_else(|| running?.directory.clone());
        let alone = (mains.len() == 1 && data.is_none()).then(|| named("postgresql.auto.conf").next()).flatten();
        // The file that ALTER SYSTEM writes is read last.
        let automatic = format!("{}/postgresql.auto.conf", data.as_deref().unwrap_or(folder));
        take(&automatic, &mut found);
        if let Some(path) = alone.filter(|path| split(path).0 != folder) {
            take(path, &mut found);
        }
        for (name, said) in running.into_iter().flat_map(|server| &server.options) {
            found.insert(name.clone(), (said.clone(), COMMAND_LINE.to_owned()));
        }
        // Where every file was read and understood, what none of them sets is as the server begins.
        if collected.file(&automatic).is_some() && facts.remarks.is_empty() {
            let unset = DEFAULTS.iter().filter(|(name, _)| !found.contains_key(*name));
            unset.for_each(|(name, value)| facts.put(&format!("postgres.{name}"), *value, "the server's default"));
        }
        servers.push(server(folder, Some(main), found, facts, collected));
    }
    // What belongs to no postgresql.conf that is at hand.
    let auto = named("postgresql.auto.conf").map(|path| (split(path).0, path));
    let others =
        collected.files.keys().filter_map(|path| split(path).0.strip_suffix("/conf.d").map(|folder| (folder, path.as_str())));
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (folder, path) in others.filter(|(_, path)| is_drop_in(path)).chain(auto).filter(|(_, path)| !taken.contains(*path)) {
        left.entry(folder).or_default().push(path);
    }
    for (folder, paths) in left {
        let (mut found, mut facts) = (Found::new(), Facts::default());
        for path in paths {
            settings(collected.file(path).unwrap_or_default(), path, &mut found, &mut facts);
        }
        servers.push(server(folder, None, found, facts, collected));
    }
    servers
}

fn server(folder: &str, config: Option<&str>, found: Found, mut facts: Facts, collected: &Collected) -> Server {
    for (name, (said, origin)) in found {
        let value = configured(&name, &said);
        facts.put(&format!("persistent.postgres.{name}"), value.clone(), &origin);
        facts.put(&format!("postgres.{name}"), value, &origin);
    }
    let stopped = config.is_some_and(|config| collected.stopped.contains(config));
    by_files(Database::Postgres, "PostgreSQL", folder, stopped, config, facts)
}

/// Folder and name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn is_drop_in(path: &str) -> bool {
    path.ends_with(".conf") && path.contains("postgres")
}

/// Files below `conf.d`. `is_read`: the files are those that a running server reads, whatever the folder is called.
fn drop_ins<'a>(collected: &'a Collected, folder: &str, is_read: bool) -> Vec<&'a str> {
    let begin = format!("{folder}/conf.d/");
    collected
        .files_under(&begin)
        .map(|(path, _)| path)
        .filter(|path| (is_read || is_drop_in(path)) && split(path).0.len() + 1 == begin.len())
        .collect()
}

fn settings(text: &str, path: &str, found: &mut Found, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        match line_of(line) {
            // Its files are read, after those of postgresql.conf.
            Some((name, said)) if is_drop_ins(name, &said) => {}
            Some((name, said)) if name.starts_with("include") => {
                facts.remark(format!("{path}:{number} includes {said:?}, which is not followed"));
            }
            Some((name, said)) => drop(found.insert(name.to_ascii_lowercase(), (said, format!("{path}:{number}")))),
            None => odd(facts, path, number, line),
        }
    }
}

fn is_drop_ins(name: &str, said: &str) -> bool {
    name == "include_dir" && said.trim_end_matches('/') == "conf.d"
}

/// Whether a `postgresql.conf` has the files below `conf.d` read.
pub(in crate::collect) fn includes_drop_ins(text: &str) -> bool {
    telling(text, &['#']).filter_map(|(_, line)| line_of(line)).any(|(name, said)| is_drop_ins(name, &said))
}

/// The data directory that a `postgresql.conf` names.
pub(in crate::collect) fn data_directory(text: &str) -> Option<String> {
    setting(text, "data_directory").filter(|said| said.starts_with('/'))
}

/// A setting of a configuration file, as written.
pub(in crate::collect) fn setting(text: &str, wanted: &str) -> Option<String> {
    let all = telling(text, &['#']).filter_map(|(_, line)| line_of(line));
    all.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).last().map(|(_, said)| said)
}

/// `name = 'value' # comment`; the sign may be left out.
fn line_of(line: &str) -> Option<(&str, String)> {
    let end = line.find(|letter: char| letter == '=' || letter.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start().strip_prefix('=').unwrap_or(rest).trim();
    if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.') {
        return None;
    }
    let said = if let Some(inner) = rest.strip_prefix('\'') {
        let mut said = String::new();
        let mut letters = inner.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\'' if letters.peek() == Some(&'\'') => said.extend(letters.next()),
                '\'' => break,
                letter => said.push(letter),
            }
        }
        said
    } else {
        unquoted(rest.split('#').next().unwrap_or(rest)).to_owned()
    };
    Some((name, said))
}
