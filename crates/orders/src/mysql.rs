//! MariaDB (10.6 and later) and MySQL (8.0 and later), on InnoDB.
//!
//! All tables are in the database `millrace_orders` of the server; a database name in the DSN
//! is ignored. Transactions run at READ COMMITTED with row locks, Order-Status on one
//! REPEATABLE READ snapshot. Written for and tested with MariaDB 10.11. The code avoids features that differ on
//! MySQL 8, but it has not been run there.

mod caught;
mod check_sql;
mod copy;
mod fault;
mod procedures;
pub(crate) mod schema;
mod statements;
mod terminal;
mod url;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::{FromRow, FromValue, Queryable};
use mysql_async::{Conn, Error, OptsBuilder, Row, SslOpts};

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::Checked;
use crate::database::{Config, Database, DiskSpace, Mode, SCHEMA, Schema, Unfinished};
use crate::disk_space;
use crate::error::OrdersError;
use crate::limits::CONNECT_S;
use crate::random::NuRandConstants;
use crate::unsafe_setting::unsafe_setting;

use caught::caught;
use url::{SslMode, Target};

pub use copy::MySqlCopier;
pub use fault::MySqlFault;
pub use terminal::MySqlTerminal;

/// A MariaDB or MySQL server by its URL.
#[derive(Debug, Clone)]
pub struct MySql {
    target: Target,
    mode: Mode,
    /// Whether TLS, which is preferred, has failed with this server.
    without_tls: Arc<AtomicBool>,
}

impl MySql {
    /// The server's address: the path of a Unix socket, or `HOST:PORT`.
    #[must_use]
    pub(crate) fn address(&self) -> String {
        let opts = &self.target.opts;
        let port = || format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port());
        opts.socket().map_or_else(port, std::borrow::ToOwned::to_owned)
    }

    /// Whether a DSN is a URL of this kind.
    #[must_use]
    pub fn is_dsn(dsn: &str) -> bool {
        dsn.starts_with("mysql://") || dsn.starts_with("mariadb://")
    }

    /// Parses `mysql://USER:PASSWORD@HOST:PORT/` with `?socket=PATH` for a Unix socket, `ssl-mode` and `ssl-ca` for TLS. Does not
    /// connect.
    ///
    /// # Errors
    /// [`OrdersError::MySqlDsn`] or [`OrdersError::MySqlUrl`] if the text is not such a URL; [`OrdersError::File`].
    pub fn parse(dsn: &str) -> Result<Self, OrdersError> {
        Ok(Self { target: url::parse(dsn)?, mode: Mode::default(), without_tls: Arc::default() })
    }

    /// The same server with terminals of this mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    async fn connect(&self) -> Result<Session, OrdersError> {
        let limit = Duration::from_secs(CONNECT_S);
        let connected = tokio::time::timeout(limit, self.open()).await;
        let connected =
            connected.map_err(|_| OrdersError::ConnectTimeout { server: self.description(), seconds: limit.as_secs() })?;
        let conn = connected.map_err(|source| OrdersError::MySqlConnect { server: self.description(), source })?;
        Ok(Session { conn })
    }

    /// Connects, with TLS if the URL requires it.
    async fn open(&self) -> Result<Conn, MySqlFault> {
        let Target { opts, mode } = &self.target;
        let preferred = *mode == SslMode::Preferred;
        if !(preferred && self.without_tls.load(Ordering::Relaxed)) {
            match open(opts.clone()).await {
                Err(error) if preferred && error.is_of_tls() => {
                    let plain = self.open_plain().await;
                    // The account may require TLS: then the error of the handshake is the one to fix.
                    return plain
                        .map_err(|refused| if refused.may_want_tls() && !error.is_unavailable() { error } else { refused });
                }
                outcome => return outcome,
            }
        }
        self.open_plain().await
    }

    async fn open_plain(&self) -> Result<Conn, MySqlFault> {
        let conn = open(OptsBuilder::from_opts(self.target.opts.clone()).ssl_opts(None::<SslOpts>).into()).await?;
        self.without_tls.store(true, Ordering::Relaxed);
        Ok(conn)
    }

    /// A connection that does not use the tables of the load.
    pub(crate) async fn plain(&self) -> Result<Session, OrdersError> {
        self.connect().await
    }

    /// A session in the database of the load. It must have a table `config`.
    async fn session(&self) -> Result<Session, OrdersError> {
        let mut session = self.connect().await?;
        let text =
            format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{SCHEMA}' AND table_name = 'config'");
        if session.number("looking for the database", &text).await? == 0 {
            return Err(OrdersError::MissingSchema { schema: Schema::MySql, server: self.description() });
        }
        session.execute("entering the database", &format!("USE {SCHEMA}")).await?;
        Ok(session)
    }

    /// A session whose database is completely loaded.
    async fn loaded_session(&self) -> Result<(Session, Config), OrdersError> {
        let mut session = self.session().await?;
        match session.stored_config().await? {
            (config, true) => Ok((session, config)),
            (_, false) => Err(OrdersError::HalfLoaded { schema: Schema::MySql, server: self.description() }),
        }
    }
}

async fn open(opts: mysql_async::Opts) -> Result<Conn, MySqlFault> {
    let connected = match log_in(opts.clone()).await {
        // mysql_common 0.35 removes a zero at the end of the nonce for ed25519, so the server refuses one right password in 256.
        Err(Error::Server(refused)) if refused.code == ACCESS_DENIED => log_in(opts).await,
        outcome => outcome,
    };
    connected.map_err(MySqlFault)
}

async fn log_in(opts: mysql_async::Opts) -> Result<Conn, Error> {
    caught(async {
        let mut conn = Conn::new(opts).await?;
        conn.query_drop(statements::SESSION_SETTINGS).await?;
        Ok(conn)
    })
    .await
}

/// ER_ACCESS_DENIED_ERROR.
const ACCESS_DENIED: u16 = 1045;

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    conn: Conn,
}

impl Session {
    async fn execute(&mut self, what: &str, text: &str) -> Result<(), OrdersError> {
        caught(self.conn.query_drop(text)).await.map_err(sql(what))
    }

    /// The rows of a query.
    pub(crate) async fn rows<T: FromRow + Send + 'static>(&mut self, what: &str, text: &str) -> Result<Vec<T>, OrdersError> {
        caught(self.conn.query(text)).await.map_err(sql(what))
    }

    /// Ends the connection.
    pub(crate) async fn end(self, what: &str) -> Result<(), OrdersError> {
        caught(self.conn.disconnect()).await.map_err(sql(what))
    }

    /// The single number that a query returns.
    async fn number(&mut self, what: &'static str, text: &str) -> Result<i64, OrdersError> {
        let rows: Vec<Row> = self.rows(what, text).await?;
        rows.first().map_or_else(|| Err(OrdersError::Answer { what, detail: "no row".to_owned() }), |row| value(what, row, 0))
    }

    /// The configuration that the load stored, and whether the load is complete.
    async fn stored_config(&mut self) -> Result<(Config, bool), OrdersError> {
        const WHAT: &str = "reading table config";
        let text = "SELECT version, loaded, warehouses, load_seed, c_last_load, c_last_run, c_id, ol_i_id FROM config";
        let rows: Vec<Row> = self.rows(WHAT, text).await?;
        let [row] = rows.as_slice() else {
            return Err(OrdersError::Answer { what: WHAT, detail: format!("{} rows instead of 1", rows.len()) });
        };
        let found: i32 = value(WHAT, row, 0)?;
        let constants = NuRandConstants {
            last_load: value(WHAT, row, 4)?,
            last_run: value(WHAT, row, 5)?,
            customer: value(WHAT, row, 6)?,
            item: value(WHAT, row, 7)?,
        };
        let config = Config { warehouses: value(WHAT, row, 2)?, seed: value(WHAT, row, 3)?, constants };
        config.is_of(found, Schema::MySql)?;
        Ok((config, value::<i32>(WHAT, row, 1)? != 0))
    }
}

/// Wraps an error of the statement that does `what`.
fn sql(what: &str) -> impl FnOnce(Error) -> OrdersError {
    move |source| OrdersError::MySql { what: what.to_owned(), source: MySqlFault(source) }
}

/// A column of a row.
fn value<T: FromValue>(what: &'static str, row: &Row, column: usize) -> Result<T, OrdersError> {
    match row.get_opt::<T, usize>(column) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(OrdersError::Answer { what, detail: format!("column {column} is not what it should be") }),
        None => Err(OrdersError::Answer { what, detail: format!("column {column} is missing") }),
    }
}

impl Database for MySql {
    type Terminal = MySqlTerminal;
    type Copier = MySqlCopier;

    fn description(&self) -> String {
        let place = self.address();
        format!("the MariaDB or MySQL server at {place} as {}", self.target.opts.user().unwrap_or("the default user"))
    }

    fn schema(&self) -> Schema {
        Schema::MySql
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn isolation(&self) -> &'static str {
        "read committed, row locks; Order-Status repeatable read"
    }

    async fn prepare(&self) -> Result<(), OrdersError> {
        if self.mode == Mode::Statements {
            return Ok(());
        }
        const WHAT: &str = "making the stored procedures";
        let mut session = self.loaded_session().await?.0;
        // One driver at a time: a transaction would fail if another driver dropped its procedure.
        session.execute(WHAT, &format!("DO GET_LOCK('{SCHEMA}', 60)")).await?;
        let names: Vec<String> = procedures::names().iter().map(|name| format!("'{name}'")).collect();
        let text = format!(
            "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = '{SCHEMA}' AND routine_name IN ({})",
            names.join(", ")
        );
        let present = session.number(WHAT, &text).await?;
        if usize::try_from(present) != Ok(names.len()) {
            for text in procedures::drop_all().into_iter().chain(procedures::create()) {
                session.execute(WHAT, &text).await?;
            }
        }
        session.execute(WHAT, &format!("DO RELEASE_LOCK('{SCHEMA}')")).await
    }

    async fn version(&self) -> Result<String, OrdersError> {
        const WHAT: &str = "reading the version";
        let rows: Vec<Row> = self.connect().await?.rows(WHAT, "SELECT VERSION()").await?;
        let version: String = rows.first().map_or_else(|| Ok(String::new()), |row| value(WHAT, row, 0))?;
        Ok(if version.contains("MariaDB") { format!("MariaDB {version}") } else { format!("MySQL {version}") })
    }

    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError> {
        const WHAT: &str = "reading the server's variables";
        let text = "SHOW GLOBAL VARIABLES WHERE (Variable_name = 'innodb_flush_log_at_trx_commit' AND Value <> '1')
                    OR (Variable_name = 'innodb_doublewrite' AND Value IN ('OFF', '0', 'DETECT_ONLY'))
                    OR (Variable_name = 'innodb_flush_method' AND LOWER(Value) IN ('nosync', 'littlesync'))";
        let rows: Vec<Row> = self.connect().await?.rows(WHAT, text).await?;
        let text = |row: &Row, column| value::<String>(WHAT, row, column);
        rows.iter().map(|row| Ok(unsafe_setting(&text(row, 0)?, &text(row, 1)?))).collect()
    }

    async fn config(&self) -> Result<Config, OrdersError> {
        Ok(self.loaded_session().await?.1)
    }

    async fn terminal(&self) -> Result<MySqlTerminal, OrdersError> {
        let mut session = self.connect().await?;
        session.execute("entering the database", &format!("USE {SCHEMA}")).await?;
        Ok(MySqlTerminal::new(session.conn, self.mode))
    }

    async fn create(&self, config: &Config) -> Result<(), OrdersError> {
        copy::create(self, config).await
    }

    async fn unfinished(&self) -> Result<Unfinished, OrdersError> {
        copy::unfinished(self).await
    }

    fn warehouse_bytes(&self) -> u64 {
        125 << 20
    }

    async fn disk_space(&self) -> Result<Option<DiskSpace>, OrdersError> {
        const WHAT: &str = "looking for the data directory";
        let opts = &self.target.opts;
        if opts.socket().is_none() && !disk_space::is_loopback(opts.ip_or_hostname()) {
            return Ok(None);
        }
        let rows: Vec<Row> = self.connect().await?.rows(WHAT, "SELECT @@datadir").await?;
        let directory: Option<String> = rows.first().map(|row| value(WHAT, row, 0)).transpose()?;
        Ok(directory.and_then(|directory| disk_space::of_directory(&directory)))
    }

    async fn copier(&self) -> Result<MySqlCopier, OrdersError> {
        let mut session = self.session().await?;
        let (config, _) = session.stored_config().await?;
        MySqlCopier::open(session, config).await
    }

    fn finishing_steps(&self) -> Vec<Vec<&'static str>> {
        schema::finishing_steps()
    }

    async fn complete(&self) -> Result<u64, OrdersError> {
        const WHAT: &str = "completing the load";
        let mut session = self.session().await?;
        session.execute(WHAT, "UPDATE config SET loaded = 1").await?;
        let text = format!(
            "SELECT CAST(SUM(data_length + index_length) AS SIGNED) FROM information_schema.tables
              WHERE table_schema = '{SCHEMA}'"
        );
        Ok(session.number(WHAT, &text).await?.cast_unsigned())
    }

    async fn drop_all(&self) -> Result<(), OrdersError> {
        const WHAT: &str = "dropping what was made";
        let mut session = self.session().await?;
        if session.number(WHAT, "SELECT made_schema FROM config").await? != 0 {
            return session.execute(WHAT, &format!("DROP DATABASE {SCHEMA}")).await;
        }
        for text in procedures::drop_all() {
            session.execute(WHAT, &text).await?;
        }
        session.execute(WHAT, &schema::drop_tables()).await
    }

    async fn check(&self) -> Result<Checked, OrdersError> {
        check_sql::check(&mut self.loaded_session().await?.0).await
    }

    async fn missing(&self, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
        check_sql::missing(&mut self.loaded_session().await?.0, orders).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsn_names_a_socket_or_an_address_and_keeps_it() {
        let socket = MySql::parse("mysql://root@localhost/?socket=/run/x.sock").unwrap();
        assert_eq!(socket.description(), "the MariaDB or MySQL server at /run/x.sock as root");
        let tcp = MySql::parse("mariadb://clerk:secret@db1:3307/mill").unwrap();
        assert_eq!(tcp.description(), "the MariaDB or MySQL server at db1:3307 as clerk");
        assert!(!tcp.target.opts.prefer_socket());
        assert!(MySql::parse("mysql//no").is_err());
        assert!(!MySql::is_dsn("postgresql:///mill"));
    }
}
