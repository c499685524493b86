//! Errors in the parameters of a connection. No text contains a password or a part of one.

use std::path::PathBuf;

/// Parameters of a connection that are invalid or not supported.
#[derive(Debug, thiserror::Error)]
pub enum ConninfoError {
    /// The text is not a URL, a key=value list or a database name.
    #[error("the connection string is not a PostgreSQL URL, key=value list or database name: {what}")]
    Syntax {
        /// Where and how the syntax is wrong.
        what: &'static str,
    },
    /// A keyword that libpq does not know either.
    #[error("{origin} has {keyword}, which is not a connection parameter")]
    UnknownKeyword {
        /// The source of the keyword.
        origin: String,
        /// The keyword in quotes, or a description if its text may be part of a password.
        keyword: String,
    },
    /// A value that its keyword does not allow.
    #[error("connection parameter {keyword}: {what}")]
    Value {
        /// The keyword.
        keyword: &'static str,
        /// The expected value, with the given value if it is not secret.
        what: String,
    },
    /// This client cannot guarantee what the parameter requires.
    #[error("connection parameter {keyword} of {origin} is not supported")]
    Unsupported {
        /// The keyword.
        keyword: &'static str,
        /// The source of the parameter.
        origin: String,
    },
    /// A value requires a connection that this client cannot make.
    #[error("{demand} is not supported: this client {lack}")]
    Demand {
        /// The parameter and its value.
        demand: String,
        /// The missing feature.
        lack: &'static str,
        /// What the user can do.
        fix: &'static str,
    },
    /// A service that no file defines.
    #[error("service {name} is not defined in {}", files(searched))]
    NoService {
        /// Its name.
        name: String,
        /// Service files that were searched.
        searched: Vec<PathBuf>,
    },
    /// A line of a service file that cannot be parsed.
    #[error("line {line} of service file {} is not KEYWORD=VALUE", path.display())]
    ServiceLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A file that cannot be read.
    #[error("{what} {} cannot be read", path.display())]
    File {
        /// What it is.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// sslmode requires a check of the certificate, but there is no file of root certificates.
    #[error("root certificate file {} does not exist, and sslmode={mode} needs it", path.display())]
    NoRoots {
        /// Path that was tried.
        path: PathBuf,
        /// The mode.
        mode: &'static str,
    },
    /// The operating system has no file of trusted authorities in the usual places.
    #[error("sslrootcert=system: the trusted authorities of this system were not found")]
    NoSystemRoots,
    /// Trusting every public authority is useless without checking the host name.
    #[error("sslmode={mode} is too weak for sslrootcert=system: anyone can get a certificate from a public authority")]
    WeakForSystem {
        /// The mode.
        mode: &'static str,
    },
    /// The content of a file is not usable.
    #[error("{what} {} cannot be used: {reason}", path.display())]
    Unusable {
        /// Purpose of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A private key file that other users may read.
    #[error("private key file {} has group or world access (mode {mode:04o})", path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl ConninfoError {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Syntax { .. } => "write postgresql://USER@HOST:PORT/DATABASE or 'host=… port=… user=… dbname=…'; in a URL \
                                    / is written %2F, @ %40, : %3A and ? %3F"
                .into(),
            Self::UnknownKeyword { .. } => {
                "the parameters are libpq's: host, port, user, dbname, sslmode, sslrootcert, service …; a value with spaces is \
                 quoted: options='-c x=y'"
                    .into()
            }
            Self::Value { keyword, .. } => {
                let variable = super::keywords::keyword(keyword).and_then(|keyword| keyword.variable);
                let variable = variable.map_or_else(String::new, |name| format!(", or in {name}"));
                format!("look for it in the options, in the connection string, in the service file{variable}")
            }
            Self::Unsupported { keyword, .. } => format!("leave {keyword} out"),
            Self::Demand { fix, .. } => (*fix).into(),
            Self::NoService { .. } => {
                "write it there as [NAME] and lines like host=db1, or name another file by PGSERVICEFILE".into()
            }
            Self::ServiceLine { .. } => "write host=db1, without spaces around =; comments begin with #".into(),
            Self::File { .. } => "name a file that this user may read".into(),
            Self::NoRoots { .. } => {
                "name the authority that signed the server's certificate by sslrootcert=FILE or PGSSLROOTCERT, \
                                     or use sslrootcert=system; sslmode=require encrypts without a check of the server"
                    .into()
            }
            Self::NoSystemRoots => {
                "install the package ca-certificates, or name a file by SSL_CERT_FILE or sslrootcert=FILE".into()
            }
            Self::WeakForSystem { .. } => "use sslmode=verify-full".into(),
            Self::Unusable { .. } => "name a file in PEM format".into(),
            Self::KeyExposed { path, .. } => format!("chmod 0600 {}", path.display()),
        })
    }
}

fn files(searched: &[PathBuf]) -> String {
    let names: Vec<String> = searched.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { "any file: HOME is not set".to_owned() } else { names.join(" or ") }
}
