//! What can be wrong with the parameters of a connection. No text holds a password, or a part of one.

use std::path::PathBuf;

/// Parameters that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConninfoError {
    /// Neither a URL nor a list nor a name.
    #[error("the connection string is not a PostgreSQL URL, key=value list or database name: {what}")]
    Syntax {
        /// Where it goes wrong.
        what: &'static str,
    },
    /// A keyword that libpq does not know.
    #[error("{origin} has {keyword}, which is not a connection parameter")]
    UnknownKeyword {
        /// Where it stands.
        origin: String,
        /// The keyword in quotes, or a description where its text may be part of a password.
        keyword: String,
    },
    /// A value that its keyword does not allow.
    #[error("connection parameter {keyword}: {what}")]
    Value {
        /// The keyword.
        keyword: &'static str,
        /// What it should be, with the value where that is no secret.
        what: String,
    },
    /// A parameter whose promise would not be kept.
    #[error("connection parameter {keyword} of {origin} is not supported")]
    Unsupported {
        /// The keyword.
        keyword: &'static str,
        /// Where it stands.
        origin: String,
    },
    /// A value demands a connection that this client cannot make.
    #[error("{demand} is not supported: this client {lack}")]
    Demand {
        /// The parameter and its value.
        demand: String,
        /// What the client lacks.
        lack: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A service that no file defines.
    #[error("service {name} is not defined in {}", files(searched))]
    NoService {
        /// Its name.
        name: String,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// A line of a service file that cannot be understood.
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
    /// sslmode asks for a check that nothing can be checked against.
    #[error("root certificate file {} does not exist, and sslmode={mode} needs it", path.display())]
    NoRoots {
        /// Where it was looked for.
        path: PathBuf,
        /// The mode.
        mode: &'static str,
    },
    /// The operating system has no bundle of authorities where one is usual.
    #[error("sslrootcert=system: the trusted authorities of this system were not found")]
    NoSystemRoots,
    /// Trust in every public authority, without a check of the name, means nothing.
    #[error("sslmode={mode} is too weak for sslrootcert=system: anyone can get a certificate from a public authority")]
    WeakForSystem {
        /// The mode.
        mode: &'static str,
    },
    /// A file without what it should hold.
    #[error("{what} {} cannot be used: {reason}", path.display())]
    Unusable {
        /// What it is.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A private key that others may read.
    #[error("private key file {} has group or world access (mode {mode:04o})", path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl ConninfoError {
    /// What the user can do about it.
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
                let variable = variable.map_or_else(String::new, |name| format!(", of {name}"));
                format!("it is that of an option, of the connection string, of a service file{variable}")
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
