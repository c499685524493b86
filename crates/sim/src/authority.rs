//! Certificates made when a test needs them: the test's own authority, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd};

/// A certificate authority that only the test trusts.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A signed certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Valid now.
    Now,
    /// Valid only in years that are over.
    Once,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes a new authority.
    ///
    /// # Panics
    /// If no key can be made.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate signed by itself"))
    }

    /// The authority's own certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for host names and addresses.
    ///
    /// # Panics
    /// If a name is neither a host name nor an address.
    #[must_use]
    pub fn issue(&self, names: &[&str], valid: Valid) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("host names and addresses");
        params.distinguished_name.push(DnType::CommonName, "peer of a test");
        if valid == Valid::Once {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a signed certificate");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}
