//! The files of TLS: the certificate and key of the filer, and the CA certificates that verify its clients.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rpc_tls::{Identity, Lifetime, Pem, ServerTls, SetupError, Validity};

use crate::limits::PEM_BYTES_MAX;

/// The hint about a certificate that expires.
const RENEW: &str = "renew it, then reload the configuration or start the filer again";

/// Paths of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file with the filer's certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// The file with the private key.
    pub key: PathBuf,
    /// The file with the CA certificates that verify client certificates. `None`: clients are not asked for a certificate.
    pub client_ca: Option<PathBuf>,
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {path}")]
    File {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The files cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl TlsError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } => Some("name a PEM file that the filer's user may read"),
            Self::Setup(error) => error.hint(),
        }
    }
}

impl TlsFiles {
    /// Reads the files. Loads a certificate that has expired, is not valid yet or expires soon too, and logs it.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
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
