//! How a volume keeps its promises and uses the host's page cache.

use std::fmt;
use std::str::FromStr;

use crate::record::BootId;

/// Who makes what is promised stable survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The volume: nothing is answered before a flush of the host has ended.
    #[default]
    Sync,
    /// The host, which keeps its memory through a power cut (a battery, a UPS with a clean stop): what was promised
    /// stable lies in its page cache. An error of its later writeback is seen in the host's log only.
    Battery,
}

/// How data passes the host's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMode {
    /// Through it, and it stays there.
    #[default]
    Cached,
    /// Reads and unstable writes through it; a stable write past it (O_DIRECT) where it comes alone, and size, alignment and the other I/O
    /// in flight on the file allow. What was written so is fetched from the disk by the next read of it.
    WriteAround,
    /// Past it (O_DIRECT), where size, alignment and the other I/O in flight on the file allow; else as `DropBehind`.
    Direct,
    /// Through it, and dropped from it at once (`RWF_DONTCACHE`); as `Cached` on a host without that.
    DropBehind,
}

/// What the host reads beside the bytes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadAhead {
    /// What it thinks comes next, by its own rules.
    #[default]
    Host,
    /// Nothing (`POSIX_FADV_RANDOM`): for files of a database whose reads jump about, on a store where each block counts.
    Minimal,
}

/// What an operator may choose about a volume's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Who keeps the promises.
    pub durability: Durability,
    /// The page cache's part.
    pub cache: CacheMode,
    /// What is read beside the bytes of a read.
    pub read_ahead: ReadAhead,
    /// No other program on the host changes the directory. Changes of names and attributes then also report the attributes from before.
    pub exclusive: bool,
    /// The boot of the host to act under, a test switch: a reboot without one. `None` in service: that of the kernel.
    pub boot_id: Option<BootId>,
}

/// Not a word that names a [`Durability`], a [`CacheMode`] or a [`ReadAhead`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not one of: {known}")]
pub struct UnknownOption {
    /// What was given.
    pub given: String,
    /// What is known.
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
    /// Whether stable writes pass it by where they may.
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
