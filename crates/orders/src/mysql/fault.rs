//! Errors of MariaDB and MySQL: their texts, and hints for the user.

use std::error::Error as StdError;
use std::fmt;

use mysql_async::{DriverError, Error, IoError, ServerError};

/// An error of the client library. The library's own text repeats each cause; this one contains it once.
#[derive(Debug)]
pub struct MySqlFault(pub(super) Error);

impl StdError for MySqlFault {}

impl fmt::Display for MySqlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Error::Server(ServerError { code, state, message }) => write!(f, "ERROR {code} ({state}): {message}"),
            Error::Driver(error) => write!(f, "{error}"),
            Error::Io(IoError::Io(error)) => write!(f, "{error}"),
            Error::Io(IoError::Tls(error)) => write!(f, "{error}"),
            Error::Other(error) => write!(f, "{error}"),
            Error::Url(error) => write!(f, "{error}"),
        }
    }
}

impl MySqlFault {
    /// Whether the server may require TLS for this login. It refuses a wrong password with the same code.
    pub(super) fn may_want_tls(&self) -> bool {
        matches!(&self.0, Error::Server(ServerError { code: 1045 | 3159, .. }))
    }

    /// Whether TLS made the connection fail.
    pub(super) fn is_of_tls(&self) -> bool {
        match &self.0 {
            Error::Io(IoError::Tls(_)) | Error::Driver(DriverError::NoClientSslFlagFromServer) => true,
            Error::Io(IoError::Io(error)) => error.get_ref().is_some_and(|inside| inside.is::<rustls::Error>()),
            _ => false,
        }
    }

    /// Whether the server does not support TLS.
    pub(super) const fn is_unavailable(&self) -> bool {
        matches!(&self.0, Error::Driver(DriverError::NoClientSslFlagFromServer))
    }

    /// Hint for a session that could not be opened.
    pub(crate) fn connect_hint(&self) -> String {
        match &self.0 {
            Error::Server(ServerError { code, .. }) => of_login(*code).or_else(|| of_statement(*code)).unwrap_or(LOG).to_owned(),
            Error::Driver(DriverError::UnknownAuthPlugin { name }) => of_plugin(name),
            Error::Driver(DriverError::CleartextPluginDisabled) => {
                "the account's password would be sent in clear: add ssl-mode=REQUIRED&enable_cleartext_plugin=true to the URL, or use \
                 an account with a password of the server's own"
                    .into()
            }
            Error::Driver(DriverError::MysqlOldPasswordDisabled) => {
                "give the account a new password: ALTER USER … IDENTIFIED BY '…'; passwords from before MySQL 4.1 are not secure".into()
            }
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                "give the server a certificate (ssl_cert, ssl_key), or leave ssl-mode out of the URL".into()
            }
            Error::Other(_) => "is this a MariaDB or MySQL server? Another kind of account (mysql_native_password, ed25519) may work".into(),
            _ if self.is_of_tls() => {
                "name the authority that signed the server's certificate by ssl-ca=FILE, and the host as the certificate does; \
                 ssl-mode=REQUIRED encrypts without a check"
                    .into()
            }
            Error::Driver(_) | Error::Url(_) => LOG.into(),
            Error::Io(IoError::Io(io)) if io.kind() == std::io::ErrorKind::NotFound => {
                "no server has its socket there: start the server, or name its socket by ?socket=PATH or its host and port".into()
            }
            Error::Io(_) => "check that the server runs there, and host and port, or the socket".into(),
        }
    }

    /// Hint for a statement that failed, if there is one.
    pub(crate) fn statement_hint(&self) -> Option<&'static str> {
        match &self.0 {
            Error::Server(ServerError { code, .. }) => of_statement(*code),
            _ => None,
        }
    }
}

const LOG: &str = "the server refused; its log says more";

/// Error codes of a login: MySQL 8.0 and MariaDB 10.11, Server Error Message Reference.
const fn of_login(code: u16) -> Option<&'static str> {
    Some(match code {
        1045 => {
            "check user and password of the URL (/ is written %2F, @ %40, : %3A, ? %3F), and that the account may come from this host; \
             if the server or the account requires TLS: ssl-mode=REQUIRED"
        }
        1698 => "the account logs in by unix_socket: run as that user, with ?socket=PATH, or give the account a password",
        1820 | 1862 => "the password has expired: set a new one with ALTER USER … IDENTIFIED BY '…'",
        3118 | 4151 => "the account is locked: ALTER USER … ACCOUNT UNLOCK",
        1203 | 1226 => {
            "raise the limit of the account (ALTER USER … WITH MAX_USER_CONNECTIONS n, max_user_connections), or use fewer sessions"
        }
        1040 => "raise max_connections of the server, or use fewer sessions",
        1129 => "too many connections from this host failed: FLUSH HOSTS on the server",
        1130 => "make an account that may come from this host: CREATE USER 'NAME'@'HOST'",
        3159 => "the server accepts only connections with TLS: add ssl-mode=REQUIRED to the URL",
        _ => return None,
    })
}

/// Error codes of statements.
const fn of_statement(code: u16) -> Option<&'static str> {
    Some(match code {
        1044 | 1142 | 1227 | 1370 => "GRANT ALL ON millrace_orders.* TO this account",
        1290 | 1792 | 1836 => "the server or the session is read-only: connect to the primary (read_only = OFF)",
        1021 | 1114 => "give the server a larger disk, or load fewer warehouses",
        1969 | 3024 => "a limit of the server ended the statement: raise max_statement_time or max_execution_time",
        1820 => "the password has expired: set a new one with ALTER USER … IDENTIFIED BY '…'",
        _ => return None,
    })
}

fn of_plugin(name: &str) -> String {
    let why = match name {
        "dialog" => "the account logs in by PAM, in a dialog",
        "auth_gssapi_client" | "authentication_kerberos_client" => "the account logs in by Kerberos",
        _ => "the account logs in by a method that this client does not support",
    };
    format!("{why}: use an account with a password (mysql_native_password, ed25519, caching_sha2_password)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_a_login_has_its_own_hint_and_a_text_without_repeats() {
        let fault = |code| {
            let message = format!("message {code}");
            MySqlFault(Error::Server(ServerError { code, message, state: "HY000".to_owned() }))
        };
        let mut hints = std::collections::HashSet::new();
        for code in [1045, 1698, 1862, 4151, 1226, 1040, 1129, 1130, 3159] {
            let fault = fault(code);
            assert_eq!(fault.to_string(), format!("ERROR {code} (HY000): message {code}"));
            assert!(hints.insert(fault.connect_hint()), "{code}");
        }
        let dialog = MySqlFault(Error::Driver(DriverError::UnknownAuthPlugin { name: "dialog".to_owned() }));
        assert!(dialog.connect_hint().contains("PAM"));
        let gone = MySqlFault(Error::Io(IoError::Io(std::io::Error::other("no route"))));
        assert_eq!(gone.to_string(), "no route");
    }
}
