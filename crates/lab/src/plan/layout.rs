//! Layouts of the database's files on volumes.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::limits::{FILERS_MAX, LUNS_MAX, MOUNTS_MAX};

/// Layout of the database's files on volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Data, log and temporary files together.
    #[default]
    One,
    /// The log on its own volume.
    Split,
    /// The log and the archived log, each on its own volume.
    SplitArchive,
    /// Tables and indexes spread evenly over this number of volumes, each with its own filer; the log stays on the first.
    Filers(u32),
    /// All files in one file system that is striped over this number of LUNs of one filer.
    Luns(u32),
    /// Tables and indexes spread evenly over this number of mounts of one volume, each by its own address; the log stays on the first.
    /// Source: TR-3700 2.2, the method before mounts had several connections.
    Mounts(u32),
}

impl Layout {
    /// Whether the log has its own volume.
    #[must_use]
    pub fn log_apart(self) -> bool {
        matches!(self, Self::Split | Self::SplitArchive)
    }

    /// Whether the database must archive its log.
    pub(crate) fn archives_log(self) -> bool {
        self == Self::SplitArchive
    }

    /// Whether the database must spread tables and indexes.
    pub(crate) fn spreads_tables(self) -> bool {
        matches!(self, Self::Filers(_) | Self::Mounts(_))
    }

    /// Number of volumes, or of mounts of one, over which tables and indexes are spread.
    #[must_use]
    pub fn shares(self) -> u32 {
        match self {
            Self::Filers(count) | Self::Mounts(count) => count,
            _ => 1,
        }
    }

    /// Number of addresses by which one volume is mounted.
    #[must_use]
    pub fn addresses(self) -> u32 {
        match self {
            Self::Mounts(count) => count,
            _ => 1,
        }
    }

    /// Number of LUNs below the file system of a volume, if it is on LUNs.
    #[must_use]
    pub fn luns(self) -> u32 {
        match self {
            Self::Luns(count) => count,
            _ => 1,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => formatter.write_str("one"),
            Self::Split => formatter.write_str("split"),
            Self::SplitArchive => formatter.write_str("split-archive"),
            Self::Filers(count) => write!(formatter, "filers={count}"),
            Self::Luns(count) => write!(formatter, "luns={count}"),
            Self::Mounts(count) => write!(formatter, "mounts={count}"),
        }
    }
}

impl FromStr for Layout {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text.trim() {
            "one" => Ok(Self::One),
            "split" => Ok(Self::Split),
            "split-archive" => Ok(Self::SplitArchive),
            other => counted(other).ok_or_else(|| {
                let hint = format!(
                    "layouts are one, split, split-archive, filers=N with N from 2 to {FILERS_MAX}, luns=N with N from 2 to {LUNS_MAX} and \
                     mounts=N with N from 2 to {MOUNTS_MAX}"
                );
                LabError::plan(format!("use the layout \"{other}\""), &hint)
            }),
        }
    }
}

/// A layout with a number.
fn counted(text: &str) -> Option<Layout> {
    let (name, count) = text.split_once('=')?;
    let count = count.parse().ok().filter(|count| *count >= 2)?;
    match name {
        "filers" if count <= FILERS_MAX => Some(Layout::Filers(count)),
        "luns" if count <= LUNS_MAX => Some(Layout::Luns(count)),
        "mounts" if count <= MOUNTS_MAX => Some(Layout::Mounts(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_and_written_alike() {
        for text in ["one", "split", "split-archive", "filers=2", "luns=8", "mounts=4"] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for text in ["filers=1", "filers=9", "luns=1", "luns=9", "luns", "luns=two", "mounts=1", "mounts=9", "two"] {
            let error = text.parse::<Layout>().unwrap_err();
            assert!(error.hint().is_some_and(|hint| hint.contains("luns=N with N from 2 to 8")), "{text}: {error}");
        }
    }
}
