//! MariaDB (10.6 and later) and MySQL (8.0 and later), on InnoDB.
//!
//! Everything is in the database `millrace_orders` of the server; what the DSN names after the
//! host is not used. Transactions run at READ COMMITTED with row locks, Order-Status on one
//! REPEATABLE READ snapshot. Written and tested against MariaDB 10.11; what differs on MySQL 8 is
//! avoided, but it has not been run there.

mod check_sql;
mod copy;
mod procedures;
pub(crate) mod schema;
mod statements;
mod terminal;

use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Error, Opts, OptsBuilder, Row};

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::Checked;
use crate::database::{Config, Database, DiskSpace, Mode, SCHEMA, Unfinished};
use crate::disk_space;
use crate::error::OrdersError;
use crate::limits::CONNECT_S;
use crate::random::NuRandConstants;
use crate::unsafe_setting::unsafe_setting;

pub use copy::MySqlCopier;
pub use terminal::MySqlTerminal;

/// A MariaDB or MySQL server by its URL.
#[derive(Debug, Clone)]
pub struct MySql {
    opts: Opts,
    mode: Mode,
}

impl MySql {
    /// Where the server is reached: a socket's path, or `HOST:PORT`.
    #[must_use]
    pub(crate) fn address(&self) -> String {
        let port = || format!("{}:{}", self.opts.ip_or_hostname(), self.opts.tcp_port());
        self.opts.socket().map_or_else(port, std::borrow::ToOwned::to_owned)
    }

    /// Whether a DSN is one of these.
    #[must_use]
    pub fn is_dsn(dsn: &str) -> bool {
        dsn.starts_with("mysql://") || dsn.starts_with("mariadb://")
    }

    /// Reads `mysql://USER:PASSWORD@HOST:PORT/` with `?socket=PATH` for a Unix socket; nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`OrdersError::MySqlDsn`] when the text is no such URL.
    pub fn parse(dsn: &str) -> Result<Self, OrdersError> {
        let url = dsn.replacen("mariadb://", "mysql://", 1);
        let opts = Opts::from_url(&url).map_err(OrdersError::MySqlDsn)?;
        // A TCP address stays one: the path to the server is part of what is measured.
        let prefer_socket = opts.socket().is_some();
        let opts = OptsBuilder::from_opts(opts).db_name(None::<String>).prefer_socket(prefer_socket).into();
        Ok(Self { opts, mode: Mode::default() })
    }

    /// The same server with terminals of this mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    async fn connect(&self) -> Result<Session, OrdersError> {
        let connect_error = |source| OrdersError::MySqlConnect { server: self.description(), source };
        let limit = Duration::from_secs(CONNECT_S);
        let connected = tokio::time::timeout(limit, Conn::new(self.opts.clone())).await;
        let connected =
            connected.map_err(|_| OrdersError::ConnectTimeout { server: self.description(), seconds: limit.as_secs() })?;
        let mut conn = connected.map_err(connect_error)?;
        conn.query_drop(statements::SESSION_SETTINGS).await.map_err(connect_error)?;
        Ok(Session { conn })
    }

    /// A connection that knows nothing of the load.
    pub(crate) async fn plain(&self) -> Result<Conn, OrdersError> {
        Ok(self.connect().await?.conn)
    }

    /// A session in the database of the load, if that has a table `config`.
    async fn session(&self) -> Result<Session, OrdersError> {
        let mut session = self.connect().await?;
        let text =
            format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{SCHEMA}' AND table_name = 'config'");
        if session.number("looking for the database", &text).await? == 0 {
            return Err(OrdersError::MissingSchema { schema: SCHEMA, server: self.description() });
        }
        session.execute("entering the database", &format!("USE {SCHEMA}")).await?;
        Ok(session)
    }

    /// A session whose database is known to be fully loaded.
    async fn loaded_session(&self) -> Result<(Session, Config), OrdersError> {
        let mut session = self.session().await?;
        match session.stored_config().await? {
            (config, true) => Ok((session, config)),
            (_, false) => Err(OrdersError::HalfLoaded { schema: SCHEMA, server: self.description() }),
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Session {
    conn: Conn,
}

impl Session {
    async fn execute(&mut self, what: &str, text: &str) -> Result<(), OrdersError> {
        self.conn.query_drop(text).await.map_err(sql(what))
    }

    async fn rows(&mut self, what: &str, text: &str) -> Result<Vec<Row>, OrdersError> {
        self.conn.query(text).await.map_err(sql(what))
    }

    /// The one number a query answers with.
    async fn number(&mut self, what: &'static str, text: &str) -> Result<i64, OrdersError> {
        let rows = self.rows(what, text).await?;
        rows.first().map_or_else(|| Err(OrdersError::Answer { what, detail: "no row".to_owned() }), |row| value(what, row, 0))
    }

    /// What the load wrote of itself, and whether it is complete.
    async fn stored_config(&mut self) -> Result<(Config, bool), OrdersError> {
        const WHAT: &str = "reading table config";
        let text = "SELECT version, loaded, warehouses, load_seed, c_last_load, c_last_run, c_id, ol_i_id FROM config";
        let rows = self.rows(WHAT, text).await?;
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
        config.is_of(found)?;
        Ok((config, value::<i32>(WHAT, row, 1)? != 0))
    }
}

/// Wraps an error of the statement that does `what`.
fn sql(what: &str) -> impl FnOnce(Error) -> OrdersError {
    move |source| OrdersError::MySql { what: what.to_owned(), source }
}

/// A column of an answer.
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
        format!("the MariaDB or MySQL server at {place} as {}", self.opts.user().unwrap_or("the default user"))
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
        // One driver at a time: a procedure that another one dropped would fail a transaction.
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
        let rows = self.connect().await?.rows(WHAT, "SELECT VERSION()").await?;
        let version: String = rows.first().map_or_else(|| Ok(String::new()), |row| value(WHAT, row, 0))?;
        Ok(if version.contains("MariaDB") { format!("MariaDB {version}") } else { format!("MySQL {version}") })
    }

    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError> {
        const WHAT: &str = "reading the server's variables";
        let text = "SHOW GLOBAL VARIABLES WHERE (Variable_name = 'innodb_flush_log_at_trx_commit' AND Value <> '1')
                    OR (Variable_name = 'innodb_doublewrite' AND Value IN ('OFF', '0', 'DETECT_ONLY'))
                    OR (Variable_name = 'innodb_flush_method' AND LOWER(Value) IN ('nosync', 'littlesync'))";
        let rows = self.connect().await?.rows(WHAT, text).await?;
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
        if self.opts.socket().is_none() && !disk_space::is_loopback(self.opts.ip_or_hostname()) {
            return Ok(None);
        }
        let rows = self.connect().await?.rows(WHAT, "SELECT @@datadir").await?;
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
        assert!(!tcp.opts.prefer_socket());
        assert!(MySql::parse("mysql//no").is_err());
        assert!(!MySql::is_dsn("postgresql:///mill"));
    }
}
