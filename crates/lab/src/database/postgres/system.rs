//! PostgreSQL as a database of comparisons: its names, settings, wait events and advice.

use std::path::Path;
use std::rc::Rc;

use results::compare::SessionState;
use tune::facts::Database;
use tune::rule::SettingKind;

use super::Postgres;
use super::alter_system;
use super::binaries::parse_major;
use crate::database::engine::Engine;
use crate::database::system::{Advice, Modelled, RuleTarget, System};
use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// The oldest version whose counters the laboratory reads.
const OLDEST: u32 = 15;
/// PostgreSQL's defaults of the settings that the laboratory sets for its own comparisons
/// (PostgreSQL 18 documentation, 19.4 and 19.5; the same since version 10).
const DEFAULTS: [(&str, &str); 4] =
    [("shared_buffers", "128MB"), ("max_wal_size", "1GB"), ("checkpoint_timeout", "5min"), ("huge_pages", "try")];

/// PostgreSQL.
pub(crate) struct PostgresSystem;

impl System for PostgresSystem {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn title(&self) -> &'static str {
        "PostgreSQL"
    }

    fn user_name(&self) -> &'static str {
        "postgres"
    }

    fn package(&self) -> &'static str {
        "postgresql"
    }

    fn find(&self, chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
        Ok(Rc::new(Postgres::find(chosen)?))
    }

    fn takes_directory(&self) -> bool {
        true
    }

    fn unfit(&self, version: &str) -> Option<(&'static str, &'static str)> {
        parse_major(version)
            .is_some_and(|major| major < OLDEST)
            .then_some(("is older than 15", "install PostgreSQL 15 to 18, or name its programs with --pg-bin"))
    }

    fn tuned_settings(&self) -> Knobs {
        let text = |text: &str| Knob::Text(text.to_owned());
        [
            // With this size, sessions rarely have to write the log because its buffers are full.
            ("wal_buffers", text("64MB")),
            // Dirty buffers are written in advance, outside the sessions.
            ("bgwriter_lru_maxpages", Knob::Number(1000)),
            ("bgwriter_delay", text("20ms")),
            ("bgwriter_lru_multiplier", Knob::Number(4)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// By its archive command.
    fn archives_log(&self) -> bool {
        true
    }

    /// By its tablespaces.
    fn spreads_tables(&self) -> bool {
        true
    }

    /// Events of `pg_stat_activity`.
    fn activity(&self, event: &str) -> Option<SessionState> {
        Some(match event {
            "IO:DataFileRead" | "IO:DataFilePrefetch" => SessionState::BlockReads,
            "LWLock:WALWrite" | "LWLock:WALInsert" | "Timeout:CommitDelay" => SessionState::Log,
            _ if event.starts_with("IO:WAL") => SessionState::Log,
            _ if event.starts_with("IO:DataFile") || event.starts_with("IO:SLRU") => SessionState::DataWrites,
            _ if event.starts_with("Lock:") => SessionState::Locks,
            _ if event.starts_with("Client:") => SessionState::Client,
            _ => return None,
        })
    }

    fn modelled(&self, event: &str) -> Option<Modelled> {
        match event {
            "LWLock:WALWrite" => Some(Modelled::LogFlush),
            _ if event.starts_with("IO:WAL") => Some(Modelled::LogFlush),
            _ if event.starts_with("Lock:") => Some(Modelled::Lock),
            _ => None,
        }
    }

    fn advice(&self) -> Advice {
        Advice {
            log_flush: "put the log on a volume of its own (layout split) or on a medium with non-volatile write memory; \
                        commit_delay lets more commits share one flush",
            data_writes: "let the background writer do it: bgwriter_lru_maxpages up, checkpoint_timeout and max_wal_size up",
        }
    }

    fn rule_target(&self) -> Option<RuleTarget> {
        Some(RuleTarget {
            kind: SettingKind::Postgres,
            servers: Database::Postgres,
            defaults: &DEFAULTS,
            apply: alter_system::apply,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_whose_counters_are_not_read_is_unfit() {
        assert!(PostgresSystem.unfit("14.9 (Debian 14.9-1)").is_some());
        assert!(PostgresSystem.unfit("15.13 (Debian 15.13-1)").is_none());
    }
}
