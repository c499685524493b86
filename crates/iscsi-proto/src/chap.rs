//! CHAP (RFC 7143 12.1.3, RFC 1994): responses, their verification, and secrets.

use crate::limits::{CHAP_NAME_BYTES_MAX, CHAP_SECRET_BYTES_MAX, CHAP_SECRET_BYTES_MIN};
use core::fmt;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Why a credential is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialError {
    /// The length of the secret is outside the limits.
    #[error("CHAP secret of {bytes} bytes, outside {CHAP_SECRET_BYTES_MIN} to {CHAP_SECRET_BYTES_MAX}")]
    SecretLength {
        /// Length of the secret, in bytes.
        bytes: usize,
    },
    /// The name is empty, too long, or cannot be the value of a text key.
    #[error("CHAP name of {bytes} bytes is empty, longer than {CHAP_NAME_BYTES_MAX} bytes or has a zero byte")]
    Name {
        /// Length of the name, in bytes.
        bytes: usize,
    },
}

/// The hash algorithm of an exchange (CHAP_A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5, which every side supports (RFC 1994).
    Md5 = 5,
    /// SHA-1. RFC 7143 refers to IANA's registry for the number: 6.
    Sha1 = 6,
    /// SHA-256. Its number in the same registry is 7.
    Sha256 = 7,
}

impl Algorithm {
    /// All algorithms, the strongest first.
    pub const ALL: &[Self] = &[Self::Sha256, Self::Sha1, Self::Md5];

    /// The algorithm with this number of CHAP_A.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            5 => Some(Self::Md5),
            6 => Some(Self::Sha1),
            7 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The algorithm with this name in `node.session.auth.chap_algs` of open-iscsi. Case does not matter.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name().eq_ignore_ascii_case(name))
    }

    /// Its name in `node.session.auth.chap_algs` of open-iscsi.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// Its number in CHAP_A.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Length of a response, in bytes.
    #[must_use]
    pub const fn response_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// A secret that two sides share. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// A name and its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    name: String,
    secret: Secret,
}

impl Credential {
    /// A credential with checked lengths.
    ///
    /// # Errors
    /// [`CredentialError`] if the secret or the name is not valid.
    pub fn new(name: &str, secret: &[u8]) -> Result<Self, CredentialError> {
        if !(CHAP_SECRET_BYTES_MIN..=CHAP_SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(CredentialError::SecretLength { bytes: secret.len() });
        }
        if name.is_empty() || name.len() > CHAP_NAME_BYTES_MAX || name.contains('\0') {
            return Err(CredentialError::Name { bytes: name.len() });
        }
        Ok(Self { name: name.into(), secret: Secret(secret.into()) })
    }

    /// The name (CHAP_N).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The secret, for another initiator that will log in with it.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.secret.0
    }

    /// Whether both credentials have the same secret, which mutual CHAP forbids (RFC 7143 9.2.1). Does not run in constant
    /// time, because both are configured on this side.
    #[must_use]
    pub fn shares_secret(&self, other: &Self) -> bool {
        self.secret == other.secret
    }

    /// The response to a challenge (CHAP_R).
    #[must_use]
    pub fn response(&self, algorithm: Algorithm, identifier: u8, challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            parts.into_iter().fold(D::new(), |hash, part| hash.chain_update(part)).finalize().to_vec()
        }
        let parts = [&[identifier][..], &self.secret.0, challenge];
        match algorithm {
            Algorithm::Md5 => hash::<Md5>(parts),
            Algorithm::Sha1 => hash::<Sha1>(parts),
            Algorithm::Sha256 => hash::<Sha256>(parts),
        }
    }

    /// Whether `response` is the response of this secret. The duration depends only on the length.
    #[must_use]
    pub fn verify(&self, algorithm: Algorithm, identifier: u8, challenge: &[u8], response: &[u8]) -> bool {
        equal_in_constant_time(&self.response(algorithm, identifier, challenge), response)
    }
}

fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (left, right)| core::hint::black_box(all | (left ^ right)));
    left.len() == right.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(secret: &[u8]) -> Credential {
        Credential::new("user", secret).unwrap()
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        crate::text::to_hexadecimal(bytes)
    }

    /// `printf '\x17SECRET…' | md5sum`, `sha1sum` and `sha256sum` of coreutils 9.1.
    #[test]
    fn responses_are_the_hash_of_identifier_secret_and_challenge() {
        let credential = credential(b"twelve bytes");
        let response = |algorithm| hexadecimal(&credential.response(algorithm, 0x17, b"challenge"));
        assert_eq!(response(Algorithm::Md5), "0xdaf471edd5f9a6712a74d0c90de2072b");
        assert_eq!(response(Algorithm::Sha1), "0x49807b73e3ca737889e42f41c7aa18aade9aedc5");
        assert_eq!(response(Algorithm::Sha256), "0x60581abdadc367cc6d4ff00e8087ff0bf532f5928d75e9344d688fea22b6a910");
    }

    #[test]
    fn only_the_right_response_is_accepted() {
        let credential = credential(b"twelve bytes");
        for algorithm in Algorithm::ALL {
            let right = credential.response(*algorithm, 1, b"challenge");
            assert_eq!(right.len(), algorithm.response_bytes());
            assert!(credential.verify(*algorithm, 1, b"challenge", &right));
            assert!(!credential.verify(*algorithm, 2, b"challenge", &right));
            assert!(!credential.verify(*algorithm, 1, b"challenge", &right[1..]));
            assert!(!credential.verify(*algorithm, 1, b"challenge", &[&right[..], &[0]].concat()));
            for bit in 0..right.len() * 8 {
                let mut wrong = right.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!credential.verify(*algorithm, 1, b"challenge", &wrong));
            }
        }
    }

    #[test]
    fn short_secrets_and_names_that_are_no_values_are_refused() {
        assert_eq!(Credential::new("user", &[1; 11]), Err(CredentialError::SecretLength { bytes: 11 }));
        assert_eq!(Credential::new("user", &[1; 256]), Err(CredentialError::SecretLength { bytes: 256 }));
        assert_eq!(Credential::new("", &[1; 12]), Err(CredentialError::Name { bytes: 0 }));
        assert_eq!(Credential::new("a\0b", &[1; 12]), Err(CredentialError::Name { bytes: 3 }));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert!(!format!("{:?}", credential(b"do-not-print-me")).contains("print-me"));
    }
}
