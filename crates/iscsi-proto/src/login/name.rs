//! iSCSI names (RFC 7143 4.2.7).

use crate::limits::NAME_BYTES_MAX;
use core::fmt;
use thiserror::Error;

/// Why a text is not an iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The name is empty or too long.
    #[error("iSCSI name of {bytes} bytes, outside 1 to {NAME_BYTES_MAX}")]
    Length {
        /// Length of the name, in bytes.
        bytes: usize,
    },
    /// The name has white space, control characters, or other characters that RFC 3722 forbids.
    #[error("it contains {}, which an iSCSI name cannot have", shown(*.character))]
    Character {
        /// The first such character.
        character: char,
    },
    /// The name has none of the forms of RFC 7143 4.2.7.
    #[error(
        "it is not an iSCSI name: write iqn.YEAR-MONTH.DOMAIN, as in iqn.2026-11.com.example:host1, or eui. and 16 \
         hexadecimal digits, or naa. and 16 or 32"
    )]
    Form,
}

fn shown(character: char) -> String {
    if character == ' ' { "a blank".into() } else { format!("the character {character:?}") }
}

/// The name of an initiator or a target, in lower case as RFC 7143 4.2.7.2 requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks and normalises a name. Applies RFC 3722 to ASCII only. Other scripts pass unchanged.
    ///
    /// # Errors
    /// [`NameError`] if the text is not a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(NameError::Length { bytes: name.len() });
        }
        // RFC 3722 allows `-`, `.` and `:`. The other characters occur in the default names of products.
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

    /// Checks and normalises a name that a user wrote. In addition to the checks of [`Name::new`], it must have one of the forms of
    /// RFC 7143 4.2.7.
    ///
    /// # Errors
    /// [`NameError`] if the text is not such a name.
    pub fn of_user(name: &str) -> Result<Self, NameError> {
        let name = Self::new(name)?;
        let is_hexadecimal = |digits: &str, lengths: &[usize]| {
            lengths.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_formed = match name.0.get(..4) {
            Some("iqn.") => has_date_and_domain(&name.0[4..]),
            Some("eui.") => is_hexadecimal(&name.0[4..], &[16]),
            Some("naa.") => is_hexadecimal(&name.0[4..], &[16, 32]),
            _ => false,
        };
        if is_formed { Ok(name) } else { Err(NameError::Form) }
    }

    /// Whether the name begins with iqn., eui. or naa. (RFC 7143 4.2.7.3), as an initiator's must at login.
    #[must_use]
    pub fn has_form(&self) -> bool {
        ["iqn.", "eui.", "naa."].iter().any(|form| self.0.starts_with(form))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the rest of a name after iqn. is YEAR-MONTH.DOMAIN, optionally followed by a colon and more.
fn has_date_and_domain(rest: &str) -> bool {
    let Some((date, domain)) = rest.split_once('.') else { return false };
    let [year @ .., b'-', tens, ones] = date.as_bytes() else { return false };
    let are_digits = year.iter().chain([tens, ones]).all(u8::is_ascii_digit);
    let is_domain = !domain.is_empty() && !domain.starts_with([':', '.']);
    year.len() == 4 && are_digits && ("01"..="12").contains(&&date[5..]) && is_domain
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
        assert!(Name::new("iqn.2026-11.com.example:a b").unwrap_err().to_string().contains("a blank"));
    }

    #[test]
    fn a_name_that_a_user_writes_has_a_form_of_rfc_7143() {
        for name in [
            "iqn.1993-08.org.debian:01:7d2c",
            "iqn.2026-11.example",
            "IQN.1991-05.com.microsoft:win-host.example.com",
            "iqn.1998-01.com.vmware:esx_1-2b",
            "eui.02004567A425678D",
            "naa.52004567BA64678D",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert!(Name::of_user(name).is_ok(), "{name}");
        }
        for name in [
            "host1",
            "iqn.1",
            "iqn.bad",
            "iqn.2026-11",
            "iqn.2026-11.",
            "iqn.2026-11.:x",
            "iqn.2026-13.com.example",
            "iqn.26-11.com.example",
            "eui.1",
            "eui.0200456789abcdeg",
            "naa.62004567BA64678D01",
            "äiqn.2026-11.a",
        ] {
            assert_eq!(Name::of_user(name), Err(NameError::Form), "{name}");
        }
    }
}
