//! Applier what a plan says, group by group, each change in the journal before it is made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use results::audit::Activation;
use serde::Serialize;

use super::disk::{FileMetadata, make_folder, put, set_value, value};
use super::file_changes::{FileChange, files_of};
use super::journal::{Entry, Journal, JournalStatus, State};
use super::plan::{Group, Plan};
use super::root::Root;
use super::target::Part;
use super::users::{User, users_of};
use super::{ChangeError, Steps};

/// The person, or the program, that confirms groups and sees progress.
pub trait Operator {
    /// Whether a group shall be done; it is shown as it would be done now.
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
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Its files are written and its running values set.
    Done {
        /// How many.
        files: usize,
        /// Likewise.
        running: usize,
        /// Commands, or work by hand, that remain with the user.
        remain: usize,
    },
    /// It holds only what the user does.
    ByHand {
        /// How many parts.
        remain: usize,
    },
    /// All is as it should be already.
    Nothing,
    /// The answer was no.
    Declined,
    /// Somebody uses what it touches.
    InUse {
        /// Who.
        users: Vec<User>,
        /// Processes that could not be looked into.
        hidden: usize,
    },
}

/// What an apply did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Each group of the plan.
    pub groups: Vec<Ended>,
    /// The journal, when anything was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
}

impl Applied {
    /// Whether something remains to be done or was refused.
    pub fn is_left(&self) -> bool {
        self.groups.iter().any(|ended| match &ended.outcome {
            Outcome::Done { remain, .. } => *remain > 0,
            Outcome::Nothing => false,
            Outcome::ByHand { .. } | Outcome::Declined | Outcome::InUse { .. } => true,
        })
    }
}

/// Applies a plan. `now` is the time for the journal, RFC 3339.
///
/// **Durability**: when this returns, everything done is on the disk. When it ends in any other way, [`revert`](super::revert())
/// brings back what was.
///
/// # Errors
/// An open journal, a lock that is held, a plan of another system, a file that changed meanwhile, or what the system says. What was
/// done before the error stays in an open journal.
pub fn apply(
    plan: &Plan,
    state: &State,
    now: &str,
    operator: &mut dyn Operator,
    steps: &mut Steps,
) -> Result<Applied, ChangeError> {
    let ours = plan.groups.iter().flat_map(|group| &group.changes).any(super::Change::is_ours);
    let mut doing = Applier { root: plan.root(), known: &plan.left, state, now, journal: None, steps };
    let mut applied = Applied { groups: Vec::new(), journal: None };
    if !ours {
        applied.groups =
            plan.groups.iter().map(|group| Ended { activation: group.activation, outcome: by_hand(group) }).collect();
        return Ok(applied);
    }
    if plan.system != "linux" {
        return Err(ChangeError::OtherSystem { system: plan.system.clone() });
    }
    let _held = state.lock()?;
    if let Some((journal, ..)) = state.journals()?.into_iter().find(|(_, status, _)| *status == JournalStatus::Open) {
        return Err(ChangeError::OpenJournal { journal });
    }
    for group in &plan.groups {
        let outcome = doing.group(group, operator)?;
        applied.groups.push(Ended { activation: group.activation, outcome });
    }
    if let Some(journal) = &mut doing.journal {
        journal.note(&Entry::Complete, doing.steps)?;
        applied.journal = Some(journal.folder().to_owned());
    }
    Ok(applied)
}

fn by_hand(group: &Group) -> Outcome {
    Outcome::ByHand { remain: remaining(group) }
}

/// Parts that nobody but the user does.
fn remaining(group: &Group) -> usize {
    let parts = group.changes.iter().flat_map(|change| &change.parts);
    parts.filter(|part| matches!(part, Part::Run(_) | Part::ByHand { .. })).count()
}

struct Applier<'a> {
    root: &'a Root,
    /// What the plan says cannot be done.
    known: &'a [String],
    state: &'a State,
    now: &'a str,
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

impl Applier<'_> {
    fn group(&mut self, group: &Group, operator: &mut dyn Operator) -> Result<Outcome, ChangeError> {
        if !group.changes.iter().any(super::Change::is_ours) {
            return Ok(by_hand(group));
        }
        // Groups before this one may have been declined: what is shown is what is done.
        let (files, faults) = files_of(&group.changes, self.root, &mut BTreeMap::new());
        if let Some(fault) = faults.into_iter().find(|fault| !self.known.contains(&fault.to_string())) {
            return Err(ChangeError::Edit { path: fault.path, reason: fault.reason });
        }
        let running = self.running(group)?;
        let remain = remaining(group);
        if files.is_empty() && running.is_empty() {
            return Ok(if remain > 0 { Outcome::ByHand { remain } } else { Outcome::Nothing });
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
        let all = running.len() + shown.files.len();
        for (made, setting) in running.iter().enumerate() {
            operator.progress(made, all, &setting.real);
            self.set(setting)?;
        }
        for (made, file) in shown.files.iter().enumerate() {
            operator.progress(running.len() + made, all, &file.path);
            self.write(file)?;
        }
        Ok(Outcome::Done { files: shown.files.len(), running: running.len(), remain })
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

    fn write(&mut self, file: &FileChange) -> Result<(), ChangeError> {
        let host = self.root.host(&file.real);
        self.folders(&file.real)?;
        let now = self.root.read_text(&file.real).map_err(|error| ChangeError::io("read", &host, error))?;
        if now != file.before {
            return Err(ChangeError::ChangedMeanwhile { path: file.path.clone() });
        }
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
