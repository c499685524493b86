//! TLS of `millrace serve` as its options say it.

use std::path::PathBuf;

use anyhow::anyhow;
use filer::policy::TlsRule;
use filer::tls::TlsFiles;
use rpc_tls::ServerTls;

use crate::complain::{hinted, refusal};

#[derive(clap::Args)]
pub(crate) struct TlsArgs {
    /// What clients must have: off, allowed, required, or mutual (TLS, and a certificate that --tls-client-ca signed) [default: allowed]
    #[arg(long, value_name = "RULE", value_parser = rule)]
    tls: Option<TlsRule>,
    /// The filer's certificate (PEM), its own first: clients can ask for TLS (RFC 9289) then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificates (PEM) by which clients that show one are believed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

fn rule(word: &str) -> Result<TlsRule, String> {
    TlsRule::of_word(word).ok_or_else(|| format!("known are {}", TlsRule::WORDS.join(", ")))
}

impl TlsArgs {
    /// The rule for everybody, and how hands are shaken.
    pub(crate) fn load(&self) -> anyhow::Result<(TlsRule, Option<ServerTls>)> {
        let rule = self.tls.unwrap_or_default();
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return if matches!(rule, TlsRule::Required | TlsRule::Mutual) {
                Err(refusal("cannot serve under TLS: there is no certificate", "name one with --tls-cert FILE and --tls-key FILE"))
            } else {
                Ok((rule, None))
            };
        };
        let files = TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() };
        let tls = files.load().map_err(|error| {
            let hint = error.hint().unwrap_or_default();
            hinted(anyhow!(error).context("cannot serve under TLS"), hint)
        })?;
        if rule == TlsRule::Mutual && !tls.certifies_clients() {
            let hint = "name the certificates that sign them with --tls-client-ca FILE";
            return Err(refusal("cannot ask clients for certificates: nobody says which are believed", hint));
        }
        Ok((rule, Some(tls)))
    }
}
