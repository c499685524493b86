//! What a server would show for the value in its files. Servers choose, round or complete some
//! values; these differ from the files, but a restart does not change them.

use crate::facts::{Database, Facts, Value};

use super::mysql::is_asked;

/// Settings of PostgreSQL, each with the value that lets the server choose. The server shows the
/// value that it chose (guc_tables.c).
const CHOSEN_BY_SERVER: &[(&str, i64)] = &[
    ("commit_timestamp_buffers", 0),
    ("io_max_concurrency", -1),
    ("subtransaction_buffers", 0),
    ("transaction_buffers", 0),
    ("wal_buffers", -1),
];

/// Settings of PostgreSQL that show the value of the session that queried them.
const OF_THE_SESSION: &[&str] = &["application_name", "client_encoding"];

/// What PostgreSQL shows for `archive_command` while `archive_mode` is off.
const DISABLED: &str = "(disabled)";

/// The largest step to which MySQL and MariaDB round log sizes: 1 MiB. Others are InnoDB's page
/// sizes.
const LOG_SIZE_STEP: i64 = 1 << 20;

/// Granule sizes of Oracle's memory: 4 MiB to 512 MiB.
const GRANULES: &[i64] = &[4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20];

/// The value that the server would show if it read its files now; `None` if its files do not
/// determine it. `name` has no prefix. `facts` are the server's.
pub(super) fn as_shown(database: Database, name: &str, running: &Value, said: &Value, facts: &Facts) -> Option<Value> {
    let is_shown_so = match database {
        Database::Postgres => postgres(name, running, said)?,
        Database::Mysql => mysql(name, running, said, facts)?,
        Database::Oracle => oracle(name, running, said)?,
    };
    Some(if is_shown_so { running.clone() } else { said.clone() })
}

/// Whether the server shows this running value for the value in the file; `None` if its files do
/// not determine it.
fn postgres(name: &str, running: &Value, said: &Value) -> Option<bool> {
    let is_chosen = CHOSEN_BY_SERVER.iter().any(|(setting, marker)| *setting == name && *said == Value::Int(*marker));
    if is_chosen || OF_THE_SESSION.contains(&name) || *running == Value::from(DISABLED) {
        return None;
    }
    match (name, running, said) {
        ("log_timezone", Value::Text(running), Value::Text(said)) => Some(running.eq_ignore_ascii_case(said)),
        ("hba_file" | "ident_file" | "data_directory", Value::Text(running), Value::Text(said)) => same_path(running, said),
        _ => Some(false),
    }
}

/// The same for MySQL and MariaDB. They round, limit and complete most numbers and names, so only
/// the options that rules use are compared.
fn mysql(name: &str, running: &Value, said: &Value, facts: &Facts) -> Option<bool> {
    if !is_asked(name) {
        return None;
    }
    let number = |name: &str| match facts.value(&format!("mysql.{name}")) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    Some(match (name, running, said) {
        ("datadir", Value::Text(running), Value::Text(said)) => same_path(running, said)?,
        ("innodb_buffer_pool_size", Value::Int(running), Value::Int(said)) => {
            let chunks = number("innodb_buffer_pool_chunk_size").zip(number("innodb_buffer_pool_instances").or(Some(1)));
            let step = chunks.map_or(LOG_SIZE_STEP, |(size, count)| size.saturating_mul(count));
            (0..step).contains(&running.saturating_sub(*said))
        }
        ("innodb_log_file_size" | "innodb_redo_log_capacity", Value::Int(running), Value::Int(said)) => {
            running.abs_diff(*said) < LOG_SIZE_STEP.unsigned_abs()
        }
        // The server keeps innodb_io_capacity at most at innodb_io_capacity_max. If both are equal,
        // the server may have adjusted one.
        ("innodb_io_capacity" | "innodb_io_capacity_max", ..) => number("innodb_io_capacity") == number("innodb_io_capacity_max"),
        _ => false,
    })
}

/// The same for Oracle. The number 0 lets the instance choose; memory sizes are rounded up to
/// granules.
fn oracle(name: &str, running: &Value, said: &Value) -> Option<bool> {
    match (running, said) {
        (_, Value::Int(0)) => None,
        (Value::Int(running), Value::Int(said)) if name.ends_with("_size") || name.ends_with("_target") => {
            let is_rounded =
                |granule: i64| running.checked_rem(granule) == Some(0) && (0..granule).contains(&(running.saturating_sub(*said)));
            Some(GRANULES.iter().any(|granule| is_rounded(*granule)))
        }
        _ => Some(false),
    }
}

/// Whether both are the same path. `None` for a relative path, which depends on where the server
/// was started.
fn same_path(running: &str, said: &str) -> Option<bool> {
    said.starts_with('/').then(|| running.trim_end_matches('/') == said.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(database: Database, name: &str, running: impl Into<Value>, said: impl Into<Value>) -> Option<Value> {
        let mut facts = Facts::default();
        facts.put("mysql.innodb_buffer_pool_chunk_size", 128_i64 << 20, "it");
        facts.put("mysql.innodb_buffer_pool_instances", 8, "it");
        facts.put("mysql.innodb_io_capacity", 200, "it");
        facts.put("mysql.innodb_io_capacity_max", 200, "it");
        as_shown(database, name, &running.into(), &said.into(), &facts)
    }

    #[test]
    fn a_value_that_leaves_the_choice_to_the_server_is_not_compared() {
        let of = |name: &str, running: i64, said: i64| shown(Database::Postgres, name, running, said);
        assert_eq!(of("wal_buffers", 4 << 20, -1), None);
        assert_eq!(of("transaction_buffers", 64 << 10, 0), None);
        assert_eq!(of("wal_buffers", 4 << 20, 16 << 20), Some((16_i64 << 20).into()));
        // -1 turns these off, and the server shows it as it is written.
        assert_eq!(of("autovacuum_work_mem", 1 << 20, -1), Some((-1).into()));
        assert_eq!(of("max_parallel_workers", 8, 0), Some(0.into()));
        assert_eq!(shown(Database::Postgres, "archive_command", "(disabled)", "cp"), None);
        assert_eq!(shown(Database::Postgres, "client_encoding", "UTF8", "latin1"), None);
    }

    #[test]
    fn a_path_is_the_same_with_a_slash_at_its_end_and_a_relative_one_is_not_compared() {
        let running = || Value::from("/data/15");
        assert_eq!(shown(Database::Postgres, "data_directory", running(), "/data/15/"), Some(running()));
        assert_eq!(shown(Database::Postgres, "data_directory", running(), "/data/16"), Some("/data/16".into()));
        assert_eq!(shown(Database::Postgres, "hba_file", "/data/15/pg_hba.conf", "pg_hba.conf"), None);
        assert_eq!(shown(Database::Mysql, "datadir", "/var/lib/mysql/", "/var/lib/mysql"), Some("/var/lib/mysql/".into()));
        assert_eq!(shown(Database::Postgres, "log_timezone", "Europe/Berlin", "europe/berlin"), Some("Europe/Berlin".into()));
    }

    #[test]
    fn sizes_that_mysql_rounds_and_options_that_no_rule_asks_for_do_not_differ() {
        let of = |name: &str, running: i64, said: i64| shown(Database::Mysql, name, running, said);
        assert_eq!(of("innodb_buffer_pool_size", 1 << 30, 800 << 20), Some((1_i64 << 30).into()));
        assert_eq!(of("innodb_buffer_pool_size", 1 << 30, 3 << 30), Some((3_i64 << 30).into()));
        assert_eq!(of("innodb_buffer_pool_size", 8 << 30, 1 << 30), Some((1_i64 << 30).into()));
        assert_eq!(of("innodb_log_file_size", 9_998_336, 10_000_001), Some(9_998_336.into()));
        assert_eq!(of("innodb_log_file_size", 96 << 20, 1 << 30), Some((1_i64 << 30).into()));
        assert_eq!(of("innodb_io_capacity", 200, 300), Some(200.into()));
        assert_eq!(of("sync_binlog", 0, 1), Some(1.into()));
        assert_eq!(of("max_connections", 214, 500), None);
    }

    #[test]
    fn memory_of_oracle_is_rounded_up_and_zero_is_a_choice_of_the_instance() {
        let of = |name: &str, running: i64, said: i64| shown(Database::Oracle, name, running, said);
        assert_eq!(of("sga_target", 1 << 30, 1000 << 20), Some((1_i64 << 30).into()));
        assert_eq!(of("sga_target", 2 << 30, 1000 << 20), Some((1000_i64 << 20).into()));
        assert_eq!(of("cpu_count", 16, 0), None);
        assert_eq!(of("processes", 300, 500), Some(500.into()));
    }
}
