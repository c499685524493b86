//! The rules: those built into the program and those of a folder, read and checked.
//!
//! A folder holds `*.toml` in any folders below it. `catalogue.toml`, `reference/` and `not-testable/` at its top are what
//! the built-in folder has beside its rules (docs/rule-schema.md). Whatever is wrong is told of all files at once, with file
//! and rule.

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

/// A name that no rule has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find the rule {id}: there is no such rule")]
pub struct UnknownRule {
    /// The name.
    pub id: String,
    /// The rule that was probably meant.
    pub nearest: Option<String>,
}

impl UnknownRule {
    /// What helps.
    #[must_use]
    pub fn hint(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "docs/rules.md lists all rules".to_owned(),
        }
    }
}

/// Layers a rule may have, from the database down.
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

/// Platforms a rule may name: operating systems first, then databases and storage.
pub const PLATFORMS: [&str; 10] =
    ["linux", "solaris", "aix", "hpux", "oracle", "postgres", "mysql", "mariadb", "ontap7", "ontap9"];

/// Roles a rule may name.
pub const ROLES: [&str; 5] = ["single-instance", "rac", "nfs-client", "iscsi-client", "fc-client"];

/// Kinds of things that collectors make. A rule that names an attribute of one where no such thing is at hand is refused.
pub const KINDS: [&str; 27] = [
    "block",
    "direct_nfs_mount",
    "en",
    "ent",
    "fc_host",
    "fcs",
    "fscsi",
    "hdisk",
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
    "oranfstab_mount",
    "oranfstab_path",
    "partition",
    "setting",
    "vg",
];

/// A rule that was read and checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// As it stands in the file.
    pub rule: Rule,
    /// The layer of its file.
    pub layer: String,
    /// The file: `rules/linux/nfs-mount.toml`, or the path of a user's.
    pub file: String,
    /// [`Rule::when`], read.
    pub when: Option<Expression>,
    /// [`Rule::test`], read.
    pub test: Expression,
    /// [`Rule::finding`], read.
    pub finding: Option<Template>,
}

/// Rules with unique identities, in the order of their files.
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
    /// A file or folder that cannot be read.
    #[error("read the rules of {path}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// More than there may be.
    #[error("read the rules of {path}: {what}")]
    TooMuch {
        /// Where.
        path: String,
        /// What.
        what: String,
    },
    /// Mistakes of those who wrote them, all at once.
    #[error("read the rules: {}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Rules(Vec<Problem>),
}

/// A mistake in a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The rule's identity, as far as there is one.
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

/// The rules that came with this program.
///
/// # Errors
/// Never, as tests of the built-in files prove; the type is that of every other set.
pub fn built_in() -> Result<RuleSet, RuleError> {
    RuleSet::from_texts(builtin::FILES.iter().map(|(file, text)| (*file, *text)))
}

/// Names of the built-in files, below the repository's folder `rules`.
pub fn built_in_files() -> impl Iterator<Item = &'static str> {
    builtin::FILES.iter().map(|(file, _)| *file)
}

impl RuleSet {
    /// Names of the files of a folder, in the order in which they are read.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn file_names(path: &Path) -> Result<Vec<String>, RuleError> {
        Ok(read::folder(path)?.into_iter().map(|(file, _)| file).collect())
    }

    /// Rules of a folder of the user's.
    ///
    /// # Errors
    /// Files that cannot be read, are too many or too large, and every mistake in them.
    pub fn folder(path: &Path) -> Result<Self, RuleError> {
        let files = read::folder(path)?;
        Self::from_texts(files.iter().map(|(file, text)| (file.as_str(), text.as_str())))
    }

    /// Rules of files at hand: name, below the folder, and text.
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

    /// The rules of these identities, in their order.
    ///
    /// # Errors
    /// The first that is no rule's.
    pub fn named(&self, ids: &[String]) -> Result<Vec<&Loaded>, UnknownRule> {
        ids.iter().map(|id| self.find(id).ok_or_else(|| self.unknown(id))).collect()
    }

    fn unknown(&self, id: &str) -> UnknownRule {
        let ids = self.rules().iter().map(|loaded| loaded.rule.id.as_str());
        UnknownRule { id: id.to_owned(), nearest: nearest(id, ids).map(str::to_owned) }
    }

    /// These and more: the built-in ones and a user's.
    ///
    /// # Errors
    /// An identity that both have.
    pub fn with(mut self, more: Self) -> Result<Self, RuleError> {
        self.rules.extend(more.rules);
        self.references.extend(more.references);
        self.not_testable.extend(more.not_testable);
        self.catalogue.rows.extend(more.catalogue.rows);
        self.checked(Vec::new())
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Loaded] {
        &self.rules
    }

    /// The rule of an identity.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Loaded> {
        self.rules.iter().find(|loaded| loaded.rule.id == id)
    }

    /// Values that reports used in their tests.
    #[must_use]
    pub fn references(&self) -> &[ReferenceFile] {
        &self.references
    }

    /// Rows of the catalogue that no fact can tell.
    #[must_use]
    pub fn not_testable(&self) -> &[NotTestable] {
        &self.not_testable
    }

    /// Rows of the reports.
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
