//! The differences between the engines that speak PostgreSQL's wire protocol.
//!
//! An engine is recognised by its `version()`. The switches for PostgreSQL are those that the tests run; the
//! others follow the engines' documentation and have not been run against a server.
//! Features that every engine here supports need no switch: keys that start with the warehouse, COPY in the
//! binary format, data-modifying WITH, `SELECT … FOR UPDATE`, and repeating whole transactions
//! after 40001 and 40P01.

use crate::database::Isolation;

/// One engine's switches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The engine's name, for messages.
    pub(super) engine: &'static str,
    /// Isolation level of the terminals unless the user gives one.
    pub(super) isolation: Isolation,
    /// Settings of every session, sent before any other statement.
    pub(super) session_settings: &'static str,
    /// Settings of a terminal's session in addition to its isolation level. The statements are prepared
    /// once with a generic plan, and every table is accessed by its index: a plan must not change
    /// while the tables grow.
    pub(super) terminal_settings: &'static str,
    /// Settings within the transaction of the checks.
    pub(super) check_settings: &'static str,
    /// Whether this program's stored functions can be created: they need PL/pgSQL with records, slices of
    /// arrays, and a ROLLBACK within a procedure.
    pub(super) functions: bool,
    /// Whether tables are created with their primary key. An engine that places rows by their key would
    /// otherwise use a key of its own, and copy every row once more when the key is added.
    pub(super) keys_first: bool,
    /// Whether tables accept `WITH (fillfactor = …)`; an engine without pages has nothing to leave free.
    pub(super) fillfactor: bool,
    /// Whether tables and indexes can be created and dropped in transactions. If not, each statement runs alone,
    /// and its object may already exist after an interruption.
    pub(super) transactional_ddl: bool,
    /// Whether advisory locks keep two loads apart. Without them, the second load fails because the schema exists.
    pub(super) advisory_locks: bool,
    /// Whether VACUUM freezes the rows and CHECKPOINT writes them, so that a run does not have to do this work.
    pub(super) heap: bool,
    /// Whether the server is one process tree with one data directory, one log, the settings of PostgreSQL
    /// (`fsync` …), sizes of relations, and foreign servers.
    pub(super) single_server: bool,
}

const PLANNER: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;";

/// Removes the limits that a role, a database or the server sets for every session: one statement of a load takes minutes, and
/// a load writes. `transaction_timeout` exists from PostgreSQL 17 on.
const UNLIMITED: &str = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET idle_session_timeout = 0; SET default_transaction_read_only = off;
SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) IS NOT NULL;";

const CHECKS: &str = "SET LOCAL work_mem = '64MB'; SET LOCAL hash_mem_multiplier = 2;
SET LOCAL enable_partitionwise_join = on; SET LOCAL enable_partitionwise_aggregate = on;";

pub(super) const POSTGRESQL: Dialect = Dialect {
    engine: "PostgreSQL",
    isolation: Isolation::ReadCommitted,
    session_settings: UNLIMITED,
    terminal_settings: PLANNER,
    check_settings: CHECKS,
    functions: true,
    keys_first: false,
    fillfactor: true,
    transactional_ddl: true,
    advisory_locks: true,
    heap: true,
    single_server: true,
};

/// PostgreSQL's own planner and procedures over a distributed store. Its READ COMMITTED needs a flag of the
/// cluster and silently becomes snapshot isolation without it, so snapshot isolation is requested explicitly.
const YUGABYTEDB: Dialect = Dialect {
    engine: "YugabyteDB",
    isolation: Isolation::RepeatableRead,
    terminal_settings: PLANNER,
    check_settings: CHECKS,
    functions: true,
    ..PORTABLE
};

/// Another planner with the same protocol. Its INTEGER has 64 bits by default, but rows
/// of the binary COPY have 32. SERIALIZABLE is the level that every version has.
const COCKROACHDB: Dialect = Dialect { engine: "CockroachDB", session_settings: "SET default_int_size = 4;", ..PORTABLE };

/// For unknown engines, and on request of the user: uses the fewest features.
pub(super) const PORTABLE: Dialect = Dialect {
    engine: "this engine",
    isolation: Isolation::Serializable,
    session_settings: "",
    terminal_settings: "",
    check_settings: "",
    functions: false,
    keys_first: true,
    fillfactor: false,
    transactional_ddl: false,
    advisory_locks: false,
    heap: false,
    single_server: false,
};

/// Engines whose `version()` starts like PostgreSQL's.
const GUESTS: [&str; 4] = ["Redshift", "Greenplum", "Materialize", "RisingWave"];

impl Dialect {
    /// The engine with this version string.
    pub(super) fn of(version: &str) -> &'static Self {
        if version.starts_with("CockroachDB") {
            return &COCKROACHDB;
        }
        if version.contains("-YB-") {
            return &YUGABYTEDB;
        }
        if version.starts_with("PostgreSQL ") && !GUESTS.iter().any(|guest| version.contains(guest)) {
            return &POSTGRESQL;
        }
        &PORTABLE
    }

    /// Settings of a terminal's session.
    pub(super) fn terminal(&self, isolation: Isolation) -> String {
        format!("{} SET default_transaction_isolation = '{}'", self.terminal_settings, isolation.name())
    }

    /// Translates a CREATE TABLE of PostgreSQL for this engine; `key` lists the columns of its key.
    pub(super) fn table(&self, create: &str, key: Option<&str>) -> String {
        let (columns, settings) = create.split_once("\n    WITH").map_or((create, None), |(columns, with)| (columns, Some(with)));
        let mut out = columns.trim_end_matches(';').to_owned();
        if self.keys_first {
            // History has no key of its own; its rows must still be placed with their warehouse.
            let key = match key {
                Some(key) => format!(", PRIMARY KEY ({key})"),
                None if columns.contains("h_w_id") => {
                    ", h_id UUID NOT NULL DEFAULT gen_random_uuid(), PRIMARY KEY (h_w_id, h_d_id, h_id)".to_owned()
                }
                None => String::new(),
            };
            if let Some(open) = out.strip_suffix(')') {
                out = format!("{open}{key})");
            }
        }
        match settings {
            Some(settings) if self.fillfactor => format!("{out}\n    WITH{}", settings.trim_end_matches(';')),
            _ => out,
        }
    }

    /// Translates a step after the rows for this engine; `None` if the engine does not need it.
    pub(super) fn step(&self, text: &str) -> Option<String> {
        if text == "CHECKPOINT" {
            return self.heap.then(|| text.to_owned());
        }
        if let Some(table) = text.strip_prefix("VACUUM (FREEZE, ANALYZE)") {
            return Some(if self.heap { text.to_owned() } else { format!("ANALYZE{table}") });
        }
        if text.contains(" ADD PRIMARY KEY ") {
            return (!self.keys_first).then(|| text.to_owned());
        }
        // An index that was created but not noted may already exist.
        Some(if self.transactional_ddl { text.to_owned() } else { text.replacen(" INDEX ", " INDEX IF NOT EXISTS ", 1) })
    }

    /// The engine's name and version number from `version()`, without build and host.
    pub(super) fn short(version: &str) -> &str {
        let end = [" (", " on "].into_iter().filter_map(|stop| version.find(stop)).min();
        &version[..end.unwrap_or(version.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_by_their_version() {
        for (version, engine, short) in [
            ("PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu", "PostgreSQL", "PostgreSQL 15.14"),
            (
                "PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang",
                "YugabyteDB",
                "PostgreSQL 15.12-YB-2025.1.0.0-b0",
            ),
            ("CockroachDB CCL v25.2.0 (x86_64-pc-linux-gnu, built 2025/05/09, go1.23)", "CockroachDB", "CockroachDB CCL v25.2.0"),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.1", "this engine", "PostgreSQL 8.0.2"),
            ("Something 1.0", "this engine", "Something 1.0"),
        ] {
            assert_eq!((Dialect::of(version).engine, Dialect::short(version)), (engine, short));
        }
    }

    #[test]
    fn only_postgresql_vacuums_checkpoints_and_adds_keys_afterwards() {
        let (vacuum, key, index) =
            ("VACUUM (FREEZE, ANALYZE) item", "ALTER TABLE item ADD PRIMARY KEY (i_id)", "CREATE UNIQUE INDEX a ON b (c)");
        for step in [vacuum, key, index, "CHECKPOINT"] {
            assert_eq!(POSTGRESQL.step(step).as_deref(), Some(step));
        }
        for engine in [&YUGABYTEDB, &COCKROACHDB, &PORTABLE] {
            let steps = [vacuum, key, index, "CHECKPOINT"].map(|step| engine.step(step));
            let expected = [Some("ANALYZE item"), None, Some("CREATE UNIQUE INDEX IF NOT EXISTS a ON b (c)"), None];
            assert_eq!(steps.each_ref().map(Option::as_deref), expected, "{}", engine.engine);
        }
    }

    #[test]
    fn a_terminal_asks_for_its_level_and_for_plans_only_where_there_is_that_planner() {
        assert!(POSTGRESQL.terminal(Isolation::Serializable).ends_with("default_transaction_isolation = 'serializable'"));
        assert!(YUGABYTEDB.terminal(YUGABYTEDB.isolation).contains("force_generic_plan"));
        assert_eq!(COCKROACHDB.terminal(COCKROACHDB.isolation).trim(), "SET default_transaction_isolation = 'serializable'");
    }
}
