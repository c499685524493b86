//! How the files of the database are spread over volumes.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::limits::FILERS_MAX;

/// How the files of the database are spread over volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Data, log and temporary files together.
    #[default]
    One,
    /// The log on a volume of its own.
    Split,
    /// The log and the archived log on volumes of their own.
    SplitArchive,
    /// Tables and indexes spread evenly over so many volumes, each behind a filer of its own; the log stays on the first.
    Filers(u32),
}

impl Layout {
    /// Whether the log lies on a volume of its own.
    #[must_use]
    pub fn log_apart(self) -> bool {
        matches!(self, Self::Split | Self::SplitArchive)
    }

    /// Volumes that tables and indexes are spread over.
    #[must_use]
    pub fn shares(self) -> u32 {
        match self {
            Self::Filers(count) => count,
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
            other => other
                .strip_prefix("filers=")
                .and_then(|count| count.parse().ok())
                .filter(|count| (2..=FILERS_MAX).contains(count))
                .map(Self::Filers)
                .ok_or_else(|| {
                    let hint = format!("layouts are one, split, split-archive and filers=N with N from 2 to {FILERS_MAX}");
                    LabError::plan(format!("use the layout \"{other}\""), &hint)
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_and_written_alike() {
        for text in ["one", "split", "split-archive", "filers=2"] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        assert!("filers=1".parse::<Layout>().is_err() && "two".parse::<Layout>().is_err());
    }
}
