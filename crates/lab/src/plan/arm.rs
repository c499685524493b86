//! One column of a comparison: which path, on what target, how tuned, laid out, slowed and loaded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::LabError;
use crate::limits::LABEL_BYTES_MAX;
use crate::paths::StoragePath;
use crate::plan::layout::Layout;
use crate::plan::load::Load;
use crate::plan::tuning::UNTUNED;

/// One column of a comparison. Runs are interleaved over the arms.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Unique name in records: `dnfs`, or `dnfs:old tuned split` when these vary within the plan.
    pub id: String,
    /// The way from the database to its files.
    pub path: PathSpec,
    /// Name of a set of knobs in [`crate::plan::Plan::tunings`].
    pub tuning: String,
    /// How the database's files are spread.
    pub layout: Layout,
    /// Medium below the files as [`crate::plan`] passes it on; `None` is the host's own.
    pub medium: Option<String>,
    /// What is asked of the database.
    pub load: Load,
}

/// `NAME[:LABEL][=TARGET]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSpec {
    /// Which way.
    pub kind: StoragePath,
    /// Tells two arms of one kind apart.
    pub label: Option<String>,
    /// Storage that Millrace did not make; `None` stands on its own filer or work directory.
    pub target: Option<Target>,
}

/// Storage that was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A directory of this host, for `knfs` a mounted one.
    Directory(PathBuf),
    /// An export as a URL.
    Nfs(String),
    /// A LUN as a URL.
    Iscsi(String),
    /// A block device.
    Device(PathBuf),
}

impl Arm {
    /// A path on Millrace's own storage, untuned, in a closed loop.
    #[must_use]
    pub fn own(kind: StoragePath, users: u32) -> Self {
        Self {
            id: kind.name().to_owned(),
            path: PathSpec::own(kind),
            tuning: UNTUNED.to_owned(),
            layout: Layout::One,
            medium: None,
            load: Load::users(users),
        }
    }
}

impl PathSpec {
    /// A path on Millrace's own storage.
    #[must_use]
    pub fn own(kind: StoragePath) -> Self {
        Self { kind, label: None, target: None }
    }

    /// `kind[:label]`.
    #[must_use]
    pub fn name(&self) -> String {
        self.label.as_ref().map_or_else(|| self.kind.name().to_owned(), |label| format!("{}:{label}", self.kind))
    }

    /// The same in a sentence: `Direct NFS "old"`.
    #[must_use]
    pub fn title(&self) -> String {
        let title = self.kind.title();
        self.label.as_ref().map_or_else(|| title.to_owned(), |label| format!("{title} \"{label}\""))
    }

    /// The directory of a target that is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.target {
            Some(Target::Directory(path)) => Some(path),
            _ => None,
        }
    }

    /// The URL of a target that is an export.
    #[must_use]
    pub fn export_url(&self) -> Option<&str> {
        match &self.target {
            Some(Target::Nfs(url)) => Some(url),
            _ => None,
        }
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
        let (left, target) = match text.split_once('=') {
            Some((left, target)) => (left, Some(target)),
            None => (text, None),
        };
        let (name, label) = match left.split_once(':') {
            Some((name, label)) => (name, Some(label)),
            None => (left, None),
        };
        let kind: StoragePath = name.parse()?;
        if let Some(label) = label {
            check_label(label)?;
        }
        let target = target.map(|target| read_target(kind, target)).transpose()?;
        Ok(Self { kind, label: label.map(str::to_owned), target })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) | Self::Device(path) => write!(formatter, "{}", path.display()),
            Self::Nfs(url) | Self::Iscsi(url) => formatter.write_str(url),
        }
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

fn read_target(kind: StoragePath, text: &str) -> Result<Target, LabError> {
    let absolute = Path::new(text).is_absolute();
    let (target, wanted) = match kind {
        StoragePath::Local | StoragePath::Knfs => {
            (absolute.then(|| Target::Directory(text.into())), "the full path of a directory: local=/mnt/nvme, knfs=/mnt/pg")
        }
        StoragePath::Dnfs => {
            (text.starts_with("nfs://").then(|| Target::Nfs(text.to_owned())), "the URL of an export: dnfs=nfs://filer/vol")
        }
        StoragePath::Iscsi => {
            (text.starts_with("iscsi://").then(|| Target::Iscsi(text.to_owned())), "the URL of a LUN: iscsi=iscsi://filer/IQN/0")
        }
        StoragePath::Fc => (absolute.then(|| Target::Device(text.into())), "a block device: fc=/dev/mapper/X"),
    };
    let Some(target) = target else {
        return Err(LabError::plan(format!("put path {kind} on \"{text}\""), &format!("its target is {wanted}")));
    };
    if let Target::Nfs(url) = &target {
        url.parse::<dnfs::NfsUrl>().map_err(|error| {
            LabError::plan(format!("use {url}: {error}"), &error.hint().unwrap_or_else(|| "nfs://HOST/EXPORT".to_owned()))
        })?;
    }
    Ok(target)
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
        assert_eq!((spec.name().as_str(), spec.export_url()), ("dnfs:old", Some("nfs://filer/vol")));
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
