//! Whom a client and a server trust, and who they are themselves.

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

/// The time since 1970, by which certificates are checked; none when it is not known, and then no certificate is accepted.
pub type Clock = fn() -> Option<Duration>;

/// A certificate, those that sign it, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The own certificate first, then those between it and one the peer trusts.
    pub certificate: Pem,
    /// The private key of the first certificate.
    pub key: Pem,
}

/// The name or address of a server, as its certificate must have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName(ServerName<'static>);

impl PeerName {
    /// Reads a host name or an address.
    ///
    /// # Errors
    /// [`SetupError::Name`] when it can be neither.
    pub fn new(host: &str) -> Result<Self, SetupError> {
        ServerName::try_from(host.to_owned()).map(Self).map_err(|_| SetupError::Name { name: host.to_owned() })
    }
}

/// The client's side of every handshake with servers whose certificates lead to the same trusted ones.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Trusts servers whose certificate leads to one in `trusted`; shows `identity` to servers that ask for it.
    ///
    /// # Errors
    /// [`SetupError`] naming the file that cannot be used.
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
    /// [`TlsFault`]: the connection broke, or the server is not who it should be.
    pub fn handshake(&self, name: &PeerName, wire: &mut impl Wire) -> Result<Session, TlsFault> {
        handshake::connect(Arc::clone(&self.0), name.0.clone(), wire)
    }
}

/// The server's side of every handshake.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    certifies: bool,
    validity: Option<Validity>,
}

impl ServerTls {
    /// Shows `identity`; with `trusted` clients are asked for certificates that lead to one in there, and may have none.
    ///
    /// # Errors
    /// [`SetupError`] naming the file that cannot be used.
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

    /// Whether clients can prove who they are.
    #[must_use]
    pub const fn certifies_clients(&self) -> bool {
        self.certifies
    }

    /// When the server's own certificate is valid; none when that cannot be told from it.
    #[must_use]
    pub const fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// Makes the TLS handshake with a client.
    ///
    /// # Errors
    /// [`TlsFault`]: the connection broke, or the client showed a certificate that is not trusted.
    pub fn handshake(&self, wire: &mut impl Wire) -> Result<Session, TlsFault> {
        handshake::accept(Arc::clone(&self.config), wire)
    }
}

/// The clock that was passed in, as rustls asks for it.
#[derive(Debug)]
struct GivenClock(Clock);

impl TimeProvider for GivenClock {
    fn current_time(&self) -> Option<UnixTime> {
        (self.0)().map(UnixTime::since_unix_epoch)
    }
}

/// Named here, never the process' default: a library inside another program sets no globals.
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
