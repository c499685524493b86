//! Applies a plan, group by group. Each change is recorded in the journal before it is made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use results::audit::Activation;
use serde::Serialize;

use super::disk::{FileMetadata, make_folder, put, set_value, value};
use super::file_changes::{FileChange, files_of};
use super::journal::{Entry, Journal, State, StateLock};
use super::manual::{ManualStep, manual_steps};
use super::plan::{Group, Plan};
use super::root::Root;
use super::target::Part;
use super::users::{User, users_of};
use super::{ChangeError, Steps};

/// The user or the program that confirms groups and sees the progress.
pub trait Operator {
    /// Whether to apply a group. `group.files` are the files that would be written now.
    fn confirm(&mut self, group: &Group) -> bool;

    /// Reports that a change begins: the number of changes already made in the group, the number of
    /// all its changes, and the path.
    fn progress(&mut self, made: usize, all: usize, what: &str);
}

/// A group and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// What puts the changes of the group in force.
    pub activation: Activation,
    /// The outcome.
    pub outcome: Outcome,
    /// The steps that remain for the user; empty if the group was declined or refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ManualStep>,
}

/// The outcome of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Apply wrote the group's files and set its running values.
    Done {
        /// The number of files.
        files: usize,
        /// The number of running values.
        running: usize,
        /// The number of steps that remain for the user.
        remain: usize,
    },
    /// Apply has nothing to write: only the steps of the user are left.
    ByHand {
        /// The number of steps.
        remain: usize,
    },
    /// Apply has nothing to write, and no step is left.
    Nothing,
    /// The operator declined the group.
    Declined,
    /// Processes use paths of the group, so it was refused.
    InUse {
        /// The processes.
        users: Vec<User>,
        /// The number of processes that this user may not inspect.
        hidden: usize,
    },
}

/// The result of an apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Each group of the plan.
    pub groups: Vec<Ended>,
    /// The number of steps that remain for the user, in all groups.
    pub steps_remain: usize,
    /// The journal; `None` if nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
}

impl Applied {
    /// Whether a group was declined or refused.
    pub fn is_left(&self) -> bool {
        self.groups.iter().any(|ended| matches!(ended.outcome, Outcome::Declined | Outcome::InUse { .. }))
    }

    fn push(&mut self, group: &Group, outcome: Outcome) {
        let is_open = matches!(outcome, Outcome::Done { .. } | Outcome::ByHand { .. });
        let steps = if is_open { manual_steps(group) } else { Vec::new() };
        self.steps_remain += steps.len();
        self.groups.push(Ended { activation: group.activation, outcome, steps });
    }
}

/// Applies a plan. `now` is the time for the journal in RFC 3339 format.
///
/// **Durability**: when this returns `Ok`, every change is on disk. If it ends in any other way,
/// [`revert`](super::revert()) restores the old state.
///
/// The state directory is created right before the first change, so an apply that changes nothing
/// leaves no directory.
///
/// # Errors
/// An open journal, a held lock, a plan for another system, a file that changed after it was shown,
/// or an error of the system. Changes made before the error remain, and their journal stays open.
/// If nothing was changed, the error is [`ChangeError::Unchanged`] or a refusal.
pub fn apply(
    plan: &Plan,
    state: &State,
    now: &str,
    operator: &mut dyn Operator,
    steps: &mut Steps,
) -> Result<Applied, ChangeError> {
    let mut doing = Applier { root: plan.root(), known: &plan.left, state, now, lock: None, journal: None, steps };
    match doing.all(plan, operator) {
        Err(error) if doing.journal.is_none() && !error.is_refusal() => Err(ChangeError::Unchanged(Box::new(error))),
        ended => ended,
    }
}

/// Whether apply writes anything for this group.
fn is_ours(group: &Group) -> bool {
    group.changes.iter().any(super::Change::is_ours)
}

/// The outcome of a group for which apply writes nothing.
fn by_hand(group: &Group) -> Outcome {
    match manual_steps(group).len() {
        0 => Outcome::Nothing,
        remain => Outcome::ByHand { remain },
    }
}

struct Applier<'a> {
    root: &'a Root,
    /// Findings that the plan already reports as not possible.
    known: &'a [String],
    state: &'a State,
    now: &'a str,
    lock: Option<StateLock>,
    journal: Option<Journal>,
    steps: &'a mut Steps,
}

/// A running value that apply changes.
struct Setting<'a> {
    real: String,
    before: String,
    value: &'a str,
    moves: &'a [String],
    rule: &'a str,
}

impl Setting<'_> {
    /// Refuses to set a value that changed after it was read.
    fn check(&self, root: &Root) -> Result<(), ChangeError> {
        match value(&root.host(&self.real))? {
            Some(now) if now == self.before => Ok(()),
            _ => Err(ChangeError::ChangedMeanwhile { path: self.real.clone() }),
        }
    }
}

impl Applier<'_> {
    fn all(&mut self, plan: &Plan, operator: &mut dyn Operator) -> Result<Applied, ChangeError> {
        if plan.groups.iter().any(is_ours) {
            if plan.system != "linux" {
                return Err(ChangeError::OtherSystem { system: plan.system.clone() });
            }
            // Checked before the first question, so the operator is not asked about an apply that
            // would be refused.
            self.lock = self.state.lock_if_present()?;
            self.state.refuse_open()?;
        }
        let mut applied = Applied::default();
        for group in &plan.groups {
            let outcome = self.group(group, operator)?;
            applied.push(group, outcome);
        }
        if let Some(journal) = &mut self.journal {
            journal.note(&Entry::Complete, self.steps)?;
            applied.journal = Some(journal.folder().to_owned());
        }
        Ok(applied)
    }

    fn group(&mut self, group: &Group, operator: &mut dyn Operator) -> Result<Outcome, ChangeError> {
        if !is_ours(group) {
            return Ok(by_hand(group));
        }
        // Earlier groups may have been declined, so the differences are computed again: the
        // operator confirms exactly what is written.
        let (files, faults) = files_of(&group.changes, self.root, &mut BTreeMap::new());
        if let Some(fault) = faults.into_iter().find(|fault| !self.known.contains(&fault.to_string())) {
            return Err(ChangeError::Edit { path: fault.path, reason: fault.reason });
        }
        let running = self.running(group)?;
        if files.is_empty() && running.is_empty() {
            return Ok(by_hand(group));
        }
        let shown = Group { files, ..group.clone() };
        if group.activation >= Activation::Remount {
            let found = users_of(&group.paths, self.root);
            if !found.users.is_empty() || !found.hidden.is_empty() {
                return Ok(Outcome::InUse { users: found.users, hidden: found.hidden.len() });
            }
        }
        if !operator.confirm(&shown) {
            return Ok(Outcome::Declined);
        }
        self.lock()?;
        for setting in &running {
            setting.check(self.root)?;
        }
        for file in &shown.files {
            self.check(file)?;
        }
        let all = running.len() + shown.files.len();
        for (made, setting) in running.iter().enumerate() {
            operator.progress(made, all, &setting.real);
            self.set(setting)?;
        }
        for (made, file) in shown.files.iter().enumerate() {
            operator.progress(running.len() + made, all, &file.path);
            self.write(file)?;
        }
        Ok(Outcome::Done { files: shown.files.len(), running: running.len(), remain: manual_steps(group).len() })
    }

    /// Locks the state directory and creates it if it is missing. Another apply may have begun
    /// while the operator was asked.
    fn lock(&mut self) -> Result<(), ChangeError> {
        if self.lock.is_none() {
            self.lock = Some(self.state.lock()?);
            self.state.refuse_open()?;
        }
        Ok(())
    }

    /// The running values that differ from the wanted ones.
    fn running<'g>(&self, group: &'g Group) -> Result<Vec<Setting<'g>>, ChangeError> {
        let mut wanted: Vec<Setting<'g>> = Vec::new();
        for change in &group.changes {
            for part in &change.parts {
                let Part::Running { path, value: to, moves } = part else { continue };
                let real = self.root.resolve(path).map_err(|error| ChangeError::io("find", path, error))?;
                let before = value(&self.root.host(&real))?;
                let Some(before) = before.filter(|before| !same(before, to)) else { continue };
                if wanted.iter().all(|setting| setting.real != real) {
                    wanted.push(Setting { real, before, value: to, moves, rule: &change.rule });
                }
            }
        }
        Ok(wanted)
    }

    fn set(&mut self, setting: &Setting<'_>) -> Result<(), ChangeError> {
        let host = self.root.host(&setting.real);
        let rules = vec![setting.rule.to_owned()];
        // The values that the kernel changes along with this one are recorded first. A revert goes
        // backwards, so it sets them last and they keep their old value.
        for other in setting.moves {
            let real = self.root.resolve(other).map_err(|error| ChangeError::io("find", other, error))?;
            if let Some(before) = value(&self.root.host(&real))? {
                let number = self.journal()?.number();
                self.note(&Entry::Running { number, path: real, before, after: None, rules: rules.clone() })?;
            }
        }
        let after = format!("{}\n", setting.value);
        let number = self.journal()?.number();
        let (path, before) = (setting.real.clone(), setting.before.clone());
        self.note(&Entry::Running { number, path, before, after: Some(after.clone()), rules })?;
        set_value(&host, &after, self.steps)?;
        let reads = value(&host)?.unwrap_or_default();
        self.note(&Entry::Took { number, reads })
    }

    /// Refuses to write a file that changed after it was shown.
    fn check(&self, file: &FileChange) -> Result<(), ChangeError> {
        let now = self.root.read_text(&file.real).map_err(|error| ChangeError::io("read", self.root.host(&file.real), error))?;
        if now == file.before { Ok(()) } else { Err(ChangeError::ChangedMeanwhile { path: file.path.clone() }) }
    }

    fn write(&mut self, file: &FileChange) -> Result<(), ChangeError> {
        let host = self.root.host(&file.real);
        self.folders(&file.real)?;
        self.check(file)?;
        let metadata = match &file.before {
            Some(_) => Some(FileMetadata::of(&host).map_err(|error| ChangeError::io("inspect", &host, error))?),
            None => None,
        };
        self.journal()?;
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let number = journal.number();
        journal.contents(number, file.before.as_ref().map(String::as_bytes), file.after.as_bytes(), self.steps)?;
        let entry = Entry::File { number, path: file.real.clone(), metadata, rules: file.rules.clone() };
        journal.note(&entry, self.steps)?;
        // The new file keeps owner and mode. Its time is the time of the change.
        let metadata = metadata.map(|metadata| FileMetadata { modified: None, ..metadata });
        put(&host, file.after.as_bytes(), metadata, self.steps)
    }

    /// Creates the missing folders above a file.
    fn folders(&mut self, path: &str) -> Result<(), ChangeError> {
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
        for end in ends {
            let folder = path.get(..end).unwrap_or(path);
            let host = self.root.host(folder);
            if !host.exists() {
                self.note(&Entry::Folder { path: folder.to_owned() })?;
                make_folder(&host, 0o755, self.steps)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, entry: &Entry) -> Result<(), ChangeError> {
        self.journal()?;
        match &mut self.journal {
            Some(journal) => journal.note(entry, self.steps),
            None => Ok(()),
        }
    }

    /// The journal. The first change begins it.
    fn journal(&mut self) -> Result<&mut Journal, ChangeError> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => self.state.begin(self.root, self.now, self.steps)?,
        };
        Ok(self.journal.insert(journal))
    }
}

/// Whether two running values are equal. The kernel separates words by tabs, ends a value with a
/// newline, and puts the chosen one of several words in brackets.
pub(super) fn same(one: &str, two: &str) -> bool {
    words(one).eq(words(two))
        || chosen(one).is_some_and(|word| word == two.trim())
        || chosen(two).is_some_and(|word| word == one.trim())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// The word in brackets: `kyber` for `none mq-deadline [kyber]`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_values_are_compared_as_the_kernel_writes_them() {
        assert!(same("4096\t131072\t6291456\n", "4096 131072 6291456"));
        assert!(same("[none] mq-deadline\n", "none") && !same("[none] mq-deadline\n", "mq-deadline"));
        assert!(!same("60\n", "6") && chosen("a b\n").is_none());
    }
}
