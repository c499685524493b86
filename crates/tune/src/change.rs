//! Changes: planned, applied, taken back.
//!
//! [`plan()`] turns findings into exact changes: which line of which file, which running value, which command where nothing
//! here may write. [`apply()`] does what a person agrees to, group by group; [`revert()`] restores each file byte for byte with
//! its mode, owner and time. Before anything changes, the journal says what and how it was, synced: whatever moment an
//! apply ends at, a revert brings everything back.
//!
//! This module never runs a command and never restarts, mounts or unmounts; whether a database server takes a value is asked by the
//! caller ([`plan_checked`]). Contested settings, and those that may lose acknowledged data, are listed apart and done only when their
//! rule is named.

mod apply;
mod attributes;
mod commands;
mod conflict;
mod diff;
mod disk;
mod edit;
mod explain;
mod file_changes;
mod journal;
mod limits;
mod manual;
mod plan;
mod planned;
mod resolve;
mod revert;
mod root;
mod setting;
mod steps;
mod target;
mod text;
mod users;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::collect::user_name;

pub use apply::{Applied, Ended, Operator, Outcome, apply};
pub use commands::{Run, alter_system, alter_system_reset};
pub use diff::unified;
pub use edit::{Edit, Style};
pub use explain::{Explanation, explain};
pub use file_changes::FileChange;
pub use journal::{JournalStatus, State};
pub use manual::{ManualStep, manual_steps, render_steps};
pub use plan::{Apart, Check, Choice, Group, Plan, plan, plan_checked, plan_of};
pub use planned::Change;
pub use resolve::{RuleLookup, setting_changes};
pub use revert::{Reverted, revert};
pub use root::Root;
pub use setting::{SettingChange, Target};
pub use steps::Steps;
pub use target::Part;
pub(crate) use target::written;
pub use text::{render, render_files};
pub use users::User;

/// Why a change, or taking one back, ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The step counter ended it. Only tests see this.
    #[error("ended after step {step}, as a test asked")]
    Interrupted {
        /// Steps done before.
        step: u64,
    },
    /// The system refused.
    #[error("{what} {path}")]
    Io {
        /// What was tried: `write`, `read`.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The state directory cannot be made or locked.
    #[error("use the state directory {}", folder.display())]
    StateDirectory {
        /// The directory.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The apply ended before it changed anything.
    #[error(transparent)]
    Unchanged(Box<Self>),
    /// An apply before this one ended on the way.
    #[error("an earlier apply was interrupted and is not reverted yet: journal {journal}")]
    OpenJournal {
        /// Its folder.
        journal: PathBuf,
    },
    /// Another apply or revert is running.
    #[error("another apply or revert is running and holds {lock}")]
    Busy {
        /// The lock.
        lock: PathBuf,
    },
    /// A journal that makes no sense.
    #[error("the journal {path} is not valid: {reason}")]
    Journal {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The journal is of another tree.
    #[error("the journal {journal} belongs to another root, {root}")]
    OtherRoot {
        /// Its folder.
        journal: PathBuf,
        /// That tree.
        root: PathBuf,
    },
    /// Somebody changed what an apply had written.
    #[error("changed by somebody else since: {} (journal {journal}); nothing is reverted", paths.join(", "))]
    ChangedSince {
        /// Its folder.
        journal: PathBuf,
        /// What was changed.
        paths: Vec<String>,
    },
    /// A file is no longer as it was shown.
    #[error("{path} is not as it was when the change was shown")]
    ChangedMeanwhile {
        /// The file.
        path: String,
    },
    /// An edit that the file no longer allows.
    #[error("change {path}: {reason}")]
    Edit {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The plan is of a system of another kind.
    #[error("the plan is for {}, and only Linux is changed from here", if system.is_empty() { "a system that is not known" } else { system })]
    OtherSystem {
        /// That system.
        system: String,
    },
}

impl ChangeError {
    /// Whether it was refused for good reason, with nothing begun.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::OpenJournal { .. }
                | Self::Busy { .. }
                | Self::OtherRoot { .. }
                | Self::ChangedSince { .. }
                | Self::OtherSystem { .. }
        )
    }

    /// What helps.
    pub fn hint(&self) -> Option<String> {
        const REVERT: &str = "`millrace tune revert` reverts what was done so far";
        Some(match self {
            Self::Unchanged(error) => match error.cure() {
                Some(cure) => format!("nothing was changed; {cure}"),
                None => "nothing was changed".to_owned(),
            },
            Self::Io { .. } | Self::Edit { .. } => match self.cure() {
                Some(cure) => format!("{cure}; {REVERT}"),
                None => REVERT.to_owned(),
            },
            _ => return self.cure(),
        })
    }

    /// What the user does against the cause, whatever was done before.
    fn cure(&self) -> Option<String> {
        let is_denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        Some(match self {
            Self::OpenJournal { .. } => "`millrace tune revert` restores everything as it was; then apply again".to_owned(),
            Self::Busy { .. } => "wait until it has ended".to_owned(),
            Self::Io { path, source, .. } if is_denied(source) => as_owner(path),
            Self::StateDirectory { folder, source } if is_denied(source) => {
                format!("{}, or name a directory of this user with --state", as_owner(folder))
            }
            Self::StateDirectory { .. } => "name another directory with --state".to_owned(),
            Self::OtherRoot { root, .. } => format!("name it: --root {}", root.display()),
            Self::ChangedSince { .. } => {
                "check what was changed; `millrace tune revert --force` restores the old contents anyway and keeps the \
                 new ones beside the journal"
                    .to_owned()
            }
            Self::ChangedMeanwhile { .. } => "run the plan again".to_owned(),
            Self::OtherSystem { .. } => "`millrace tune plan` prints the commands to be run there".to_owned(),
            Self::Unchanged(error) => return error.cure(),
            Self::Io { .. } | Self::Edit { .. } | Self::Journal { .. } | Self::Interrupted { .. } => return None,
        })
    }

    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { what, path: path.into(), source }
    }
}

/// Names the user that may write a path: the owner of what exists of it.
fn as_owner(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|path| Some((path, std::fs::metadata(path).ok()?.uid())));
    found.map_or_else(
        || "run it as root".to_owned(),
        |(path, owner)| format!("run it as {}, the owner of {}", user_name(owner), path.display()),
    )
}
