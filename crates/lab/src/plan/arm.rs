//! One configuration of a comparison (`[[arm]]`): path, target, tuning, layout, medium and load.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::limits::LABEL_BYTES_MAX;
use crate::paths;
use crate::paths::storage_path::PathRef;
use crate::plan::layout::Layout;
use crate::plan::load::Load;

/// One configuration of a comparison. Runs of the configurations are interleaved.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Unique name in records: `dnfs`, or `dnfs:old tuned split` when these vary within the plan.
    pub id: String,
    /// The storage path.
    pub path: PathSpec,
    /// Name of a tuning in [`crate::plan::Plan::tunings`].
    pub tuning: String,
    /// Layout of the database's files.
    pub layout: Layout,
    /// Medium below the files, as [`crate::plan`] passes it on; `None` for the host's own.
    pub medium: Option<String>,
    /// Load of the database.
    pub load: Load,
}

/// `NAME[:LABEL][=TARGET]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSpec {
    /// The kind of path.
    pub(crate) kind: PathRef,
    /// Label that distinguishes two configurations of one kind.
    pub label: Option<String>,
    /// Existing storage that Millrace did not create, in the form of its path; `None` for Millrace's own.
    pub target: Option<String>,
}

impl Arm {
    /// A path on Millrace's own storage, untuned, in a closed loop.
    #[cfg(test)]
    pub(crate) fn own(kind: PathRef, users: u32) -> Self {
        Self {
            id: kind.name().to_owned(),
            path: PathSpec::own(kind),
            tuning: crate::plan::UNTUNED.to_owned(),
            layout: Layout::One,
            medium: None,
            load: Load::users(users),
        }
    }
}

impl PathSpec {
    /// A path on Millrace's own storage.
    #[cfg(test)]
    pub(crate) fn own(kind: PathRef) -> Self {
        Self { kind, label: None, target: None }
    }

    /// `kind[:label]`.
    #[must_use]
    pub fn name(&self) -> String {
        self.label.as_ref().map_or_else(|| self.kind.name().to_owned(), |label| format!("{}:{label}", self.kind.name()))
    }

    /// The same in a sentence: `Direct NFS "old"`.
    #[must_use]
    pub fn title(&self) -> String {
        let title = self.kind.title();
        self.label.as_ref().map_or_else(|| title.to_owned(), |label| format!("{title} \"{label}\""))
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())?;
        self.target.as_ref().map_or(Ok(()), |target| write!(formatter, "={target}"))
    }
}

impl FromStr for PathSpec {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let text = text.trim();
        if let Some(kind) = paths::ALL.iter().find(|path| path.is_target(text)) {
            let hint = format!("write {}={text}", kind.name());
            return Err(LabError::plan(format!("measure {text}: its kind of path is missing"), &hint));
        }
        let (left, target) = match text.split_once('=') {
            Some((left, target)) => (left, Some(target)),
            None => (text, None),
        };
        let (name, label) = match left.split_once(':') {
            Some((name, label)) => (name, Some(label)),
            None => (left, None),
        };
        let kind = paths::find(name).ok_or_else(|| {
            let known: Vec<&str> = paths::ALL.iter().map(|path| path.name()).collect();
            LabError::unknown(format!("measure a path \"{name}\""), name, "paths are", &known)
        })?;
        if let Some(label) = label {
            check_label(label)?;
        }
        if let Some(target) = target {
            kind.accept_target(target)?;
        }
        Ok(Self { kind, label: label.map(str::to_owned), target: target.map(str::to_owned) })
    }
}

fn check_label(label: &str) -> Result<(), LabError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !label.is_empty() && label.len() <= LABEL_BYTES_MAX && label.bytes().all(plain) {
        return Ok(());
    }
    let hint = format!("a label has 1 to {LABEL_BYTES_MAX} letters, digits, points, underscores or hyphens");
    Err(LabError::plan(format!("label a path \"{label}\""), &hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_with_label_and_target_is_read_and_written_alike() {
        for text in
            ["local", "dnfs:old", "local:a=/mnt/nvme", "dnfs=nfs://filer:2050/vol?slots=4", "fc=/dev/mapper/x", "knfs=/mnt/pg"]
        {
            let spec: PathSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        let spec: PathSpec = "dnfs:old=nfs://filer/vol".parse().unwrap();
        assert_eq!((spec.name().as_str(), spec.target.as_deref()), ("dnfs:old", Some("nfs://filer/vol")));
        assert_eq!("iscsi=iscsi://h/iqn.2026-11.x:y/0".parse::<PathSpec>().unwrap().label, None);
    }

    #[test]
    fn targets_that_do_not_fit_their_path_are_refused_with_a_hint() {
        for text in
            ["dnfs=/mnt/x", "local=mnt", "local=nfs://h/v", "dnfs=nfs://", "dnfs=nfs://h/v?slotz=1", "local:=/x", "local:a b"]
        {
            let error = text.parse::<PathSpec>().unwrap_err();
            assert!(error.hint().is_some(), "{text}: {error}");
        }
    }
}
