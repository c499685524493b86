//! The files of TLS: the certificate and key of the filer, and the certificates its clients are verified by.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rpc_tls::{Identity, Lifetime, Pem, ServerTls, SetupError, Validity};

use crate::limits::PEM_BYTES_MAX;

/// What to do about a certificate that ends.
const RENEW: &str = "renew it, then reload the configuration or start the filer again";

/// Paths of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The filer's certificate first, then the intermediates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// CA certificates that client certificates are verified by; none: no client is asked for a certificate.
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("read {path}")]
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
    /// How to mend it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } => Some("name a PEM file that the filer's user may read"),
            Self::Setup(error) => error.hint(),
        }
    }
}

impl TlsFiles {
    /// Reads them as they are now. A certificate that has expired, is not valid yet or expires soon is loaded, and logged.
    ///
    /// # Errors
    /// [`TlsError`] naming the file.
    pub fn load(&self) -> Result<ServerTls, TlsError> {
        let certificates = |path: &Path| read(path).map(|(pem, _)| pem);
        let (key, mode) = read(&self.key)?;
        let key = Pem::secret(key.path, key.bytes, mode)?;
        let identity = Identity { certificate: certificates(&self.certificate)?, key };
        let trusted = self.client_ca.as_deref().map(certificates).transpose()?;
        let tls = ServerTls::new(&identity, trusted.as_ref(), now)?;
        if let (Some(validity), Some(now)) = (tls.validity(), now()) {
            self.log_validity(validity, now);
        }
        Ok(tls)
    }

    fn log_validity(&self, validity: Validity, now: Duration) {
        let certificate = self.certificate.display();
        match validity.at(now) {
            Lifetime::Valid => {}
            Lifetime::EndsSoon => tracing::warn!(%certificate, %validity, "the certificate expires soon: {RENEW}"),
            Lifetime::Ended => {
                tracing::error!(%certificate, %validity, "the certificate has expired, clients refuse it: {RENEW}")
            }
            Lifetime::NotYet => {
                tracing::error!(%certificate, %validity, "the certificate is not valid yet, clients refuse it: see the clock of this host");
            }
        }
    }
}

/// The file, and its permission bits.
fn read(path: &Path) -> Result<(Pem, u32), TlsError> {
    let shown = path.display().to_string();
    let read = || {
        let file = File::open(path)?;
        let mode = file.metadata()?.mode();
        let mut bytes = Vec::new();
        file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > PEM_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok((bytes, mode)) }
    };
    match read() {
        Ok((bytes, mode)) => Ok((Pem { path: shown, bytes }, mode)),
        Err(source) => Err(TlsError::File { path: shown, source }),
    }
}

fn now() -> Option<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()
}
