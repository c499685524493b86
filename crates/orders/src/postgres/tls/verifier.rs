//! Checks a server's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::files::Roots;

/// Checks the chain if authorities are known, and the name if that is required. It always checks that the server has the
/// private key of its certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: Option<Roots>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(roots: Option<Roots>, checks_name: bool) -> Self {
        Self { roots, checks_name, provider: Arc::new(ring::default_provider()) }
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A server may present a self-signed certificate that is also in the file of root certificates, as PostgreSQL's manual
        // creates one. There is no chain from such a certificate to itself.
        let chain = self.roots.as_ref().filter(|roots| !roots.certificates.iter().any(|trusted| trusted == end_entity));
        if chain.is_none() && !self.checks_name {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if let Some(roots) = chain {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, &roots.store, intermediates, now, algorithms)?;
        }
        if self.checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
