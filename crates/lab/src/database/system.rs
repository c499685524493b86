//! The interface to a database system: its names, its advice and words, and how its installed programs are found. Each one has its own
//! folder in this directory.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use results::compare::SessionState;
use tune::change::SettingChange;
use tune::facts::Database;
use tune::rule::SettingKind;

use crate::database::engine::Engine;
use crate::error::LabError;
use crate::plan::Knobs;

/// A database system of this version.
pub(crate) type SystemRef = &'static dyn System;

/// A database system that a comparison can run.
pub(crate) trait System: Sync {
    /// Name on the command line, in plans and in records.
    fn name(&self) -> &'static str;

    /// Name in a sentence.
    fn title(&self) -> &'static str;

    /// The user that its package creates, as which a server runs that root starts.
    fn user_name(&self) -> &'static str;

    /// Debian's name of the package with its server programs.
    fn package(&self) -> &'static str;

    /// Its programs: in `chosen`, else in the usual places.
    ///
    /// # Errors
    /// [`LabError::Missing`] with the package, or with the programs that `chosen` lacks.
    fn find(&self, chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError>;

    /// Whether `--pg-bin` may name the directory of its programs.
    fn takes_directory(&self) -> bool {
        false
    }

    /// Why programs of this version cannot be used, as words after `version X in DIRECTORY`, and the fix; `None` if they can.
    fn unfit(&self, _version: &str) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Its recommended settings for any storage: those of the tuning `tuned`.
    fn tuned_settings(&self) -> Knobs {
        Knobs::new()
    }

    /// Whether it archives its log (layout `split-archive`).
    fn archives_log(&self) -> bool {
        false
    }

    /// Whether it spreads tables and indexes over volumes (layouts `filers=N` and `mounts=N`).
    fn spreads_tables(&self) -> bool {
        false
    }

    /// Whether its data files bypass the page cache of its own host with these settings of a tuning.
    fn is_past_page_cache(&self, _settings: &Knobs) -> bool {
        false
    }

    /// The activity of a session with this wait event; `None` for an event that it does not have.
    fn activity(&self, event: &str) -> Option<SessionState>;

    /// The part of the prediction's model that a wait event is time of; `None` for an event without one.
    fn modelled(&self, _event: &str) -> Option<Modelled> {
        None
    }

    /// What to try next if sessions wait for it.
    fn advice(&self) -> Advice;

    /// How settings of a running server are tried and changed; `None` if rules are not measured on it.
    fn rule_target(&self) -> Option<RuleTarget> {
        None
    }
}

/// Parts of the prediction's model that are fitted from wait events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modelled {
    /// A flush of the log.
    LogFlush,
    /// A lock of a row or a table.
    Lock,
}

/// What to try next if sessions wait for the database itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advice {
    /// Sessions wait until the log is on stable storage.
    pub(crate) log_flush: &'static str,
    /// Sessions write data pages themselves.
    pub(crate) data_writes: &'static str,
}

/// The settings of a running server, for rules that are measured.
#[derive(Clone, Copy)]
pub(crate) struct RuleTarget {
    /// The settings of a rule that are its own.
    pub(crate) kind: SettingKind,
    /// Its servers among the facts of a host.
    pub(crate) servers: Database,
    /// Its own defaults of the settings that the laboratory sets for its comparisons.
    pub(crate) defaults: &'static [(&'static str, &'static str)],
    /// Changes settings of a server.
    pub(crate) apply: Apply,
}

/// Changes settings of the server of a DSN. Writes the statements that revert them to a file, which is synced before the first change.
/// Returns the settings that take effect only after a restart.
pub(crate) type Apply = fn(&str, &[&SettingChange], PathBuf) -> Result<Vec<String>, LabError>;
