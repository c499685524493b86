//! Clusters of PostgreSQL by their files: `postgresql.conf` with its includes,
//! `postgresql.auto.conf`, and the command line.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::read::{Found, automatic, configuration};
use super::values::value;
use crate::collect::ask::{Answers, Question, answered, program_of};
use crate::collect::collected::Collected;
use crate::collect::database::from_files::by_files;
use crate::collect::running_text;
use crate::collect::text::integer;
use crate::facts::{COMMAND_LINE, Database, Facts, Server};

/// Settings on which the safety of the data depends, with their defaults, which are the same in
/// every version.
const DEFAULTS: [(&str, bool); 8] = [
    ("autovacuum", true),
    ("data_sync_retry", false),
    ("fsync", true),
    ("full_page_writes", true),
    ("ignore_checksum_failure", false),
    ("synchronous_commit", true),
    ("track_counts", true),
    ("zero_damaged_pages", false),
];

/// Settings that rules use. The server's program is asked for them.
const ASKED: &[&str] = &[
    "autovacuum",
    "backend_flush_after",
    "bgwriter_delay",
    "bgwriter_lru_maxpages",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "data_sync_retry",
    "debug_io_direct",
    "dynamic_shared_memory_type",
    "effective_cache_size",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "ignore_checksum_failure",
    "io_method",
    "io_workers",
    "log_checkpoints",
    "maintenance_io_concurrency",
    "max_connections",
    "max_wal_size",
    "min_wal_size",
    "random_page_cost",
    "shared_buffers",
    "synchronous_commit",
    "track_counts",
    "track_io_timing",
    "track_wal_io_timing",
    "wal_buffers",
    "wal_compression",
    "wal_init_zero",
    "wal_recycle",
    "wal_sync_method",
    "zero_damaged_pages",
];

/// A cluster as its files describe it.
pub(in crate::collect) struct Cluster {
    /// The path of `postgresql.conf`, or of the file that the server was started with instead.
    pub(in crate::collect) config: String,
    /// Its data directory, if it is known.
    pub(in crate::collect) data: Option<String>,
    /// The origin of the data directory.
    data_origin: String,
    /// The file that ALTER SYSTEM writes.
    automatic: Option<String>,
    /// Its settings.
    pub(in crate::collect) found: Found,
}

/// The clusters with a configuration file that was collected or that this user may not read.
pub(in crate::collect) fn clusters(collected: &Collected) -> Vec<Cluster> {
    let others = collected.running.iter().filter(|server| server.database == Database::Postgres);
    let others = others.filter_map(|server| server.config.as_deref()).filter(|path| collected.file(path).is_some());
    let mains: BTreeSet<&str> = named(collected, "postgresql.conf").chain(others).collect();
    mains.iter().map(|main| cluster(collected, main, mains.len() == 1)).collect()
}

/// Files with this name, including those that this user may not read.
fn named<'a>(collected: &'a Collected, wanted: &'static str) -> impl Iterator<Item = &'a str> {
    let all = collected.files.keys().chain(collected.denied.keys());
    all.map(String::as_str).filter(move |path| path.starts_with('/') && split(path).1 == wanted)
}

fn cluster(collected: &Collected, config: &str, is_only: bool) -> Cluster {
    let folder = split(config).0;
    let running = collected.running_with(config);
    let mut found = Found::default();
    configuration(collected, config, &mut found);
    let data_origin = found.get("data_directory").map_or(config, |(_, origin)| origin).to_owned();
    let said = found.get("data_directory").map(|(said, _)| said.trim_end_matches('/').to_owned());
    let said = said.filter(|said| said.starts_with('/')).or_else(|| running?.directory.clone());
    // If files were collected without their folders, the only one of each name belongs to this
    // cluster.
    let alone = (is_only && said.is_none()).then(|| named(collected, "postgresql.auto.conf").next()).flatten();
    let beside = (!found.is_unknown("data_directory")).then_some(folder);
    let data = said.or_else(|| alone.map(split).map(|(folder, _)| folder).or(beside).map(str::to_owned));
    let path = data.as_ref().map(|data| format!("{data}/postgresql.auto.conf"));
    match &path {
        Some(path) => automatic(collected, path, &mut found),
        None => found.gap(format!("the data directory of {config} is not known, in which ALTER SYSTEM writes")),
    }
    found.end_of_files();
    for (name, said) in running.into_iter().flat_map(|server| &server.options) {
        found.set(name, said.clone(), COMMAND_LINE.to_owned());
    }
    if let Some(reason) = running_text::lost(Database::Postgres, collected) {
        found.gap(format!("{reason}, and a command line decides over files"));
    }
    let version = data.as_deref().and_then(|data| version(data, collected));
    if let Some(answers) = answered(&["postgres", "postmaster"], config, collected) {
        told(answers, version, &mut found);
    }
    Cluster { config: config.to_owned(), data, data_origin, automatic: path, found }
}

/// Adds the values that `postgres -C` printed. If a file has the same value, the file stays the
/// origin.
fn told(answers: Answers, version: Option<i64>, found: &mut Found) {
    for (name, said) in &answers.told {
        let wanted = value(name, said, version);
        let is_same = found.get(name).is_some_and(|(there, _)| value(name, there, version) == wanted);
        if !is_same {
            found.set(name, said.clone(), format!("postgres -C {name}"));
        }
    }
    let Some(reason) = answers.refused.map(|reason| format!("postgres -C: {reason}")) else { return };
    if answers.told.is_empty() {
        return found.gap(reason);
    }
    let is_missing = |name: &&&str| !answers.told.iter().any(|(told, _)| told == **name);
    ASKED.iter().filter(is_missing).for_each(|name| found.doubt(name, reason.clone()));
}

/// The question for each cluster.
pub(in crate::collect) fn questions(collected: &Collected) -> Vec<Question> {
    let question = |cluster: Cluster| {
        let data = cluster.data?;
        let running = collected.running_with(&cluster.config);
        let major = collected.file(&format!("{data}/PG_VERSION"))?.trim().to_owned();
        let major = Some(major).filter(|major| major.chars().all(|letter| letter.is_ascii_digit() || letter == '.'))?;
        let set = running.into_iter().flat_map(|server| &server.options).map(|(name, said)| format!("{name}={said}"));
        let set: Vec<String> =
            set.chain([format!("config_file={}", cluster.config)]).flat_map(|set| ["-c".to_owned(), set]).collect();
        let run = |name: &&str| {
            let mut words = vec!["-C".to_owned(), (*name).to_owned(), "-D".to_owned(), data.clone()];
            words.extend(set.iter().cloned());
            words
        };
        let runs = ASKED.iter().map(run).collect();
        let programs = program_of(running).into_iter().chain(packaged(&major)).collect();
        Some(Question { config: cluster.config, programs, data, user: running.map(|server| server.uid), runs })
    };
    clusters(collected).into_iter().filter_map(question).collect()
}

/// Paths of the program of a version in packages.
pub(in crate::collect) fn packaged(major: &str) -> [PathBuf; 2] {
    [format!("/usr/lib/postgresql/{major}/bin/postgres"), format!("/usr/pgsql-{major}/bin/postgres")].map(PathBuf::from)
}

fn version(data: &str, collected: &Collected) -> Option<i64> {
    collected.file(&format!("{data}/PG_VERSION")).and_then(major)
}

/// The servers that the files show, each with only its own files.
pub(super) fn servers(collected: &Collected) -> Vec<Server> {
    let clusters = clusters(collected);
    let taken: BTreeSet<String> = clusters.iter().filter_map(|cluster| cluster.automatic.clone()).collect();
    // `postgresql.conf` is read before this file. Without it, all other settings of that cluster
    // are unknown.
    let orphans =
        named(collected, "postgresql.auto.conf").filter(|path| !taken.contains(*path) && collected.file(path).is_some());
    let orphans = orphans.map(|path| {
        let mut found = Found::default();
        found.gap(format!("the postgresql.conf that is read before {path} was not collected"));
        automatic(collected, path, &mut found);
        found.end_of_files();
        server(split(path).0, None, Some((split(path).0, path)), found, collected)
    });
    let orphans: Vec<Server> = orphans.collect();
    let whole = clusters.into_iter().map(|cluster| {
        let Cluster { config, data, data_origin, found, .. } = cluster;
        server(split(&config).0, Some(&config), data.as_deref().zip(Some(data_origin.as_str())), found, collected)
    });
    whole.chain(orphans).collect()
}

/// One server. `data` is its data directory and the origin of that.
fn server(folder: &str, config: Option<&str>, data: Option<(&str, &str)>, found: Found, collected: &Collected) -> Server {
    let mut facts = Facts::default();
    for (name, value) in DEFAULTS.iter().filter(|(name, _)| found.get(name).is_none() && !found.is_unknown(name)) {
        facts.put(&format!("postgres.{name}"), *value, "the server's default");
    }
    // This fact shows that a cluster exists, even if none of its settings is known.
    facts.put("postgres.config_file", config.unwrap_or_default(), config.unwrap_or(folder));
    let version = data.and_then(|(data, _)| version(data, collected));
    found.put(Database::Postgres, &mut facts, |name, said| value(name, said, version));
    // ALTER SYSTEM, whose file may be missing, cannot set the data directory. The folder of the
    // configuration file counts only if it contains a cluster.
    let is_cluster = |(data, _): &(&str, &str)| *data != folder || version.is_some();
    if let Some((data, origin)) = data.filter(is_cluster).filter(|_| !facts.host.contains_key("postgres.data_directory")) {
        facts.put("postgres.data_directory", data, origin);
    }
    let stopped = config.is_some_and(|config| collected.stopped.contains(config));
    if let Some(dsn) = config.and_then(|config| collected.running_with(config)?.dsn.clone()) {
        facts.put(Server::DSN, dsn, "its process and its files");
    }
    by_files(Database::Postgres, "PostgreSQL", folder, stopped, config, facts)
}

/// The `server_version_num` for a `PG_VERSION`, without the minor version. For 9.6 and older, the
/// second number is lost.
fn major(text: &str) -> Option<i64> {
    integer(text.trim().split('.').next()?).map(|major| major * 10_000)
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
