//! Rights to an object, as ACCESS asks for them.

use core::ops::BitOr;

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRights(u32);

impl AccessRights {
    /// No rights.
    pub const NONE: Self = Self(0);
    /// Read data, list a directory.
    pub const READ: Self = Self(1);
    /// Look a name up.
    pub const LOOKUP: Self = Self(1 << 1);
    /// Change existing data or names.
    pub const MODIFY: Self = Self(1 << 2);
    /// Add data or names.
    pub const EXTEND: Self = Self(1 << 3);
    /// Remove names.
    pub const DELETE: Self = Self(1 << 4);
    /// Execute.
    pub const EXECUTE: Self = Self(1 << 5);

    /// The set with these bits, which are those of the constants.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 0x3f)
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether it contains any right of `other`.
    #[must_use]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for AccessRights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
