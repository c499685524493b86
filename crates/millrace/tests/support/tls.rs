//! Certificates of a test in files, and the options that name them.

use super::Scratch;
use super::filer::Filer;
use sim::authority::{Authority, Issued, Valid};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// An authority and the certificates that it has signed, in `SCRATCH/pki`.
pub struct Pki {
    folder: PathBuf,
    authority: Authority,
}

impl Pki {
    /// Makes an authority with the certificates `filer` (for 127.0.0.1 and localhost) and `client`.
    pub fn new(scratch: &Scratch) -> Self {
        Self::named(scratch, "pki")
    }

    pub fn named(scratch: &Scratch, name: &str) -> Self {
        let pki = Self { folder: scratch.folder(name), authority: Authority::new() };
        std::fs::write(pki.path("ca.pem"), pki.authority.certificate()).unwrap();
        pki.issue("filer", &["127.0.0.1", "localhost"], Valid::Now);
        pki.issue("client", &["client"], Valid::Now);
        pki
    }

    /// Signs `NAME.pem`, with the key `NAME.key`.
    pub fn issue(&self, name: &str, hosts: &[&str], valid: Valid) {
        let Issued { certificate, key } = self.authority.issue(hosts, valid);
        std::fs::write(self.path(&format!("{name}.pem")), certificate).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key).unwrap();
        self.open_key(name, 0o600);
    }

    /// Sets the mode of the key of `name`.
    pub fn open_key(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(&format!("{name}.key")), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn path(&self, file: &str) -> String {
        self.folder.join(file).to_str().unwrap().to_owned()
    }

    /// Options of `millrace serve` for this rule and this certificate.
    pub fn serve(&self, rule: &str, name: &str) -> Vec<String> {
        let file = |suffix: &str| self.path(&format!("{name}.{suffix}"));
        let options =
            ["--tls", rule, "--tls-cert", &file("pem"), "--tls-key", &file("key"), "--tls-client-ca", &self.path("ca.pem")];
        options.map(str::to_owned).to_vec()
    }

    /// A filer with this rule.
    pub fn filer(&self, scratch: &Scratch, rule: &str) -> Filer {
        let options = self.serve(rule, "filer");
        Filer::start(scratch, &options.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The part of a URL that requires TLS.
    pub fn tls(&self) -> String {
        format!("&xprtsec=tls&cacert={}", self.path("ca.pem"))
    }

    /// The part of a URL that requires mutual TLS.
    pub fn mutual(&self) -> String {
        format!("&xprtsec=mtls&cacert={}&cert={}&key={}", self.path("ca.pem"), self.path("client.pem"), self.path("client.key"))
    }
}
