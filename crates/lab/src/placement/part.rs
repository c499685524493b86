//! The parts of a database that may have separate volumes.

use crate::plan::Layout;

/// Name of the data directory, the same in every place.
pub(crate) const DATA: &str = "datadir";

/// A part of a database that may be stored separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The cluster's own files: tables, indexes, temporary files, and the log unless it is separate.
    Data,
    /// A further share of the tables and indexes, numbered from 2.
    Share(u32),
    /// The write-ahead log.
    Log,
    /// Copies of finished log segments.
    Archive,
}

impl Part {
    /// The separate parts of a layout; the data comes first.
    pub(crate) fn of(layout: Layout) -> Vec<Self> {
        match layout {
            Layout::One | Layout::Luns(_) => vec![Self::Data],
            Layout::Split => vec![Self::Data, Self::Log],
            Layout::SplitArchive => vec![Self::Data, Self::Log, Self::Archive],
            Layout::Filers(count) | Layout::Mounts(count) => {
                [Self::Data].into_iter().chain((2..=count).map(Self::Share)).collect()
            }
        }
    }

    /// Name of its directory or volume.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Data => "data".to_owned(),
            Self::Share(number) => format!("data-{number}"),
            Self::Log => "log".to_owned(),
            Self::Archive => "archive".to_owned(),
        }
    }

    /// Whether blocks of tables are read from it.
    pub(crate) fn holds_data(self) -> bool {
        matches!(self, Self::Data | Self::Share(_))
    }
}
