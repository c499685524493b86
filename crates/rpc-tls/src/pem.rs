//! The content of PEM files, with their paths for messages.

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::SetupError;

/// The content of a PEM file.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// Its path, for messages.
    pub path: String,
    /// Its content, which may be a private key.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Pem {
    /// Only the path, because the content may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pem").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Permission bits of other users than the owner and the group of a file: read and write.
const OTHERS: u32 = 0o006;

impl Pem {
    /// The file of a private key. `mode` is its `st_mode`.
    ///
    /// # Errors
    /// [`SetupError::Exposed`] if every user of the host may read or change it: a process that has the key can pass for its owner.
    pub fn secret(path: String, bytes: Vec<u8>, mode: u32) -> Result<Self, SetupError> {
        if mode & OTHERS == 0 { Ok(Self { path, bytes }) } else { Err(SetupError::Exposed { path, mode: mode & 0o7777 }) }
    }

    /// Its certificates, in the order of the file.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, SetupError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let all = all.map_err(|error| self.malformed(&error))?;
        if all.is_empty() { Err(SetupError::NoCertificate { path: self.path.clone() }) } else { Ok(all) }
    }

    /// Its private key: the first one if there are several.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, SetupError> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| match error {
            Error::NoItemsFound => SetupError::NoKey { path: self.path.clone() },
            other => self.malformed(&other),
        })
    }

    /// Its certificates, as trusted certificates.
    pub(crate) fn roots(&self) -> Result<RootCertStore, SetupError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates()? {
            roots.add(certificate).map_err(|error| self.unusable(&error))?;
        }
        Ok(roots)
    }

    pub(crate) fn unusable(&self, error: &dyn std::fmt::Display) -> SetupError {
        SetupError::Unusable { path: self.path.clone(), reason: error.to_string() }
    }

    fn malformed(&self, error: &Error) -> SetupError {
        SetupError::Pem { path: self.path.clone(), reason: error.to_string() }
    }
}
