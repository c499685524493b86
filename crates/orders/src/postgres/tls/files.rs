//! Certificates and keys in files.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::postgres::conninfo::{ConninfoError, Environment, Parameters};

/// Files with the operating system's trusted authorities: Debian, Red Hat, SUSE, Alpine.
const SYSTEM_BUNDLES: [&str; 4] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"];
/// The variable that names another file, as in OpenSSL.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// The trusted authorities.
#[derive(Debug)]
pub(super) struct Roots {
    pub(super) store: RootCertStore,
    /// The certificates of the file: a server may present one of them as its own.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// The authorities of a file.
    pub(super) fn of_file(path: &Path) -> Result<Self, ConninfoError> {
        const WHAT: &str = "root certificate file";
        let certificates = certificates(WHAT, path)?;
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| unusable(WHAT, path, &error))?;
        }
        Ok(Self { store, certificates })
    }

    /// The authorities of the operating system, without those that cannot be read.
    pub(super) fn of_system(environment: &Environment<'_>) -> Result<Self, ConninfoError> {
        let named = environment.get(SYSTEM_VARIABLE).map(PathBuf::from);
        let path = named.or_else(|| SYSTEM_BUNDLES.map(PathBuf::from).into_iter().find(|path| path.exists()));
        let certificates = certificates("file of the system's authorities", &path.ok_or(ConninfoError::NoSystemRoots)?)?;
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates);
        // No server presents one of these as its own.
        Ok(Self { store, certificates: Vec::new() })
    }
}

/// The certificate of this client, and its private key.
pub(super) struct Identity {
    pub(super) path: PathBuf,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From sslcert and sslkey, else from the default files if they exist.
    pub(super) fn of(parameters: &Parameters, environment: &Environment<'_>) -> Result<Option<Self>, ConninfoError> {
        let path = |keyword: &str, usual: &str| {
            parameters.get(keyword).map(PathBuf::from).or_else(|| environment.certificate_file(usual))
        };
        let Some(certificate) = path("sslcert", "postgresql.crt") else { return Ok(None) };
        if !parameters.contains_key("sslcert") && !certificate.exists() {
            return Ok(None);
        }
        let chain = certificates("client certificate", &certificate)?;
        let Some(key_path) = path("sslkey", "postgresql.key") else {
            let reason = "no key was named: sslkey=FILE".to_owned();
            return Err(ConninfoError::Unusable { what: "client certificate", path: certificate, reason });
        };
        Ok(Some(Self { path: certificate, chain, key: key(&key_path)? }))
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConninfoError> {
    let bytes = read(what, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| unusable(what, path, &error))?;
    if all.is_empty() { Err(unusable(what, path, &"it holds no certificate")) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, ConninfoError> {
    const WHAT: &str = "private key file";
    let found = std::fs::metadata(path).map_err(|source| unreadable(WHAT, path, source))?;
    let mode = found.permissions().mode() & 0o7777;
    // As in libpq: if root owns the key, its group may read it.
    let others = if found.uid() == 0 { 0o037 } else { 0o077 };
    if mode & others != 0 {
        return Err(ConninfoError::KeyExposed { path: path.to_owned(), mode });
    }
    PrivateKeyDer::from_pem_slice(&read(WHAT, path)?).map_err(|error| match error {
        PemError::NoItemsFound => unusable(WHAT, path, &"it holds no private key that is not encrypted"),
        error => unusable(WHAT, path, &error),
    })
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, ConninfoError> {
    std::fs::read(path).map_err(|source| unreadable(what, path, source))
}

fn unreadable(what: &'static str, path: &Path, source: std::io::Error) -> ConninfoError {
    ConninfoError::File { what, path: path.to_owned(), source }
}

fn unusable(what: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> ConninfoError {
    ConninfoError::Unusable { what, path: path.to_owned(), reason: reason.to_string() }
}
