//! TLS of `millrace serve`, from its options.

use std::path::PathBuf;

use anyhow::anyhow;
use filer::policy::TlsRule;
use filer::tls::TlsFiles;
use rpc_tls::ServerTls;

use crate::error_printing::{hinted, refusal};

#[derive(clap::Args)]
pub(crate) struct TlsArgs {
    /// TLS for clients: off, allowed, required, or mutual (TLS, and a client certificate signed by --tls-client-ca) [default: allowed]
    #[arg(long, value_name = "RULE", value_parser = rule)]
    tls: Option<TlsRule>,
    /// The filer's certificate chain (PEM, the server certificate first): lets clients use TLS (RFC 9289)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificates (PEM) of the authorities that sign client certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

fn rule(word: &str) -> Result<TlsRule, String> {
    TlsRule::of_word(word).ok_or_else(|| format!("known are {}", TlsRule::WORDS.join(", ")))
}

impl TlsArgs {
    /// Whether clients may connect without TLS.
    pub(crate) fn is_optional(&self) -> bool {
        !matches!(self.tls, Some(TlsRule::Required | TlsRule::Mutual))
    }

    /// The rule for all clients, and the certificates of the TLS handshake.
    pub(crate) fn load(&self) -> anyhow::Result<(TlsRule, Option<ServerTls>)> {
        let rule = self.tls.unwrap_or_default();
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return if matches!(rule, TlsRule::Required | TlsRule::Mutual) {
                Err(refusal("serve under TLS: there is no certificate", "name one with --tls-cert FILE and --tls-key FILE"))
            } else {
                Ok((rule, None))
            };
        };
        let files = TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() };
        let tls = files.load().map_err(|error| {
            let hint = error.hint().unwrap_or_default();
            hinted(anyhow!(error).context("serve under TLS"), hint)
        })?;
        if rule == TlsRule::Mutual && !tls.certifies_clients() {
            let hint = "name the certificates that sign them with --tls-client-ca FILE";
            return Err(refusal("check client certificates: no authority that signs them is given", hint));
        }
        Ok((rule, Some(tls)))
    }
}
