//! Applies a plan, group by group; each change is in the journal before it is made.

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

/// The person, or the program, that confirms groups and sees progress.
pub trait Operator {
    /// Whether a group shall be applied; its files are those that would be written now.
    fn confirm(&mut self, group: &Group) -> bool;

    /// A change begins: number of changes made before, of all in the group, and what it is on.
    fn progress(&mut self, made: usize, all: usize, what: &str);
}

/// A group and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// What the group takes.
    pub activation: Activation,
    /// How it ended.
    pub outcome: Outcome,
    /// The steps that remain for the user; empty for a group that was declined or refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ManualStep>,
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Its files are written and its running values set.
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
    /// The answer was no.
    Declined,
    /// Processes use its paths.
    InUse {
        /// The processes.
        users: Vec<User>,
        /// The number of processes that this user may not inspect.
        hidden: usize,
    },
}

/// What an apply did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Each group of the plan.
    pub groups: Vec<Ended>,
    /// The number of steps that remain for the user, in all groups.
    pub steps_remain: usize,
    /// The journal, if anything was changed.
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

/// Applies a plan. `now` is the time for the journal, RFC 3339.
///
/// **Durability**: when this returns, everything done is on the disk. When it ends in any other way, [`revert`](super::revert())
/// brings back what was.
///
/// The state directory is made right before the first change, so an apply that changes nothing leaves nothing.
///
/// # Errors
/// An open journal, a lock that is held, a plan of another system, a file that changed meanwhile, or what the system says. What was
/// done before the error stays in an open journal; if nothing was done, the error is [`ChangeError::Unchanged`] or a refusal.
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

/// Whether a group has something that apply writes.
fn is_ours(group: &Group) -> bool {
    group.changes.iter().any(super::Change::is_ours)
}

/// The outcome of a group of which apply writes nothing.
fn by_hand(group: &Group) -> Outcome {
    match manual_steps(group).len() {
        0 => Outcome::Nothing,
        remain => Outcome::ByHand { remain },
    }
}

struct Applier<'a> {
    root: &'a Root,
    /// What the plan says cannot be done.
    known: &'a [String],
    state: &'a State,
    now: &'a str,
    lock: Option<StateLock>,
    journal: Option<Journal>,
    steps: &'a mut Steps,
}

/// A running value that is to change.
struct Setting<'a> {
    real: String,
    before: String,
    value: &'a str,
    moves: &'a [String],
    rule: &'a str,
}

impl Setting<'_> {
    /// Refuses a value that was changed after it was read.
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
            // Before any question: an apply that would be refused is not asked about.
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
        // Groups before this one may have been declined: what is shown is what is done.
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

    /// Locks the state directory, which is made if it is missing. Another apply may have begun during the question.
    fn lock(&mut self) -> Result<(), ChangeError> {
        if self.lock.is_none() {
            self.lock = Some(self.state.lock()?);
            self.state.refuse_open()?;
        }
        Ok(())
    }

    /// Running values that are not yet as they should be.
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
        // What moves along is noted first: it is then the last to be set back, and has the last word.
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

    /// Refuses a file that was changed after it was shown.
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
        // Owner and mode stay; the time is that of the change.
        let metadata = metadata.map(|metadata| FileMetadata { modified: None, ..metadata });
        put(&host, file.after.as_bytes(), metadata, self.steps)
    }

    /// Makes the folders on the way to a file.
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

    /// The journal, begun with the first change.
    fn journal(&mut self) -> Result<&mut Journal, ChangeError> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => self.state.begin(self.root, self.now, self.steps)?,
        };
        Ok(self.journal.insert(journal))
    }
}

/// Whether two running values are one: the kernel separates by tabs and ends lines, and marks the chosen one of several.
pub(super) fn same(one: &str, two: &str) -> bool {
    words(one).eq(words(two))
        || chosen(one).is_some_and(|word| word == two.trim())
        || chosen(two).is_some_and(|word| word == one.trim())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// `kyber` of `none mq-deadline [kyber]`.
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
