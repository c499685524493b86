//! The configuration of a client and of a server: trusted certificates, and their own.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::ALPN;
use crate::error::{SetupError, TlsFault};
use crate::handshake::{self, Session, Wire};
use crate::pem::Pem;
use crate::validity::Validity;

/// Returns the time since 1970, by which certificates are checked. `None` if it is not known; then no certificate is accepted.
pub type Clock = fn() -> Option<Duration>;

/// A certificate with those that sign it, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The own certificate first, then the intermediate ones up to one that the peer trusts.
    pub certificate: Pem,
    /// The private key of the first certificate.
    pub key: Pem,
}

/// The name or address that a server's certificate must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName(ServerName<'static>);

impl PeerName {
    /// Parses a host name or an address.
    ///
    /// # Errors
    /// [`SetupError::Name`] if it is neither.
    pub fn new(host: &str) -> Result<Self, SetupError> {
        ServerName::try_from(host.to_owned()).map(Self).map_err(|_| SetupError::Name { name: host.to_owned() })
    }
}

/// The configuration of a client, for handshakes with servers whose certificates lead to the same trusted ones.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Trusts servers whose certificate leads to one in `trusted`. Sends `identity` to servers that request a certificate.
    ///
    /// # Errors
    /// [`SetupError`], which names the file that cannot be used.
    pub fn new(trusted: &Pem, identity: Option<&Identity>, clock: Clock) -> Result<Self, SetupError> {
        let builder = ClientConfig::builder_with_details(provider(), Arc::new(GivenClock(clock)))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unsupported(&error))?
            .with_root_certificates(trusted.roots()?);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder
                .with_client_auth_cert(certificate.certificates()?, key.key()?)
                .map_err(|error| pair_fault(&error, certificate, key))?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        config.enable_secret_extraction = true;
        Ok(Self(Arc::new(config)))
    }

    /// Makes the TLS handshake with the server called `name`.
    ///
    /// # Errors
    /// [`TlsFault`]: the connection broke, or the server did not prove that it has this name.
    pub fn handshake(&self, name: &PeerName, wire: &mut impl Wire) -> Result<Session, TlsFault> {
        handshake::connect(Arc::clone(&self.0), name.0.clone(), wire)
    }
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    certifies: bool,
    validity: Option<Validity>,
}

impl ServerTls {
    /// Sends `identity` to clients. With `trusted`, requests certificates of clients that lead to one in `trusted`; a client without
    /// a certificate is accepted too.
    ///
    /// # Errors
    /// [`SetupError`], which names the file that cannot be used.
    pub fn new(identity: &Identity, trusted: Option<&Pem>, clock: Clock) -> Result<Self, SetupError> {
        let Identity { certificate, key } = identity;
        let builder = ServerConfig::builder_with_details(provider(), Arc::new(GivenClock(clock)))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unsupported(&error))?;
        let builder = match trusted {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(pem.roots()?), provider());
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().map_err(|error| pem.unusable(&error))?)
            }
        };
        let chain = certificate.certificates()?;
        let validity = chain.first().and_then(Validity::of);
        let mut config = builder.with_single_cert(chain, key.key()?).map_err(|error| pair_fault(&error, certificate, key))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), certifies: trusted.is_some(), validity })
    }

    /// Whether the server requests certificates of clients.
    #[must_use]
    pub const fn certifies_clients(&self) -> bool {
        self.certifies
    }

    /// When the server's own certificate is valid. `None` if the certificate cannot be decoded.
    #[must_use]
    pub const fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// Makes the TLS handshake with a client.
    ///
    /// # Errors
    /// [`TlsFault`]: the connection broke, or the client sent a certificate that is not trusted.
    pub fn handshake(&self, wire: &mut impl Wire) -> Result<Session, TlsFault> {
        handshake::accept(Arc::clone(&self.config), wire)
    }
}

/// The caller's clock, for rustls.
#[derive(Debug)]
struct GivenClock(Clock);

impl TimeProvider for GivenClock {
    fn current_time(&self) -> Option<UnixTime> {
        (self.0)().map(UnixTime::since_unix_epoch)
    }
}

/// The provider is passed to rustls explicitly, because a library in another program must not set the process's default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn pair_fault(error: &rustls::Error, certificate: &Pem, key: &Pem) -> SetupError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            SetupError::NotAPair { certificate: certificate.path.clone(), key: key.path.clone() }
        }
        rustls::Error::InvalidCertificate(_) => certificate.unusable(error),
        other => key.unusable(other),
    }
}

fn unsupported(error: &rustls::Error) -> SetupError {
    SetupError::Unsupported { reason: error.to_string() }
}
