//! Sessions with a server of PostgreSQL that the user named.

use orders::postgres::Postgres;

use crate::error::LabError;

pub(crate) use tokio_postgres::Client;

/// Carries out `work` in a session with the server of `dsn`. `what` names the session in errors.
///
/// # Errors
/// The server cannot be reached, or the error of `work`.
pub(crate) fn with_client<T>(
    dsn: &str,
    what: &'static str,
    work: impl AsyncFnOnce(&Client) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LabError::file("start a runtime for", what))?;
    runtime.block_on(async {
        let session = async { Postgres::parse(dsn)?.connect().await };
        let client = session.await.map_err(|source| LabError::Session { source })?;
        work(&client).await
    })
}
