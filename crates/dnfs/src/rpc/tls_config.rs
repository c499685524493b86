//! The certificates that a client trusts and its own, read from the files that the URL names.

use crate::error::Error;
use crate::limits::PEM_BYTES_MAX;
use crate::options::TransportSecurity;
use crate::sys::whole_file;
use crate::url::NfsUrl;
use rpc_tls::{ClientTls, Identity, PeerName, Pem};
use std::time::{Duration, SystemTime};

/// TLS of the connections to one host.
#[derive(Clone, Debug)]
pub(crate) struct TlsConfig {
    pub(super) tls: ClientTls,
    pub(super) name: PeerName,
}

impl TlsConfig {
    /// Reads the certificates that the URL names, for connections to one of its hosts. `None` if the URL does not ask
    /// for TLS.
    ///
    /// # Errors
    /// [`Error::TlsFile`] and [`Error::Certificates`], which name the file.
    pub(crate) fn of(url: &NfsUrl, host: &str) -> Result<Option<Self>, Error> {
        let options = &url.options;
        let (Some(trusted), true) = (&options.trusted, options.security != TransportSecurity::None) else { return Ok(None) };
        let certificates = |path: &String| read(path).map(|(bytes, _)| Pem { path: path.clone(), bytes });
        let trusted = certificates(trusted)?;
        let identity = match (&options.certificate, &options.key) {
            (Some(certificate), Some(path)) => {
                let (bytes, mode) = read(path)?;
                Some(Identity { certificate: certificates(certificate)?, key: Pem::secret(path.clone(), bytes, mode)? })
            }
            _ => None,
        };
        let tls = ClientTls::new(&trusted, identity.as_ref(), now)?;
        Ok(Some(Self { tls, name: PeerName::new(host)? }))
    }
}

fn read(path: &str) -> Result<(Vec<u8>, u32), Error> {
    whole_file::read(path, PEM_BYTES_MAX).map_err(|source| Error::TlsFile { path: path.to_owned(), source })
}

fn now() -> Option<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()
}
