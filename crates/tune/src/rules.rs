//! The rules: the built-in ones and those of a folder, parsed and checked.
//!
//! A folder contains `*.toml` files, also in subfolders. `catalogue.toml`, `reference/` and
//! `not-testable/` at its top have the same meaning as beside the built-in rules
//! (docs/rule-schema.md). All mistakes in all files are reported at once, with file and rule.

mod check;
mod read;

use std::fmt;
use std::path::Path;

use host::nearest;

use crate::builtin;
use crate::expression::Expression;
use crate::reference::{Catalogue, CatalogueRow, NotTestable, NotTestableFile, ReferenceFile};
use crate::rule::Rule;
use crate::template::Template;

/// The error for a name that no rule has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find the rule {id}: there is no such rule")]
pub struct UnknownRule {
    /// The name.
    pub id: String,
    /// The rule with the most similar name.
    pub nearest: Option<String>,
}

impl UnknownRule {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "the findings of `millrace audit` name their rules".to_owned(),
        }
    }
}

/// The layers that a rule may have, from the database down.
pub const LAYERS: [&str; 13] = [
    "cross-layer",
    "db",
    "os-kernel",
    "fs-cache",
    "nfs-mount",
    "rpc",
    "tcp",
    "ethernet",
    "iscsi",
    "fc",
    "multipath",
    "volume-manager",
    "storage",
];

/// The platforms that a rule may name: operating systems first, then databases and storage.
pub const PLATFORMS: [&str; 10] =
    ["linux", "solaris", "aix", "hpux", "oracle", "postgres", "mysql", "mariadb", "ontap7", "ontap9"];

/// The roles that a rule may name.
pub const ROLES: [&str; 5] = ["single-instance", "rac", "nfs-client", "iscsi-client", "fc-client"];

/// Kinds of things whose attributes rules use. A rule is refused if it names an attribute of a
/// thing that is not in scope.
pub const KINDS: [&str; 30] = [
    "block",
    "db_role_setting",
    "direct_nfs_mount",
    "en",
    "ent",
    "fc_host",
    "fcs",
    "fscsi",
    "hdisk",
    "igroup",
    "iscsi",
    "iscsi_session",
    "lan",
    "lun",
    "lv",
    "mount",
    "multipath_device",
    "multipath_map",
    "nic",
    "nvme_subsystem",
    "ontap_aggregate",
    "ontap_if",
    "ontap_port",
    "ontap_volume",
    "oracle_home",
    "oranfstab_mount",
    "oranfstab_path",
    "partition",
    "setting",
    "vg",
];

/// A rule that was parsed and checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The rule as it is written in the file.
    pub rule: Rule,
    /// The layer of its file.
    pub layer: String,
    /// The file: `rules/linux/nfs-mount.toml`, or the path of a user's file.
    pub file: String,
    /// [`Rule::when`], parsed.
    pub when: Option<Expression>,
    /// [`Rule::test`], parsed.
    pub test: Expression,
    /// [`Rule::finding`], parsed.
    pub finding: Option<Template>,
}

/// Rules with unique IDs, in the order of their files.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Loaded>,
    references: Vec<ReferenceFile>,
    not_testable: Vec<NotTestable>,
    catalogue: Catalogue,
}

/// Rules that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// A file or folder cannot be read.
    #[error("read the rules of {path}")]
    Read {
        /// The file or folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A limit is exceeded.
    #[error("read the rules of {path}: {what}")]
    TooMuch {
        /// The file or folder.
        path: String,
        /// The limit.
        what: String,
    },
    /// All mistakes in the rules.
    #[error("read the rules: {}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Rules(Vec<Problem>),
}

/// A mistake in a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The rule's ID, if it has one.
    pub rule: Option<String>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(rule) = &self.rule {
            write!(f, "rule {rule}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// The rules that are built into this program.
///
/// # Errors
/// It never fails: tests prove that the built-in files have no mistakes. The type is the same as for
/// other sets.
pub fn built_in() -> Result<RuleSet, RuleError> {
    RuleSet::from_texts(builtin::FILES.iter().map(|(file, text)| (*file, *text)))
}

/// The names of the built-in files, below the repository's folder `rules`.
pub fn built_in_files() -> impl Iterator<Item = &'static str> {
    builtin::FILES.iter().map(|(file, _)| *file)
}

impl RuleSet {
    /// The names of the files in a folder, in the order of reading.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn file_names(path: &Path) -> Result<Vec<String>, RuleError> {
        Ok(read::folder(path)?.into_iter().map(|(file, _)| file).collect())
    }

    /// The rules in a user's folder.
    ///
    /// # Errors
    /// Files that cannot be read, are too many or too large, and every mistake in them.
    pub fn folder(path: &Path) -> Result<Self, RuleError> {
        let files = read::folder(path)?;
        Self::from_texts(files.iter().map(|(file, text)| (file.as_str(), text.as_str())))
    }

    /// The rules in texts: each with its name below the folder, and the text.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn from_texts<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, RuleError> {
        let mut set = Self::default();
        let mut problems = Vec::new();
        for (file, text) in files {
            set.add(file, text, &mut problems);
        }
        set.checked(problems)
    }

    /// The rules with these IDs, in the same order.
    ///
    /// # Errors
    /// The first ID that no rule has.
    pub fn named(&self, ids: &[String]) -> Result<Vec<&Loaded>, UnknownRule> {
        ids.iter().map(|id| self.find(id).ok_or_else(|| self.unknown(id))).collect()
    }

    fn unknown(&self, id: &str) -> UnknownRule {
        let ids = self.rules().iter().map(|loaded| loaded.rule.id.as_str());
        UnknownRule { id: id.to_owned(), nearest: nearest(id, ids).map(str::to_owned) }
    }

    /// Adds the rules of another set, such as a user's to the built-in ones.
    ///
    /// # Errors
    /// An ID that both sets have.
    pub fn with(mut self, more: Self) -> Result<Self, RuleError> {
        self.rules.extend(more.rules);
        self.references.extend(more.references);
        self.not_testable.extend(more.not_testable);
        self.catalogue.rows.extend(more.catalogue.rows);
        self.checked(Vec::new())
    }

    /// All rules.
    #[must_use]
    pub fn rules(&self) -> &[Loaded] {
        &self.rules
    }

    /// The rule with this ID.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Loaded> {
        self.rules.iter().find(|loaded| loaded.rule.id == id)
    }

    /// Values that reports used in their tests.
    #[must_use]
    pub fn references(&self) -> &[ReferenceFile] {
        &self.references
    }

    /// Rows of the catalogue that no fact can decide.
    #[must_use]
    pub fn not_testable(&self) -> &[NotTestable] {
        &self.not_testable
    }

    /// All rows of the reports.
    #[must_use]
    pub fn catalogue(&self) -> &[CatalogueRow] {
        &self.catalogue.rows
    }

    fn add(&mut self, file: &str, text: &str, problems: &mut Vec<Problem>) {
        let place = read::place(file);
        let read = match place {
            read::Place::Catalogue => read::file::<Catalogue>(file, text).map(|read| self.catalogue = read),
            read::Place::Reference => read::file(file, text).map(|read| self.references.push(read)),
            read::Place::NotTestable => read::file::<NotTestableFile>(file, text).map(|read| self.not_testable.extend(read.rows)),
            read::Place::Rules => read::file(file, text).map(|read| check::file(file, read, &mut self.rules, problems)),
        };
        problems.extend(read.err());
    }

    fn checked(self, mut problems: Vec<Problem>) -> Result<Self, RuleError> {
        check::set(&self.rules, &mut problems);
        if problems.is_empty() { Ok(self) } else { Err(RuleError::Rules(problems)) }
    }
}

#[cfg(test)]
mod tests;
