//! The files by which the filer proves who it is, and believes its clients.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rpc_tls::{Identity, Pem, ServerTls, SetupError};

use crate::limits::PEM_BYTES_MAX;

/// Where certificates and keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The filer's certificate first, then those between it and one its clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates by which clients are believed; none: no client is asked for its own.
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Files that cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl TlsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } => Some("name a PEM file that the filer's user may read"),
            Self::Setup(error) => error.hint(),
        }
    }
}

impl TlsFiles {
    /// Reads them as they are now.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn load(&self) -> Result<ServerTls, TlsError> {
        let identity = Identity { certificate: read(&self.certificate)?, key: read(&self.key)? };
        let trusted = self.client_ca.as_deref().map(read).transpose()?;
        Ok(ServerTls::new(&identity, trusted.as_ref(), now)?)
    }
}

fn read(path: &Path) -> Result<Pem, TlsError> {
    use std::io::Read;
    let shown = path.display().to_string();
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > PEM_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    };
    match read() {
        Ok(bytes) => Ok(Pem { path: shown, bytes }),
        Err(source) => Err(TlsError::File { path: shown, source }),
    }
}

fn now() -> Option<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()
}
