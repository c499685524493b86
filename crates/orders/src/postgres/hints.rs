//! Hints for connections and statements that failed.

use std::error::Error as _;

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use super::connect::rustls_error;

/// Hint for a connection that failed.
pub(crate) fn connect_hint(error: &Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return of_server(refusal).to_owned();
    }
    if let Some(fault) = rustls_error(error) {
        return of_tls(fault).to_owned();
    }
    let io = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound) {
        // Only a Unix socket is a file.
        return "no server has its socket in this directory: start the server, or name the directory of its socket \
                (unix_socket_directories) or its host by host= or PGHOST, and its port by port= or PGPORT"
            .to_owned();
    }
    // The client library has no error type for these.
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match cause.as_str() {
        "password missing" => {
            "the server asks for a password: write it to ~/.pgpass (HOST:PORT:DATABASE:USER:PASSWORD, mode 0600) or PGPASSWORD"
        }
        "server does not support TLS" => "set ssl = on in its postgresql.conf, or let sslmode=prefer connect without TLS",
        "server did not use channel binding" => {
            "channel binding needs TLS and a password of scram-sha-256; channel_binding=prefer connects without it"
        }
        _ => "check that the server runs there, and its host (PGHOST, host= in the connection string) and port (PGPORT, port=)",
    }
    .to_owned()
}

/// Hint for a statement that failed, if there is one.
pub(crate) fn statement_hint(error: &Error) -> Option<&'static str> {
    let code = error.code()?;
    Some(if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        "the server is a standby, or read-only for this role: connect to the primary, as a role that may write"
    } else if *code == SqlState::QUERY_CANCELED {
        "another session cancelled the statement, or a timeout ended it: check statement_timeout of the server and of a pooler"
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        "connect as a role that owns the schema millrace_orders, or GRANT CREATE ON DATABASE … to this role"
    } else if *code == SqlState::DISK_FULL {
        "give the server a larger disk, or load fewer warehouses"
    } else if *code == SqlState::DUPLICATE_PSTATEMENT || *code == SqlState::INVALID_SQL_STATEMENT_NAME {
        "a pooler shares the server's sessions: connect to the server itself, or set pool_mode = session"
    } else {
        return None;
    })
}

fn of_server(refusal: &DbError) -> &'static str {
    of_code(refusal.code(), refusal.message())
}

/// Every command that connects prints these hints: they name the connection string and libpq's variables, not options of one command.
fn of_code(code: &SqlState, message: &str) -> &'static str {
    if *code == SqlState::INVALID_PASSWORD {
        "check user and password: user= in the connection string or PGUSER, and password=, PGPASSWORD or ~/.pgpass"
    } else if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        denied(message)
    } else if *code == SqlState::INVALID_CATALOG_NAME {
        "create the database first (createdb NAME) or name another: dbname= in the connection string, or PGDATABASE"
    } else if *code == SqlState::TOO_MANY_CONNECTIONS {
        "raise max_connections of the server, or connect with fewer sessions"
    } else if *code == SqlState::CANNOT_CONNECT_NOW {
        "the server is starting up or shutting down: try again"
    } else if message.contains("unsupported startup parameter") {
        "a pooler refuses a parameter of this connection: add it to ignore_startup_parameters of PgBouncer, or leave it out"
    } else {
        "the server refused; its log says more"
    }
}

/// No line of pg_hba.conf matches the connection. Messages in other languages than English are not recognised.
fn denied(message: &str) -> &'static str {
    if message.contains("client certificate") {
        "name a certificate that the server's ssl_ca_file knows: sslcert=FILE sslkey=FILE, or PGSSLCERT and PGSSLKEY"
    } else if message.contains("no encryption") {
        "the server accepts this user only over TLS (hostssl in pg_hba.conf): use sslmode=require or verify-full"
    } else if message.contains("SSL encryption") {
        "pg_hba.conf has no line for this host, user and database with TLS: add one; hostnossl lines need sslmode=disable"
    } else if message.contains("\"root\"") {
        "run the command as a user that the server has a role for (runuser -u postgres -- millrace …), or name one: user= in the connection \
         string, PGUSER"
    } else {
        "check the user (user= in the connection string, PGUSER) and pg_hba.conf on the server"
    }
}

fn of_tls(fault: &TlsError) -> &'static str {
    use CertificateError as Of;
    match fault {
        // A new authority often has the same name as the old one.
        TlsError::InvalidCertificate(Of::UnknownIssuer | Of::BadSignature) => {
            "no authority of sslrootcert signed the server's certificate: name the one that did by sslrootcert=FILE or \
             PGSSLROOTCERT"
        }
        TlsError::InvalidCertificate(Of::NotValidForName | Of::NotValidForNameContext { .. }) => {
            "connect by a name that the server's certificate has as subject alternative name; sslmode=verify-ca does not \
             check names"
        }
        TlsError::InvalidCertificate(
            Of::Expired | Of::ExpiredContext { .. } | Of::NotValidYet | Of::NotValidYetContext { .. },
        ) => "the server needs a new certificate; is this host's clock right?",
        TlsError::InvalidCertificate(_) => "the server's certificate cannot be used; it needs one of X.509 version 3",
        TlsError::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            "the server may ask for a client certificate: sslcert=FILE sslkey=FILE, or PGSSLCERT and PGSSLKEY"
        }
        TlsError::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => "the server does not accept this client's certificate: its ssl_ca_file must have the authority that signed it",
        _ => "the server's log says more; sslmode=disable connects without TLS if the server accepts that",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_no_option_that_only_some_commands_have() {
        let codes = [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::DISK_FULL,
        ];
        for hint in codes.iter().map(|code| of_code(code, "Peer authentication failed")) {
            assert!(!hint.split_whitespace().any(|word| word.trim_start_matches('(').starts_with('-')), "{hint}");
        }
    }
}
