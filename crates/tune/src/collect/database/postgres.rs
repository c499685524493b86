//! PostgreSQL: `pg_settings`, and what files tell of clusters.

pub(in crate::collect) mod files;

use super::answer::text_of;
use super::answers;
use super::rows::{Row, address, named, plain, table};
use crate::collect::collected::Collected;
use crate::collect::text::{integer, words};
use crate::facts::{Database, Facts, Server, Value};

/// Servers of PostgreSQL found in a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    files::clusters(collected).into_iter().for_each(|cluster| facts.put_server(cluster));
    let mut tables: Vec<(&str, Option<&str>, Vec<Row>)> = Vec::new();
    let mut versions: Vec<(&str, &str)> = Vec::new();
    for (path, text) in &collected.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name.starts_with("pg_settings") {
            tables.push((path, None, named(table(text))));
        }
        if name == "PG_VERSION" {
            versions.push((path, text.trim()));
        }
    }
    for output in &collected.commands {
        let line = output.line.to_ascii_lowercase();
        if line.contains("pg_settings") || line.contains("pg-settings") {
            tables.push((&output.line, address(&output.line), named(table(&output.text))));
        }
        let asked = line.starts_with("postgres") || line.contains("version()");
        if let Some((_, rest)) = output.text.split_once("PostgreSQL").filter(|_| asked) {
            let said = words(rest).find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
            versions.push((&output.line, said.unwrap_or_default()));
        }
    }
    answers(Database::Postgres, &tables, facts);
    for (origin, said) in versions {
        place_version(said, origin, facts);
    }
}

/// A version that a file of a data directory or a command tells belongs to the server of that directory, else to the only one.
fn place_version(said: &str, origin: &str, facts: &mut Facts) {
    let folder = origin.strip_suffix("/PG_VERSION");
    let is_of = |server: &Server| folder.is_some() && directory(server).as_deref() == folder;
    let servers: Vec<usize> =
        (0..).zip(&facts.servers).filter(|(_, server)| server.database == Database::Postgres).map(|(at, _)| at).collect();
    let of_folder = facts.servers.iter().position(is_of);
    let only = if let [only] = servers.as_slice() { Some(*only) } else { None };
    match of_folder.or(only).and_then(|at| facts.servers.get_mut(at)) {
        Some(server) => version(said, origin, &mut server.facts),
        None if servers.is_empty() => version(said, origin, facts),
        None => {}
    }
}

/// The data directory of a server: what it says, else where its configuration file lies.
fn directory(server: &Server) -> Option<String> {
    let said = text_of(&server.facts, "postgres.data_directory").map(str::to_owned);
    said.or_else(|| server.config.as_deref()?.rsplit_once('/').map(|(folder, _)| folder.to_owned()))
}

/// Rows of `pg_settings`: numbers become bytes, milliseconds, or counts.
pub(super) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    let mut pending = rows.iter().any(|row| row.pending_restart.is_some()).then(Vec::new);
    for row in rows {
        let value = match (integer(&row.value), row.unit.as_deref().and_then(factor)) {
            // -1 and the like are words, not amounts.
            (Some(number), Some(factor)) if number > 0 => Value::Int(number.saturating_mul(factor)),
            _ => plain(&row.value),
        };
        match row.name.as_str() {
            "server_version_num" => {
                if let Value::Int(_) = value {
                    facts.put("postgres.version", value.clone(), origin);
                }
            }
            "server_version"
                if facts.value("postgres.version").is_none() && !rows.iter().any(|row| row.name == "server_version_num") =>
            {
                version(&row.value, origin, facts);
            }
            _ => {}
        }
        facts.put(&format!("postgres.{}", row.name), value, row.origin(origin));
        if let Some(pending) = pending.as_mut().filter(|_| row.pending_restart == Some(true)) {
            pending.push(Value::Text(row.name.clone()));
        }
    }
    if let Some(pending) = pending {
        facts.put("postgres.pending_restart", Value::List(pending), origin);
    }
}

/// What one of a unit is in bytes or milliseconds.
fn factor(unit: &str) -> Option<i64> {
    let end = unit.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(0);
    let (count, unit) = unit.split_at(end);
    let count = if count.is_empty() { 1 } else { integer(count)? };
    let one = match unit {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(one * count)
}

/// A value of a configuration file: with a unit of its own, or in the one that the setting has.
fn configured(name: &str, said: &str) -> Value {
    let end = said.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(said.len());
    let (digits, unit) = said.split_at(end);
    match (integer(digits), unit.trim()) {
        (Some(number), "") if number > 0 => Value::Int(number.saturating_mul(own_factor(name))),
        (Some(number), unit) if factor(unit).is_some() => Value::Int(number.saturating_mul(factor(unit).unwrap_or(1))),
        _ => plain(said),
    }
}

/// Units of settings that are written without one (guc_tables.c).
fn own_factor(name: &str) -> i64 {
    const PAGES: &[&str] = &[
        "shared_buffers",
        "temp_buffers",
        "wal_buffers",
        "effective_cache_size",
        "backend_flush_after",
        "bgwriter_flush_after",
        "checkpoint_flush_after",
        "wal_writer_flush_after",
        "min_parallel_table_scan_size",
        "min_parallel_index_scan_size",
        "io_combine_limit",
        "io_max_combine_limit",
    ];
    const KIB: &[&str] = &[
        "work_mem",
        "maintenance_work_mem",
        "autovacuum_work_mem",
        "logical_decoding_work_mem",
        "max_stack_depth",
        "temp_file_limit",
        "wal_skip_threshold",
    ];
    const MIB: &[&str] = &[
        "max_wal_size",
        "min_wal_size",
        "max_slot_wal_keep_size",
        "wal_keep_size",
        "wal_segment_size",
        "min_dynamic_shared_memory",
    ];
    const SECONDS: &[&str] = &[
        "checkpoint_timeout",
        "checkpoint_warning",
        "archive_timeout",
        "autovacuum_naptime",
        "authentication_timeout",
        "tcp_keepalives_idle",
    ];
    if PAGES.contains(&name) {
        8192
    } else if KIB.contains(&name) {
        1 << 10
    } else if MIB.contains(&name) {
        1 << 20
    } else if SECONDS.contains(&name) {
        1000
    } else {
        1
    }
}

/// `17.2 (Debian …)` as 170002, `9.6.24` as 90624.
fn version(said: &str, origin: &str, facts: &mut Facts) {
    let first = words(said).next().unwrap_or_default();
    let mut parts = first.split('.').map_while(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        integer(&part[..end]).filter(|number| (0..10_000).contains(number))
    });
    let Some(major) = parts.next() else { return };
    let (minor, patch) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let number = if major >= 10 { major * 10_000 + minor } else { major * 10_000 + minor * 100 + patch };
    if facts.value("postgres.version").is_none() {
        facts.put("postgres.version", number, origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sources_give_bytes_and_milliseconds() {
        let mut collected = Collected::default();
        let table = " name | setting | unit | pending_restart \n------+---------+------+---\n shared_buffers | 16384 | 8kB | f\n checkpoint_timeout | 300 | s | t\n \
            wal_buffers | -1 | 8kB | f\n debug_io_direct |  |  | f\n server_version_num | 170002 | | f\n(5 rows)\n";
        collected.take_file("/pg_settings.txt", table.as_bytes());
        let conf = "shared_buffers = 256MB # more\ncheckpoint_timeout = 15min\nmax_wal_size = 4096\narchive_command = 'cp ''%p'' /a'\nfsync off\n";
        collected.take_file("/postgresql.conf", conf.as_bytes());
        let mut found = Facts::default();
        facts(&collected, &mut found);
        let of = |name: &str| found.value(&format!("postgres.{name}")).cloned();
        assert_eq!(of("shared_buffers"), Some((128_i64 << 20).into()));
        assert_eq!(of("checkpoint_timeout"), Some(300_000.into()));
        assert_eq!(of("wal_buffers"), Some((-1).into()));
        assert_eq!(of("debug_io_direct"), Some("".into()));
        assert_eq!(of("version"), Some(170_002.into()));
        assert_eq!(of("pending_restart"), Some(Value::List(vec!["checkpoint_timeout".into()])));
        assert_eq!(of("max_wal_size"), Some((4_i64 << 30).into()));
        assert_eq!(of("archive_command"), Some("cp '%p' /a".into()));
        assert_eq!(of("fsync"), Some(false.into()));
        assert_eq!(found.value_of("setting", "postgres shared_buffers", "persistent"), Some(&(256_i64 << 20).into()));
    }

    #[test]
    fn versions_are_numbers_of_the_server() {
        for (said, number) in [("17.2 (Debian 17.2-1)", 170_002), ("9.6.24", 90_624), ("18beta1", 180_000), ("15", 150_000)] {
            let mut facts = Facts::default();
            version(said, "x", &mut facts);
            assert_eq!(facts.value("postgres.version"), Some(&number.into()), "{said}");
        }
    }
}
