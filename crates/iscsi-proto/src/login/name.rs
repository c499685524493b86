//! iSCSI names (RFC 7143 4.2.7).

use crate::limits::NAME_BYTES_MAX;
use core::fmt;
use thiserror::Error;

/// Text that is no iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Empty or too long.
    #[error("iSCSI name of {bytes} bytes, outside 1 to {NAME_BYTES_MAX}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// White space, control characters, or others that RFC 3722 forbids in names.
    #[error("character {character:?} in iSCSI name")]
    Character {
        /// The first.
        character: char,
    },
}

/// The name of an initiator or a target. Upper case is folded, as RFC 7143 4.2.7.2 asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks and normalises it. Of RFC 3722 the part for ASCII is done; other scripts pass as they are.
    ///
    /// # Errors
    /// [`NameError`] when it is none.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(NameError::Length { bytes: name.len() });
        }
        // RFC 3722 allows `-`, `.` and `:`; the others are in names that products have by default.
        let allowed = |character: &char| {
            if character.is_ascii() {
                character.is_ascii_alphanumeric() || "-.:_/=@+,".contains(*character)
            } else {
                !character.is_whitespace() && !character.is_control()
            }
        };
        match name.chars().find(|character| !allowed(character)) {
            Some(character) => Err(NameError::Character { character }),
            None => Ok(Self(name.to_lowercase())),
        }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_to_lower_case() {
        assert_eq!(Name::new("IQN.2026-01.Example:Disk1").unwrap().as_str(), "iqn.2026-01.example:disk1");
        assert_eq!(Name::new("eui.02004567A425678D").unwrap().as_str(), "eui.02004567a425678d");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert_eq!(Name::new(""), Err(NameError::Length { bytes: 0 }));
        assert_eq!(Name::new(&"a".repeat(224)), Err(NameError::Length { bytes: 224 }));
        assert_eq!(Name::new("iqn a"), Err(NameError::Character { character: ' ' }));
        assert_eq!(Name::new("iqn\n"), Err(NameError::Character { character: '\n' }));
    }
}
