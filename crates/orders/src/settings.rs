//! Reads the settings of a database server, for the audit. Read only; neither needs nor touches the tables of the load.

use tokio_postgres::{Client, Row};

use crate::database::Database as _;
use crate::error::OrdersError;
use crate::limits::{RESULTS_REPLY_S, SETTINGS_MAX};
use crate::mysql::MySql;
use crate::postgres::Postgres;

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL, or an engine of its wire protocol.
    Postgres,
    /// MySQL or MariaDB; the setting `version` distinguishes them.
    MySql,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value in the server's notation.
    pub value: String,
    /// The unit of that value, `8kB` or `ms`, if the server reports one.
    pub unit: Option<String>,
    /// Whether a changed value takes effect only after a restart.
    pub pending_restart: bool,
    /// Where the value was set: `FILE:LINE` if the server shows that to this user; `command line`; or, for a database or a role,
    /// the statement up to its SET: `ALTER DATABASE mill`.
    pub source: Option<String>,
    /// The allowed values, if the setting takes one of a few words.
    pub values: Vec<String>,
    /// `database NAME`, `role NAME`, `role NAME in database NAME` or `every role` if the value is set for that only; `None` for the
    /// server's value.
    pub set_for: Option<String>,
}

/// All settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The kind of server.
    pub engine: Engine,
    /// Description of the server, without a password.
    pub server: String,
    /// The server's address: `HOST:PORT`, or the path of a socket.
    pub address: String,
    /// Start time of the server in seconds since 1970, if it reports one.
    pub started_s: Option<i64>,
    /// The server's settings, then those of databases and roles.
    pub settings: Vec<Setting>,
    /// As [`Postgres::warning`].
    pub warning: Option<String>,
}

/// Reads the settings of the server that a DSN names.
///
/// # Errors
/// An invalid DSN ([`OrdersError::Conninfo`], [`OrdersError::MySqlUrl`] …), no session, or an unexpected result of a query.
pub async fn settings(dsn: &str) -> Result<Settings, OrdersError> {
    if MySql::is_dsn(dsn) { of_mysql(&MySql::parse(dsn)?).await } else { of_postgres(&Postgres::parse(dsn)?).await }
}

const POSTGRES_WHAT: &str = "reading pg_settings";

async fn of_postgres(database: &Postgres) -> Result<Settings, OrdersError> {
    let failed = |source| OrdersError::Sql { what: POSTGRES_WHAT.to_owned(), source };
    let client = database.connect_any().await?;
    let query = "SELECT name::text, coalesce(setting, '')::text, unit::text, coalesce(pending_restart, false), \
                 coalesce(sourcefile || ':' || sourceline, CASE source WHEN 'command line' THEN source \
                 WHEN 'global' THEN 'ALTER ROLE ALL' \
                 WHEN 'database' THEN 'ALTER DATABASE ' || quote_ident(current_database()) \
                 WHEN 'user' THEN 'ALTER ROLE ' || quote_ident(session_user) WHEN 'database user' THEN \
                 'ALTER ROLE ' || quote_ident(session_user) || ' IN DATABASE ' || quote_ident(current_database()) END)::text, \
                 coalesce(enumvals, '{}')::text[] FROM pg_settings ORDER BY name";
    let rows = read(&client, query).await.map_err(failed)?;
    let mut settings = Vec::new();
    for row in rows.iter().take(SETTINGS_MAX) {
        settings.push(Setting {
            name: row.try_get(0).map_err(failed)?,
            value: row.try_get(1).map_err(failed)?,
            unit: row.try_get(2).map_err(failed)?,
            pending_restart: row.try_get(3).map_err(failed)?,
            source: row.try_get(4).map_err(failed)?,
            values: row.try_get(5).map_err(failed)?,
            set_for: None,
        });
    }
    settings.extend(of_databases_and_roles(&client).await);
    // Optional: engines of the same wire protocol may not have this function.
    let query = "SELECT extract(epoch FROM pg_postmaster_start_time())::bigint";
    let started_s = read(&client, query).await.ok().and_then(|rows| rows.first()?.try_get(0).ok());
    let (server, address) = (database.description(), database.address());
    let warning = database.warning().map(str::to_owned);
    Ok(Settings { engine: Engine::Postgres, server, address, started_s, settings, warning })
}

/// Runs one query in its own transaction, so that SET LOCAL ends with it: with a pooler, other programs use the same
/// session next. The statement timeout limits the wait.
async fn read(client: &Client, query: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    client.batch_execute(&format!("BEGIN READ ONLY; SET LOCAL statement_timeout = '{RESULTS_REPLY_S}s'")).await?;
    // No prepared statement: its name may already be in use in the same server session by another client of the pooler.
    let rows = client.query_typed(query, &[]).await;
    client.batch_execute(if rows.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    rows
}

/// Values that `ALTER DATABASE` and `ALTER ROLE` set for the settings on which data safety depends: a session of another database
/// or role does not see them. Other settings are not read: a setting of an extension may be a secret.
///
/// Empty if the catalogue does not exist: engines of the same wire protocol may not have it.
async fn of_databases_and_roles(client: &Client) -> Vec<Setting> {
    let query = "SELECT concat_ws(' in ', 'role ' || rolname, 'database ' || datname), \
                 split_part(one, '=', 1), substr(one, strpos(one, '=') + 1) \
                 FROM pg_db_role_setting CROSS JOIN unnest(setconfig) AS one \
                 LEFT JOIN pg_database d ON d.oid = setdatabase LEFT JOIN pg_roles r ON r.oid = setrole \
                 WHERE split_part(one, '=', 1) IN ('synchronous_commit', 'zero_damaged_pages', 'ignore_checksum_failure') \
                 ORDER BY 1, 2";
    let rows = read(client, query).await.unwrap_or_default();
    let setting = |row: &Row| {
        let place: String = row.try_get(0).ok()?;
        let set_for = Some(if place.is_empty() { "every role".to_owned() } else { place });
        let (name, value) = (row.try_get(1).ok()?, row.try_get(2).ok()?);
        Some(Setting { name, value, unit: None, pending_restart: false, source: None, values: Vec::new(), set_for })
    };
    rows.iter().take(SETTINGS_MAX).filter_map(setting).collect()
}

const MYSQL_WHAT: &str = "reading the server's variables";

async fn of_mysql(database: &MySql) -> Result<Settings, OrdersError> {
    let mut session = database.plain().await?;
    // The values come as bytes, because a value may be in another character set.
    let rows: Vec<(Vec<u8>, Option<Vec<u8>>)> = session.rows(MYSQL_WHAT, "SHOW GLOBAL VARIABLES").await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let settings = rows.into_iter().take(SETTINGS_MAX).map(|(name, value)| Setting {
        name: text(name).to_ascii_lowercase(),
        value: text(value.unwrap_or_default()),
        unit: None,
        pending_restart: false,
        source: None,
        values: Vec::new(),
        set_for: None,
    });
    let settings = settings.collect();
    session.end(MYSQL_WHAT).await?;
    let (server, address) = (database.description(), database.address());
    Ok(Settings { engine: Engine::MySql, server, address, started_s: None, settings, warning: None })
}
