//! The options of a volume: durability, and use of the host's page cache.

use std::fmt;
use std::str::FromStr;

use crate::record::BootId;

/// How stable data survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The volume flushes the host's data before a call that promises durability returns.
    #[default]
    Sync,
    /// The host keeps its memory through a power cut (a battery, a UPS with a clean stop), so data in its page cache
    /// counts as stable. Only the host's log reports an error of the later writeback.
    Battery,
}

/// How reads and writes use the host's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMode {
    /// They use the page cache, and data stays in it.
    #[default]
    Cached,
    /// Reads and unstable writes use the page cache. A stable write that comes alone bypasses it (O_DIRECT), if size, alignment and the
    /// other I/O in flight on the file allow. The next read of that data then comes from the disk.
    WriteAround,
    /// Reads and stable writes bypass the page cache (O_DIRECT), if size, alignment and the other I/O in flight on the file allow. All
    /// other transfers are as with `DropBehind`.
    Direct,
    /// They use the page cache, and the host drops the data from it at once (`RWF_DONTCACHE`). As `Cached` on a host that does not
    /// support that.
    DropBehind,
}

/// What the host reads in addition to the bytes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadAhead {
    /// The host reads ahead by its own rules.
    #[default]
    Host,
    /// Nothing (`POSIX_FADV_RANDOM`): for files of a database with random reads, on a store on which each block read costs time.
    Minimal,
}

/// The options that an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How stable data survives a power cut.
    pub durability: Durability,
    /// How reads and writes use the page cache.
    pub cache: CacheMode,
    /// What the host reads in addition to the bytes of a read.
    pub read_ahead: ReadAhead,
    /// No other program on the host changes the directory. Changes of names and attributes then also return the attributes from before.
    pub exclusive: bool,
    /// The boot id to use instead of the kernel's, so that a test can simulate a reboot. `None` in service.
    pub boot_id: Option<BootId>,
}

/// The word is not the name of a [`Durability`], a [`CacheMode`] or a [`ReadAhead`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not one of: {known}")]
pub struct UnknownOption {
    /// The word as given.
    pub given: String,
    /// The valid words.
    pub known: &'static str,
}

impl Durability {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Battery => "battery",
        }
    }
}

impl CacheMode {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Direct => "direct",
            Self::WriteAround => "write-around",
            Self::DropBehind => "dropbehind",
        }
    }
}

impl ReadAhead {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Minimal => "minimal",
        }
    }
}

impl FromStr for Durability {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let found = [Self::Sync, Self::Battery].into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| UnknownOption { given: text.to_owned(), known: "sync, battery" })
    }
}

impl FromStr for CacheMode {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let found =
            [Self::Cached, Self::WriteAround, Self::Direct, Self::DropBehind].into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| UnknownOption { given: text.to_owned(), known: "cached, write-around, direct, dropbehind" })
    }
}

impl FromStr for ReadAhead {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let found = [Self::Host, Self::Minimal].into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| UnknownOption { given: text.to_owned(), known: "host, minimal" })
    }
}

impl fmt::Display for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CacheMode {
    /// Whether stable writes bypass the page cache if they may.
    #[must_use]
    pub(crate) const fn writes_direct(self) -> bool {
        matches!(self, Self::Direct | Self::WriteAround)
    }
}

impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written_and_others_name_the_known_ones() {
        for mode in [CacheMode::Cached, CacheMode::WriteAround, CacheMode::Direct, CacheMode::DropBehind] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for durability in [Durability::Sync, Durability::Battery] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for read_ahead in [ReadAhead::Host, ReadAhead::Minimal] {
            assert_eq!(read_ahead.to_string().parse(), Ok(read_ahead));
        }
        assert!("off".parse::<ReadAhead>().unwrap_err().to_string().contains("host, minimal"));
        assert!("cache".parse::<CacheMode>().unwrap_err().to_string().contains("cached, write-around, direct, dropbehind"));
        assert!("Sync".parse::<Durability>().unwrap_err().to_string().contains("sync, battery"));
    }
}
