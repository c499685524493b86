//! Settings of PostgreSQL as facts: rows of `pg_settings`, values of configuration files, and the version.

use crate::collect::database::rows::{Row, plain_setting};
use crate::collect::text::{integer, words};
use crate::facts::{Facts, Value};

/// Where settings of databases and roles are.
const SET_FOR: &str = "pg_db_role_setting";

/// Rows of `pg_settings`: numbers become bytes, milliseconds, or counts.
pub(in crate::collect::database) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    let mut pending = rows.iter().any(|row| row.pending_restart.is_some()).then(Vec::new);
    for (row, set_for) in rows.iter().filter_map(|row| Some((row, row.set_for.as_ref()?))) {
        let thing = format!("{} of {set_for}", row.name);
        facts.put_of("db_role_setting", &thing, "setting", row.name.as_str(), SET_FOR);
        facts.put_of("db_role_setting", &thing, "value", plain_setting(&row.name, &row.value), SET_FOR);
    }
    for row in rows.iter().filter(|row| row.set_for.is_none()) {
        let value = match (integer(&row.value), row.unit.as_deref().and_then(factor)) {
            // -1 and the like are words, not amounts.
            (Some(number), Some(factor)) if number > 0 => Value::Int(number.saturating_mul(factor)),
            _ => plain_setting(&row.name, &row.value),
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
pub(super) fn configured(name: &str, said: &str) -> Value {
    let end = said.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(said.len());
    let (digits, unit) = said.split_at(end);
    match (integer(digits), unit.trim()) {
        (Some(number), "") if number > 0 => Value::Int(number.saturating_mul(own_factor(name))),
        (Some(number), unit) if factor(unit).is_some() => Value::Int(number.saturating_mul(factor(unit).unwrap_or(1))),
        _ => plain_setting(name, said),
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
pub(super) fn version(said: &str, origin: &str, facts: &mut Facts) {
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
    fn versions_are_numbers_of_the_server() {
        for (said, number) in [("17.2 (Debian 17.2-1)", 170_002), ("9.6.24", 90_624), ("18beta1", 180_000), ("15", 150_000)] {
            let mut facts = Facts::default();
            version(said, "x", &mut facts);
            assert_eq!(facts.value("postgres.version"), Some(&number.into()), "{said}");
        }
    }
}
