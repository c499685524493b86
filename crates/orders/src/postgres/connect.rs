//! Connects to each address in turn, with or without TLS depending on sslmode.

use std::error::Error as _;
use std::io;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio_postgres::config::{LoadBalanceHosts, SslMode as Negotiated};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::conninfo::{Endpoint, Server};
use super::socket;
use super::tls::SslMode;

/// Connects to the first address that accepts the connection. A task of the current runtime drives the socket.
///
/// # Errors
/// The error of the last address that was tried. If one refuses the user, no further address is tried, as in libpq.
pub(super) async fn connect(server: &Server) -> Result<Client, Error> {
    let mut endpoints: Vec<&Endpoint> = server.endpoints.iter().collect();
    if server.common.get_load_balance_hosts() == LoadBalanceHosts::Random {
        endpoints.shuffle(&mut Xoshiro256PlusPlus::from_os_rng());
    }
    let last = endpoints.len().saturating_sub(1);
    for (index, endpoint) in endpoints.into_iter().enumerate() {
        match connect_to(server, endpoint).await {
            Err(error) if index < last && !is_refusal(&error) => {}
            outcome => return outcome,
        }
    }
    // There is always an address: the default one.
    server.common.connect(NoTls).await.map(|(client, _)| client)
}

async fn connect_to(server: &Server, endpoint: &Endpoint) -> Result<Client, Error> {
    let config = endpoint.config(&server.common);
    if endpoint.is_socket() {
        return plain(config).await;
    }
    match server.tls.mode {
        SslMode::Disable => plain(config).await,
        SslMode::Allow => match plain(config.clone()).await {
            Err(error) if is_denied(&error) => encrypted(config, server, Negotiated::Require).await,
            outcome => outcome,
        },
        SslMode::Prefer => match encrypted(config.clone(), server, Negotiated::Prefer).await {
            // Denied with and without TLS: the error with TLS shows what is missing.
            Err(denied) if is_denied(&denied) => {
                plain(config).await.map_err(|error| if is_denied(&error) { denied } else { error })
            }
            // The error of the handshake is more useful than the server's demand for TLS.
            Err(error) if rustls_error(&error).is_some() => plain(config).await.map_err(|_| error),
            outcome => outcome,
        },
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => encrypted(config, server, Negotiated::Require).await,
    }
}

async fn plain(mut config: Config) -> Result<Client, Error> {
    socket::connect(config.ssl_mode(Negotiated::Disable)).await
}

async fn encrypted(mut config: Config, server: &Server, negotiated: Negotiated) -> Result<Client, Error> {
    let Some(connector) = server.tls.connector() else { return plain(config).await };
    let (client, connection) = config.ssl_mode(negotiated).connect(connector).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Whether the server refused this user, its password or its access.
fn is_refusal(error: &Error) -> bool {
    // Class 28: invalid authorization specification.
    error.code().is_some_and(|code| code.code().starts_with("28"))
}

/// Whether no line of pg_hba.conf matches this connection; with (or without) TLS, one may match.
fn is_denied(error: &Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// The TLS error in the causes of a failed connection.
pub(crate) fn rustls_error(error: &Error) -> Option<&rustls::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inside.and_then(|inside| inside.downcast_ref()) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
