//! Errors of certificates and keys, of handshakes, and of records.

use std::io;

/// Why certificates and keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The file has no certificate.
    #[error("{path} holds no certificate")]
    NoCertificate {
        /// The file.
        path: String,
    },
    /// The file has no private key.
    #[error("{path} holds no private key")]
    NoKey {
        /// The file.
        path: String,
    },
    /// The file is not PEM.
    #[error("{path} is not PEM: {reason}")]
    Pem {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The content of the file cannot be used.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Certificate and key are not a pair.
    #[error("the key in {key} is not that of the first certificate in {certificate}")]
    NotAPair {
        /// File of the certificate.
        certificate: String,
        /// File of the key.
        key: String,
    },
    /// Every user of the host can read or change the private key.
    #[error("the private key {path} is open to every user of this host (mode {mode:04o})")]
    Exposed {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// The name is not valid for a server.
    #[error("{name} is neither a host name nor an address")]
    Name {
        /// The name.
        name: String,
    },
    /// rustls does not support the configured versions and ciphers.
    #[error("TLS 1.3 is unavailable: {reason}")]
    Unsupported {
        /// Why.
        reason: String,
    },
}

impl SetupError {
    /// What the user can do about it. `None` if that is not known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoCertificate { .. } => {
                "the file must have a block -----BEGIN CERTIFICATE-----, the server's or client's own first"
            }
            Self::NoKey { .. } => {
                "the file must have an unencrypted block -----BEGIN PRIVATE KEY----- (PKCS #8), RSA or EC PRIVATE KEY"
            }
            Self::Pem { .. } => "convert it: openssl x509 -in FILE -out FILE.pem, or openssl pkey -in FILE -out FILE.pem",
            Self::Unusable { .. } => {
                "keys may be RSA of 2048 to 4096 bits, ECDSA P-256 or P-384, or Ed25519; certificates X.509 version 3"
            }
            Self::NotAPair { .. } => "compare openssl x509 -pubkey -noout -in CERT with openssl pkey -pubout -in KEY",
            Self::Exposed { .. } => "remove the access of others with chmod o-rwx; its group may read it",
            Self::Name { .. } => "write the host as the server's certificate names it",
            Self::Unsupported { .. } => return None,
        })
    }
}

/// Why a handshake or a record failed. The connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// The connection broke, was closed, or was silent for too long.
    #[error("the connection ended in the middle of the TLS handshake")]
    Wire(#[source] io::Error),
    /// The peers do not agree on parameters, or one does not trust the other's certificate.
    #[error("TLS handshake failed: {0}")]
    Handshake(#[source] rustls::Error),
    /// Bytes that do not belong to a TLS handshake.
    #[error("TLS handshake failed: {0}")]
    Unexpected(&'static str),
    /// A record that cannot be decrypted.
    #[error(transparent)]
    Record(#[from] RecordFault),
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// Not a TLS record: most likely plain text.
    #[error("not a TLS record (first byte {0:#04x})")]
    NotTls(u8),
    /// A record or a session ticket over the limit.
    #[error("TLS record of {0} bytes")]
    TooLong(usize),
    /// A record that was changed on its way, or was sealed with another key.
    #[error("TLS record that fails its integrity check")]
    Forged,
    /// A record without a type, or with a content that may not follow a handshake.
    #[error("TLS record of unexpected content")]
    Unexpected,
    /// The peer ended the connection with this alert (RFC 8446 6).
    #[error("the peer ended TLS: {}", alert_text(*.0))]
    Alert(u8),
    /// The next key is unavailable.
    #[error("no further TLS key")]
    NoKey,
}

impl TlsFault {
    /// What the user can do about it. `None` if that is not known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        use rustls::CertificateError as Bad;
        let certificate = |text: &str| Some(text.to_owned());
        match self {
            Self::Handshake(rustls::Error::InvalidCertificate(bad)) => match bad {
                Bad::UnknownIssuer | Bad::BadSignature => {
                    certificate("the peer's certificate was signed by no authority in the file of trusted certificates")
                }
                Bad::Expired | Bad::ExpiredContext { .. } => {
                    certificate("the peer's certificate has expired: have it renewed, or set the clock of this host")
                }
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                    certificate("the peer's certificate is not valid yet: check the clocks of both hosts")
                }
                Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                    certificate("use a host name or address that the server's certificate names (subjectAltName)")
                }
                _ => None,
            },
            Self::Handshake(rustls::Error::AlertReceived(alert)) => alert_hint(u8::from(*alert)),
            Self::Record(RecordFault::Alert(alert)) => alert_hint(*alert),
            _ => None,
        }
    }
}

/// The hint for an alert (RFC 8446 6.2) of a peer that refuses the connection.
fn alert_hint(alert: u8) -> Option<String> {
    Some(match alert {
        42..=46 | 48 | 51 => "the peer does not trust our certificate: is it signed by one it trusts, and still valid?".into(),
        116 => "the peer requires a client certificate: use xprtsec=mtls with cert and key".into(),
        40 | 70 | 71 => "the peer has no TLS 1.3, or no cipher in common".into(),
        120 => "the peer does not offer RPC (ALPN sunrpc) under TLS on this port".into(),
        _ => return None,
    })
}

fn alert_text(alert: u8) -> String {
    format!("{:?} ({alert})", rustls::AlertDescription::from(alert))
}
