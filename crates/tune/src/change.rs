//! Changes: plans, applies and reverts them.
//!
//! [`plan()`] turns findings into exact changes: the line of a file, the running value, or, if
//! apply may not write it, the command. [`apply()`] makes the changes that the operator confirms,
//! group by group. [`revert()`] restores the bytes, mode, owner and time of each file. Before each
//! change, a synced journal entry records the change and the old state. So a revert restores
//! everything, wherever the apply ended.
//!
//! This module runs no command, and it restarts, mounts and unmounts nothing. The caller asks the
//! database server whether it accepts a value ([`plan_checked`]). Contested settings, and settings
//! that may lose acknowledged data, are listed separately; apply makes them only if their rule is
//! named.

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

/// Why an apply or a revert ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The step counter ended it. Only tests set such an end.
    #[error("ended after step {step}, as a test asked")]
    Interrupted {
        /// The number of steps done before.
        step: u64,
    },
    /// A system call failed.
    #[error("{what} {path}")]
    Io {
        /// The operation that failed: `write`, `read`.
        what: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The state directory cannot be created or locked.
    #[error("use the state directory {}", folder.display())]
    StateDirectory {
        /// The directory.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The state directory has as many journals as are read.
    #[error("begin a journal: {} has {} of them", folder.display(), limits::JOURNALS_MAX)]
    ManyJournals {
        /// The directory of the journals.
        folder: PathBuf,
    },
    /// The apply ended before it changed anything.
    #[error(transparent)]
    Unchanged(Box<Self>),
    /// An earlier apply was interrupted.
    #[error("an earlier apply was interrupted and is not reverted yet: journal {journal}")]
    OpenJournal {
        /// The journal's folder.
        journal: PathBuf,
    },
    /// Another apply or revert is running.
    #[error("another apply or revert is running and holds {lock}")]
    Busy {
        /// The lock file.
        lock: PathBuf,
    },
    /// The journal has invalid contents.
    #[error("the journal {path} is not valid: {reason}")]
    Journal {
        /// The journal's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The journal belongs to another tree.
    #[error("the journal {journal} belongs to another root, {root}")]
    OtherRoot {
        /// The journal's folder.
        journal: PathBuf,
        /// The root of that tree.
        root: PathBuf,
    },
    /// Another program or user changed what an apply had written.
    #[error("changed by somebody else since: {} (journal {journal}); nothing is reverted", paths.join(", "))]
    ChangedSince {
        /// The journal's folder.
        journal: PathBuf,
        /// The changed paths.
        paths: Vec<String>,
    },
    /// A file changed after its change was shown.
    #[error("{path} is not as it was when the change was shown")]
    ChangedMeanwhile {
        /// The file.
        path: String,
    },
    /// The file's contents do not allow the edit.
    #[error("change {path}: {reason}")]
    Edit {
        /// The file.
        path: String,
        /// The cause.
        reason: String,
    },
    /// The plan is for another operating system than Linux.
    #[error("the plan is for {}, and only Linux is changed from here", if system.is_empty() { "a system that is not known" } else { system })]
    OtherSystem {
        /// The system of the plan; empty if it is not known.
        system: String,
    },
}

impl ChangeError {
    /// Whether the error refuses the request before anything was done, for a cause that the user
    /// can remove.
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

    /// What the user can do, and whether something was already changed.
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

    /// What the user can do about the cause, whatever was changed before.
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
            Self::ManyJournals { folder } => format!(
                "remove the oldest directories in {} whose journal ends with `reverted`, or name another directory with --state",
                folder.display()
            ),
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

/// Names the user that may write a path: the owner of the path, or of its nearest existing
/// ancestor.
fn as_owner(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|path| Some((path, std::fs::metadata(path).ok()?.uid())));
    found.map_or_else(
        || "run it as root".to_owned(),
        |(path, owner)| format!("run it as {}, the owner of {}", user_name(owner), path.display()),
    )
}
