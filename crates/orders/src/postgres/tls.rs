//! TLS of a connection: sslmode, the trusted authorities, the certificate of this client.
//!
//! Source: PostgreSQL 18, 34.19 (SSL Support). As in libpq, an existing file of root certificates is used in every mode
//! that encrypts, so sslmode=require with such a file checks the server's certificate as verify-ca does.

mod files;
mod verifier;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conninfo::{ConninfoError, Environment, Parameters, choice};
use files::{Identity, Roots};
use verifier::Verifier;

/// The protocol's name in ALPN (RFC 7301), from PostgreSQL 17 on; older servers ignore it.
const ALPN: &[u8] = b"postgresql";
/// The value of sslrootcert for the operating system's trusted authorities.
const SYSTEM: &str = "system";

/// When a connection is encrypted, and which checks are made on the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SslMode {
    /// Never.
    Disable,
    /// Only if the server refuses an unencrypted connection.
    Allow,
    /// If the server supports it and does not refuse the encrypted connection.
    Prefer,
    /// Always; the certificate is checked if there is a file of root certificates.
    Require,
    /// Always, and a trusted authority must have signed the certificate.
    VerifyCa,
    /// Always, and the certificate must also match the host name.
    VerifyFull,
}

const MODES: [(&str, SslMode); 6] = [
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

impl SslMode {
    pub(super) fn name(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// How connections of a server are encrypted.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) mode: SslMode,
    /// The given value of sslrootcert.
    pub(super) root_certificate: Option<String>,
    connector: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("mode", &self.mode).field("root_certificate", &self.root_certificate).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files that the parameters name. `never`: TLS is not possible on any of the addresses.
    pub(super) fn of(parameters: &Parameters, environment: &Environment<'_>, never: bool) -> Result<Self, ConninfoError> {
        let root_certificate = parameters.get("sslrootcert").cloned();
        let system = root_certificate.as_deref() == Some(SYSTEM);
        let usual = if system { SslMode::VerifyFull } else { SslMode::Prefer };
        let mode = choice(parameters, "sslmode", &MODES)?.unwrap_or(usual);
        if system && mode != SslMode::VerifyFull {
            return Err(ConninfoError::WeakForSystem { mode: mode.name() });
        }
        if parameters.get("sslnegotiation").is_some_and(|how| how == "direct") && mode < SslMode::Require {
            let what = format!("direct needs sslmode=require or more, not {}", mode.name());
            return Err(ConninfoError::Value { keyword: "sslnegotiation", what });
        }
        if never || mode == SslMode::Disable {
            return Ok(Self { mode: SslMode::Disable, root_certificate, connector: None });
        }
        let roots = roots(root_certificate.as_deref(), mode, environment)?;
        let config = client_config(parameters, environment, Verifier::new(roots, mode == SslMode::VerifyFull))?;
        Ok(Self { mode, root_certificate, connector: Some(MakeRustlsConnect::new(config)) })
    }

    /// Makes the TLS handshakes; `None` if nothing is encrypted.
    pub(super) fn connector(&self) -> Option<MakeRustlsConnect> {
        self.connector.clone()
    }
}

/// The trusted authorities; `None` if the certificate is not checked.
fn roots(named: Option<&str>, mode: SslMode, environment: &Environment<'_>) -> Result<Option<Roots>, ConninfoError> {
    if named == Some(SYSTEM) {
        return Roots::of_system(environment).map(Some);
    }
    let path = named.map(PathBuf::from).or_else(|| environment.certificate_file("root.crt"));
    match path {
        Some(path) if named.is_some() || path.exists() => Roots::of_file(&path).map(Some),
        path if mode >= SslMode::VerifyCa => {
            let path = path.unwrap_or_else(|| PathBuf::from("~/.postgresql/root.crt"));
            Err(ConninfoError::NoRoots { path, mode: mode.name() })
        }
        _ => Ok(None),
    }
}

fn client_config(
    parameters: &Parameters,
    environment: &Environment<'_>,
    verifier: Verifier,
) -> Result<ClientConfig, ConninfoError> {
    let versions = [("TLSv1", false), ("TLSv1.1", false), ("TLSv1.2", false), ("TLSv1.3", true)];
    let only_newest = choice(parameters, "ssl_min_protocol_version", &versions)?.unwrap_or(false);
    let versions = if only_newest { &[&TLS13][..] } else { &[&TLS13, &TLS12][..] };
    let builder = ClientConfig::builder_with_provider(verifier.provider())
        .with_protocol_versions(versions)
        .map_err(|error| ConninfoError::Value { keyword: "ssl_min_protocol_version", what: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match Identity::of(parameters, environment)? {
        None => builder.with_no_client_auth(),
        Some(Identity { path, chain, key }) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| ConninfoError::Unusable { what: "client certificate", path, reason: error.to_string() })?,
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = parameters.get("sslsni").is_none_or(|text| text != "0");
    Ok(config)
}
