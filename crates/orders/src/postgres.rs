//! PostgreSQL 15 to 18 and engines that speak its wire protocol.
//!
//! [`dialect`] contains the differences between the engines. On PostgreSQL, transactions run at READ
//! COMMITTED. Each is one statement that reads and changes under one snapshot with row locks, or a
//! short block around such a statement. Rows are locked in a fixed order (stock and customers, then
//! districts, then warehouses), so the transactions of this load cannot deadlock each other.

mod answers;
mod arrays;
mod check_sql;
mod connect;
mod conninfo;
mod copy;
mod ddl;
mod dialect;
mod errors;
mod functions;
mod hints;
mod lines;
mod nodes;
mod pooler;
mod schema;
mod socket;
mod statements;
mod terminal;
mod tls;

use std::sync::{Arc, OnceLock};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::Checked;
use crate::database::{Config, Database, DiskSpace, Isolation, Mode, SCHEMA, Schema, Unfinished};
use crate::disk_space;
use crate::error::OrdersError;
use crate::random::NuRandConstants;
use crate::unsafe_setting::unsafe_setting;

use conninfo::{Endpoint, Environment, Server};
use dialect::Dialect;
use pooler::Sessions;

pub(crate) use conninfo::decoded;
pub(crate) use hints::{connect_hint, statement_hint};

pub use conninfo::{ConnectionOptions, ConninfoError};
pub use copy::PostgresCopier;
pub use terminal::PostgresTerminal;

/// A PostgreSQL database by its connection string.
#[derive(Debug, Clone)]
pub struct Postgres {
    server: Server,
    mode: Mode,
    /// Further servers that the load distributes warehouses to.
    nodes: Vec<Server>,
    /// The requested level; `None` for the engine's default.
    isolation: Option<Isolation>,
    /// The engine, known after the first session.
    dialect: Arc<OnceLock<&'static Dialect>>,
    /// Whether a pooler is between this client and the server, known after the first session; never [`Sessions::Shared`].
    sessions: Arc<OnceLock<Sessions>>,
}

impl Postgres {
    /// Parses a connection string and adds the defaults of the environment. Does not connect.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn parse(dsn: &str) -> Result<Self, OrdersError> {
        Self::open(&ConnectionOptions::of(dsn))
    }

    /// Resolves the connection from these options, a service file, the environment, the password file and libpq's defaults.
    /// Does not connect.
    ///
    /// # Errors
    /// [`OrdersError::Conninfo`] if a text cannot be parsed or a file cannot be used.
    pub fn open(options: &ConnectionOptions) -> Result<Self, OrdersError> {
        let server = conninfo::resolve(options, &Environment(&|name| std::env::var(name).ok()))?;
        let (dialect, sessions) = (Arc::default(), Arc::default());
        Ok(Self { server, mode: Mode::default(), nodes: Vec::new(), isolation: None, dialect, sessions })
    }

    /// Why the password file is ignored; `None` if it is not.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.server.warning.as_deref()
    }

    /// The server's address: `HOST:PORT`, or the directory of a Unix socket; several are separated by commas.
    #[must_use]
    pub(crate) fn address(&self) -> String {
        self.server.address()
    }

    /// The same database with terminals of this mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The same database with terminals at this isolation level.
    #[must_use]
    pub fn with_isolation(self, isolation: Isolation) -> Self {
        Self { isolation: Some(isolation), ..self }
    }

    /// The same database, using only features that every engine of this wire protocol has: for an engine that reports itself
    /// as PostgreSQL but is a different one.
    #[must_use]
    pub fn portable(self) -> Self {
        Self { dialect: Arc::new(OnceLock::from(&dialect::PORTABLE)), ..self }
    }

    /// The same database with a share of the warehouses on each of these servers too. Only a load
    /// needs the list: it stores the servers in the database, which connects to them by itself afterwards.
    ///
    /// # Errors
    /// [`OrdersError::Conninfo`], as [`Self::open`].
    pub fn with_nodes(mut self, dsns: &[String]) -> Result<Self, OrdersError> {
        for dsn in dsns {
            self.nodes.push(Self::parse(dsn)?.server);
        }
        Ok(self)
    }

    fn node(&self, server: &Server) -> Self {
        let (dialect, sessions) = (Arc::default(), Arc::default());
        Self { server: server.clone(), nodes: Vec::new(), dialect, sessions, ..self.clone() }
    }

    async fn node_sessions(&self) -> Result<Vec<Session>, OrdersError> {
        let mut sessions = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            sessions.push(self.node(node).session().await?);
        }
        Ok(sessions)
    }

    /// Connects and changes no setting. With a pooler, the server session may change after each transaction. A task of the current
    /// runtime drives the socket.
    ///
    /// # Errors
    /// [`OrdersError::Connect`], [`OrdersError::ConnectTimeout`].
    pub(crate) async fn connect_any(&self) -> Result<Client, OrdersError> {
        self.within(async { connect::connect(&self.server).await.map_err(|source| self.connect_error(source)) }).await
    }

    /// Connects to a server session that this client keeps until the connection ends, and changes no setting.
    ///
    /// # Errors
    /// As [`Self::connect_any`]; [`OrdersError::SharedSessions`] for a pooler that shares its server sessions.
    pub async fn connect(&self) -> Result<Client, OrdersError> {
        let client = self.connect_any().await?;
        if self.sessions.get().is_none() {
            let found = pooler::sessions(&client, self.connect_any());
            match self.within(async { found.await.map_err(|source| self.connect_error(source)) }).await? {
                Sessions::Shared => return Err(OrdersError::SharedSessions { server: self.description() }),
                found => {
                    let _ = self.sessions.set(found);
                }
            }
        }
        Ok(client)
    }

    fn connect_error(&self, source: tokio_postgres::Error) -> OrdersError {
        OrdersError::Connect { server: self.description(), source }
    }

    /// Limits the time of one step of opening a session. connect_timeout covers only the socket: a server that hangs may still not
    /// answer, and a pooler without a free server session delays the first statement.
    async fn within<T>(&self, step: impl Future<Output = Result<T, OrdersError>>) -> Result<T, OrdersError> {
        let limit = 2 * self.server.connect_limit();
        // Boxed: these futures are large, and the load's threads hold them within others.
        tokio::time::timeout(limit, Box::pin(step)).await.unwrap_or_else(|_| {
            let (server, seconds) = (self.description(), limit.as_secs());
            Err(match self.sessions.get() {
                Some(Sessions::Held) => OrdersError::PoolerFull { server, seconds },
                _ => OrdersError::ConnectTimeout { server, seconds },
            })
        })
    }

    /// Opens a session for the tables of the load.
    async fn session(&self) -> Result<Session, OrdersError> {
        let client = self.connect().await?;
        self.within(self.set_up(client)).await
    }

    async fn set_up(&self, client: Client) -> Result<Session, OrdersError> {
        let dialect = match self.dialect.get() {
            Some(dialect) => dialect,
            None => {
                let version = version(&client).await.map_err(|source| self.connect_error(source))?;
                self.dialect.get_or_init(|| Dialect::of(&version))
            }
        };
        let settings = dialect.session_settings;
        let setup = format!("{settings} SET search_path = {SCHEMA}; SET client_min_messages = warning");
        client.batch_execute(&setup).await.map_err(|source| self.connect_error(source))?;
        Ok(Session { client, dialect })
    }

    /// A session whose schema exists and is completely loaded.
    async fn loaded_session(&self) -> Result<(Session, Config), OrdersError> {
        let session = self.session().await?;
        let config = self.loaded_config(&session).await?;
        Ok((session, config))
    }

    /// The configuration of a schema that exists and is completely loaded.
    async fn loaded_config(&self, session: &Session) -> Result<Config, OrdersError> {
        let present = session
            .client
            .query_one("SELECT to_regclass($1) IS NOT NULL", &[&format!("{SCHEMA}.config")])
            .await
            .map_err(sql("looking for the schema"))?;
        if !present.try_get::<_, bool>(0).map_err(sql("looking for the schema"))? {
            return Err(OrdersError::MissingSchema { schema: Schema::Postgres, server: self.description() });
        }
        self.stored_config(session).await
    }

    /// The engine; PostgreSQL until a session has reported it.
    fn dialect(&self) -> &'static Dialect {
        self.dialect.get().copied().unwrap_or(&dialect::POSTGRESQL)
    }

    fn isolation_level(&self) -> Isolation {
        self.isolation.unwrap_or_else(|| self.dialect().isolation)
    }

    /// Whether the server is on this host, judging by its address.
    fn is_here(&self) -> bool {
        let is_here = |one: &Endpoint| match one.address {
            Some(address) => address.is_loopback(),
            None => one.is_socket() || disk_space::is_loopback(&one.host),
        };
        self.server.endpoints.iter().all(is_here)
    }

    async fn stored_config(&self, session: &Session) -> Result<Config, OrdersError> {
        const WHAT: &str = "reading table config";
        let text = "SELECT version, loaded, warehouses, load_seed, \
                    c_last_load, c_last_run, c_id, ol_i_id FROM config";
        let rows = session.client.query(text, &[]).await.map_err(sql(WHAT))?;
        let [row] = rows.as_slice() else {
            let detail = format!("{} rows instead of 1", rows.len());
            return Err(OrdersError::Answer { what: WHAT, detail });
        };
        let found: i32 = row.try_get(0).map_err(sql(WHAT))?;
        if !row.try_get::<_, bool>(1).map_err(sql(WHAT))? {
            return Err(OrdersError::HalfLoaded { schema: Schema::Postgres, server: self.description() });
        }
        let number = |column: usize| -> Result<u32, OrdersError> {
            let value: i32 = row.try_get(column).map_err(sql(WHAT))?;
            u32::try_from(value).map_err(|_| OrdersError::Answer { what: WHAT, detail: format!("column {column} is {value}") })
        };
        let constants = NuRandConstants { last_load: number(4)?, last_run: number(5)?, customer: number(6)?, item: number(7)? };
        let seed: i64 = row.try_get(3).map_err(sql(WHAT))?;
        let config = Config { warehouses: number(2)?, seed: seed.cast_unsigned(), constants };
        config.is_of(found, Schema::Postgres)?;
        Ok(config)
    }
}

/// The server's version string.
async fn version(client: &Client) -> Result<String, tokio_postgres::Error> {
    client.query_one("SELECT version()", &[]).await?.try_get(0)
}

/// A connection. A task drives its socket.
#[derive(Debug)]
struct Session {
    client: Client,
    dialect: &'static Dialect,
}

impl Session {
    /// Returns an error if the engine does not have a feature.
    fn needs(&self, has: bool, what: &'static str, instead: &'static str) -> Result<(), OrdersError> {
        let engine = self.dialect.engine;
        if has { Ok(()) } else { Err(OrdersError::NotOfEngine { engine, what, instead }) }
    }

    /// Prepares a statement with these types for its first parameters, because engines infer types differently.
    async fn prepare(&self, what: &str, text: &str, types: &[Type]) -> Result<Statement, OrdersError> {
        self.client.prepare_typed(text, types).await.map_err(sql(&format!("preparing {what}")))
    }

    async fn execute(&self, what: &str, text: &str) -> Result<(), OrdersError> {
        self.client.batch_execute(text).await.map_err(sql(what))
    }
}

/// Wraps an error of the statement that does `what`.
fn sql(what: &str) -> impl FnOnce(tokio_postgres::Error) -> OrdersError {
    move |source| OrdersError::Sql { what: what.to_owned(), source }
}

impl Database for Postgres {
    type Terminal = PostgresTerminal;
    type Copier = PostgresCopier;

    fn description(&self) -> String {
        format!("database {} at {} as {}", self.server.database(), self.address(), self.server.user())
    }

    fn schema(&self) -> Schema {
        Schema::Postgres
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    async fn prepare(&self) -> Result<(), OrdersError> {
        match self.mode {
            Mode::Statements => Ok(()),
            Mode::Functions => {
                let session = self.loaded_session().await?.0;
                session.needs(session.dialect.functions, "stored functions of this program", "run with --mode statements")?;
                functions::ensure(&session).await
            }
        }
    }

    fn isolation(&self) -> &'static str {
        match self.isolation_level() {
            Isolation::ReadCommitted => "read committed, row locks",
            Isolation::RepeatableRead => "repeatable read, conflicts retried",
            Isolation::Serializable => "serializable, conflicts retried",
        }
    }

    async fn version(&self) -> Result<String, OrdersError> {
        const WHAT: &str = "reading server_version";
        let session = self.session().await?;
        if !session.dialect.single_server {
            let version = version(&session.client).await.map_err(sql(WHAT))?;
            return Ok(Dialect::short(&version).to_owned());
        }
        let row = session
            .client
            .query_one(
                "SELECT 'PostgreSQL ' || current_setting('server_version'),
                        (SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass($1))",
                &[&format!("{SCHEMA}.stock")],
            )
            .await
            .map_err(sql(WHAT))?;
        let version: String = row.try_get(0).map_err(sql(WHAT))?;
        let servers: i64 = row.try_get(1).map_err(sql(WHAT))?;
        Ok(if servers > 1 { format!("{version}, partitioned over {servers} servers") } else { version })
    }

    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError> {
        const WHAT: &str = "reading pg_settings";
        let text = "SELECT name::text, setting::text FROM pg_settings WHERE setting = 'off' \
                    AND name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY name";
        let session = self.session().await?;
        if !session.dialect.single_server {
            return Ok(Vec::new());
        }
        let rows = session.client.query(text, &[]).await.map_err(sql(WHAT))?;
        let text = |row: &Row, column| row.try_get::<_, String>(column).map_err(sql(WHAT));
        rows.iter().map(|row| Ok(unsafe_setting(&text(row, 0)?, &text(row, 1)?))).collect()
    }

    async fn config(&self) -> Result<Config, OrdersError> {
        Ok(self.loaded_session().await?.1)
    }

    async fn terminal(&self) -> Result<PostgresTerminal, OrdersError> {
        let session = self.session().await?;
        PostgresTerminal::open(session, self.mode, self.isolation_level()).await
    }

    async fn create(&self, config: &Config) -> Result<(), OrdersError> {
        let session = self.session().await?;
        if !self.nodes.is_empty() {
            session.needs(
                session.dialect.single_server,
                "shares on further servers",
                "it spreads its tables itself: leave --node out",
            )?;
        }
        for node in &self.nodes {
            let node = self.node(node);
            schema::create(&node, &node.session().await?, config).await?;
        }
        schema::create(self, &session, config).await
    }

    async fn unfinished(&self) -> Result<Unfinished, OrdersError> {
        let session = self.session().await?;
        match self.loaded_config(&session).await {
            Err(OrdersError::HalfLoaded { .. }) => {
                let mut unfinished = schema::unfinished(&session).await?;
                let steps = unfinished.steps.clone();
                for node in self.node_sessions().await? {
                    schema::note_parts(&node, &mut unfinished).await?;
                }
                // A step is done once the coordinator, which runs it last, has noted it.
                unfinished.steps = steps;
                Ok(unfinished)
            }
            Err(error) => Err(error),
            Ok(Config { warehouses, .. }) => {
                Err(OrdersError::LoadedAlready { schema: Schema::Postgres, server: self.description(), warehouses })
            }
        }
    }

    fn warehouse_bytes(&self) -> u64 {
        106 << 20
    }

    async fn disk_space(&self) -> Result<Option<DiskSpace>, OrdersError> {
        const WHAT: &str = "looking for the data directory";
        if !self.is_here() {
            return Ok(None);
        }
        // The row is hidden from users who may not read all settings.
        let text = "SELECT setting FROM pg_settings WHERE name = 'data_directory'";
        let session = self.session().await?;
        if !session.dialect.single_server {
            return Ok(None);
        }
        let rows = session.client.query(text, &[]).await.map_err(sql(WHAT))?;
        let directory = rows.first().map(|row| row.try_get::<_, String>(0).map_err(sql(WHAT))).transpose()?;
        Ok(directory.and_then(|directory| disk_space::of_directory(&directory)))
    }

    async fn copier(&self) -> Result<PostgresCopier, OrdersError> {
        let (session, config) = {
            let session = self.session().await?;
            let config = schema::config_while_loading(&session).await?;
            (session, config)
        };
        Ok(PostgresCopier::new(session, self.node_sessions().await?, config))
    }

    fn finishing_steps(&self) -> Vec<Vec<&'static str>> {
        schema::finishing_steps()
    }

    async fn complete(&self) -> Result<u64, OrdersError> {
        // The nodes stay marked as half loaded: a node alone is not a complete database.
        let mut bytes = schema::complete(&self.session().await?).await?;
        for node in self.node_sessions().await? {
            bytes += schema::bytes(&node).await?;
        }
        Ok(bytes)
    }

    async fn drop_all(&self) -> Result<(), OrdersError> {
        schema::drop_all(&self.session().await?).await?;
        for node in self.node_sessions().await? {
            schema::drop_all(&node).await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<Checked, OrdersError> {
        check_sql::check(&self.loaded_session().await?.0).await
    }

    async fn missing(&self, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
        check_sql::missing(&self.loaded_session().await?.0, orders).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsn_without_a_user_is_described_with_the_name_of_this_user() {
        let here = whoami::username().unwrap();
        let described = |dsn: &str| Postgres::parse(dsn).unwrap().description();
        assert_eq!(described("host=db1"), format!("database {here} at db1:5432 as {here}"));
        assert_eq!(described("postgresql://clerk@db1/shop"), "database shop at db1:5432 as clerk");
    }
}
