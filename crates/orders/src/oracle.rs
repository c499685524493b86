//! Oracle: **compiled and unit-tested, not run against a server**.
//!
//! An optional feature of the build. ODPI-C loads the vendor's client library at run time.
//! All tables are in the schema of the user `millrace_orders`, which the DSN must name.
//! Transactions are PL/SQL blocks at READ COMMITTED with row locks; Order-Status reads one
//! snapshot. Tables, keys, most statements and the checks use the same text as MariaDB and MySQL.

mod schema;
mod session;
mod statements;
mod terminal;

use std::collections::HashSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use oracle::{Connection, Error};

use crate::ack_log::AcknowledgedOrder;
use crate::common_sql;
use crate::conditions::{CONDITIONS, CheckOutcome, Checked};
use crate::database::{Config, Copier, Database, DiskSpace, Mode, SCHEMA, STEP_PART, Schema, Unfinished};
use crate::error::OrdersError;
use crate::limits::ACK_IN_LIST_ROWS;
use crate::mysql::schema as mysql_schema;
use crate::random::NuRandConstants;
use crate::rows::RowSource;
use crate::tables::Unit;

use session::{Login, Session, sql};
pub use terminal::OracleTerminal;

/// Error code for an existing index: the step was done before the load was interrupted.
const NAME_IN_USE: i32 = 955;
/// Error code for a missing table.
const NO_TABLE: i32 = 942;
/// Collects the optimizer's statistics of the tables.
const STATISTICS: &str = "BEGIN DBMS_STATS.GATHER_SCHEMA_STATS(USER); END;";

/// An Oracle database by its URL.
#[derive(Clone)]
pub struct Oracle {
    login: Login,
    mode: Mode,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.server())
    }
}

impl Oracle {
    /// Whether a DSN is a URL of this kind.
    #[must_use]
    pub fn is_dsn(dsn: &str) -> bool {
        dsn.starts_with("oracle://")
    }

    /// Parses `oracle://USER:PASSWORD@HOST:PORT/SERVICE`; the password is not encoded. Does not connect.
    ///
    /// # Errors
    /// [`OrdersError::OracleDsn`] if the text is not such a URL, or its user is not `millrace_orders`.
    pub fn parse(dsn: &str) -> Result<Self, OrdersError> {
        let parts = dsn.strip_prefix("oracle://").and_then(|rest| rest.rsplit_once('@'));
        let parsed = parts.and_then(|(who, place)| Some((who.split_once(':')?, place)));
        match parsed {
            Some(((user, password), place)) if place.contains('/') && user.eq_ignore_ascii_case(SCHEMA) => Ok(Self {
                login: Login { user: user.to_owned(), password: password.to_owned(), address: format!("//{place}") },
                mode: Mode::default(),
            }),
            _ => Err(OrdersError::OracleDsn),
        }
    }

    /// The same database with terminals of this mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Description of the database, without the password.
    fn server(&self) -> String {
        self.login.server()
    }

    /// A session of a schema with a table `config`, its configuration, and whether the load is complete.
    async fn stored(&self) -> Result<(Session, Config, bool), OrdersError> {
        const WHAT: &str = "reading table config";
        const TEXT: &str = "SELECT version, loaded, warehouses, load_seed, c_last_load, c_last_run, c_id, ol_i_id FROM config";
        let session = Session::open(&self.login).await?;
        let read = |connection: &Connection| connection.query_row_as::<(i32, u8, u32, u64, u32, u32, u32, u32)>(TEXT, &[]);
        let (version, loaded, warehouses, seed, last_load, last_run, customer, item) = match session.ask(read).await {
            Err(error) if error.oci_code() == Some(NO_TABLE) => {
                return Err(OrdersError::MissingSchema { schema: Schema::Oracle, server: self.server() });
            }
            outcome => outcome.map_err(sql(WHAT))?,
        };
        let config = Config { warehouses, seed, constants: NuRandConstants { last_load, last_run, customer, item } };
        config.is_of(version, Schema::Oracle)?;
        Ok((session, config, loaded != 0))
    }

    async fn loaded(&self) -> Result<(Session, Config), OrdersError> {
        match self.stored().await? {
            (session, config, true) => Ok((session, config)),
            _ => Err(OrdersError::HalfLoaded { schema: Schema::Oracle, server: self.server() }),
        }
    }
}

/// A session that loads rows and builds indexes.
pub struct OracleCopier {
    session: Session,
    config: Config,
}

impl std::fmt::Debug for OracleCopier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OracleCopier")
    }
}

impl Copier for OracleCopier {
    async fn copy(&mut self, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError> {
        let (unit, config) = (*unit, self.config.clone());
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        let work = move |connection: &Connection| {
            let rows = schema::copy(connection, unit.table, RowSource::new(unit, &config), now_s)?;
            // The primary key of the note keeps two loads from copying the same rows.
            connection.execute(&common_sql::note(unit.table as u32, unit.warehouse, rows), &[])?;
            connection.commit()?;
            Ok(rows)
        };
        let undone = move |connection: &Connection| work(connection).inspect_err(|_| drop(connection.rollback()));
        let what = format!("loading {} of warehouse {}", unit.table.name(), unit.warehouse);
        self.session.ask(undone).await.map_err(sql(&what))
    }

    async fn finish(&mut self, index: usize) -> Result<(), OrdersError> {
        let (name, text) = mysql_schema::STEPS.get(index).copied().unwrap_or_default();
        let text = if name == mysql_schema::STATISTICS { STATISTICS } else { text };
        let work = move |connection: &Connection| {
            match connection.execute(text, &[]) {
                Err(error) if error.oci_code() == Some(NAME_IN_USE) => {}
                outcome => outcome.map(drop)?,
            }
            let part = STEP_PART + index as u32;
            connection.execute(&format!("DELETE FROM load_progress WHERE part = {part}"), &[])?;
            connection.execute(&common_sql::note(part, 0, 0), &[])?;
            connection.commit()
        };
        self.session.ask(work).await.map_err(sql(name))
    }
}

impl Database for Oracle {
    type Terminal = OracleTerminal;
    type Copier = OracleCopier;

    fn description(&self) -> String {
        self.server()
    }

    fn schema(&self) -> Schema {
        Schema::Oracle
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    async fn prepare(&self) -> Result<(), OrdersError> {
        if self.mode == Mode::Statements {
            return Ok(());
        }
        let (what, instead) = ("stored functions of this program", "run with --mode statements: they are blocks already");
        Err(OrdersError::NotOfEngine { engine: "Oracle", what, instead })
    }

    fn isolation(&self) -> &'static str {
        "read committed, row locks; Order-Status one snapshot"
    }

    async fn version(&self) -> Result<String, OrdersError> {
        let read = |connection: &Connection| connection.server_version();
        let (version, _) = Session::open(&self.login).await?.ask(read).await.map_err(sql("reading the version"))?;
        Ok(format!("Oracle {version}"))
    }

    /// Empty: ordinary users cannot read the parameters of commits.
    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError> {
        Ok(Vec::new())
    }

    async fn config(&self) -> Result<Config, OrdersError> {
        Ok(self.loaded().await?.1)
    }

    async fn terminal(&self) -> Result<OracleTerminal, OrdersError> {
        Ok(OracleTerminal::new(Session::open(&self.login).await?))
    }

    async fn create(&self, config: &Config) -> Result<(), OrdersError> {
        const WHAT: &str = "creating the tables";
        let session = Session::open(&self.login).await?;
        let relations = session.number(WHAT, "SELECT COUNT(*) FROM user_tables".to_owned()).await?;
        if relations > 0 {
            let server = self.server();
            return Err(match self.stored().await {
                Ok((_, _, false)) => OrdersError::HalfLoaded { schema: Schema::Oracle, server },
                _ => OrdersError::SchemaNotEmpty { schema: Schema::Oracle, server, relations },
            });
        }
        // Each DDL statement commits, so the table that marks the schema as half loaded comes first.
        let mut texts = schema::create();
        texts.insert(1, common_sql::insert_config(config, false));
        texts.push("COMMIT".to_owned());
        session.execute(WHAT, texts).await
    }

    async fn unfinished(&self) -> Result<Unfinished, OrdersError> {
        let (session, config, loaded) = self.stored().await?;
        if loaded {
            let warehouses = config.warehouses;
            return Err(OrdersError::LoadedAlready { schema: Schema::Oracle, server: self.server(), warehouses });
        }
        let read = |connection: &Connection| -> Result<Vec<(u32, u32, u64)>, Error> {
            connection.query_as("SELECT part, warehouse, amount FROM load_progress", &[])?.collect()
        };
        let mut unfinished = Unfinished::new(config);
        for (part, warehouse, rows) in session.ask(read).await.map_err(sql("reading how far the load was"))? {
            unfinished.note(part, warehouse, rows)?;
        }
        Ok(unfinished)
    }

    /// The value of InnoDB; not measured with Oracle.
    fn warehouse_bytes(&self) -> u64 {
        125 << 20
    }

    /// `None`: ordinary users cannot read the location of the files.
    async fn disk_space(&self) -> Result<Option<DiskSpace>, OrdersError> {
        Ok(None)
    }

    async fn copier(&self) -> Result<OracleCopier, OrdersError> {
        let (session, config, _) = self.stored().await?;
        Ok(OracleCopier { session, config })
    }

    fn finishing_steps(&self) -> Vec<Vec<&'static str>> {
        mysql_schema::finishing_steps()
    }

    async fn complete(&self) -> Result<u64, OrdersError> {
        const WHAT: &str = "completing the load";
        let session = self.stored().await?.0;
        session.execute(WHAT, vec!["UPDATE config SET loaded = 1".to_owned(), "COMMIT".to_owned()]).await?;
        Ok(session.number(WHAT, "SELECT SUM(bytes) FROM user_segments".to_owned()).await?.cast_unsigned())
    }

    async fn drop_all(&self) -> Result<(), OrdersError> {
        self.stored().await?.0.execute("dropping what was made", schema::drop_all()).await
    }

    async fn check(&self) -> Result<Checked, OrdersError> {
        let session = self.loaded().await?.0;
        session.execute("beginning the checks", vec![statements::READ_ONLY.to_owned()]).await?;
        let deliveries = session.number("counting deliveries", common_sql::checks::DELIVERIES.to_owned()).await?;
        let mut outcomes = Vec::with_capacity(CONDITIONS.len());
        for (number, name) in (1..).zip(CONDITIONS) {
            let began = Instant::now();
            let text = common_sql::checks::counted(number);
            let read = move |connection: &Connection| connection.query_row_as::<(u64, Option<String>)>(&text, &[]);
            let (violations, example) = session.ask(read).await.map_err(sql(&format!("check {number}")))?;
            outcomes.push(CheckOutcome::new(number, name, violations, example, began));
        }
        session.execute("ending the checks", vec!["COMMIT".to_owned()]).await?;
        Ok(Checked { deliveries: deliveries.cast_unsigned(), outcomes })
    }

    async fn missing(&self, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
        let session = self.loaded().await?.0;
        let mut missing = Vec::new();
        for chunk in orders.chunks(ACK_IN_LIST_ROWS) {
            let text = common_sql::checks::present(chunk);
            let read = move |connection: &Connection| -> Result<HashSet<(u32, u32, u32)>, Error> {
                connection.query_as(&text, &[])?.collect()
            };
            let present = session.ask(read).await.map_err(sql("looking up acknowledged orders"))?;
            missing.extend(chunk.iter().filter(|order| !present.contains(&(order.warehouse, order.district, order.order))));
        }
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsn_names_the_schemas_user_and_shows_no_password() {
        let oracle = Oracle::parse("oracle://millrace_orders:s@cr:et@db1:1521/XEPDB1").unwrap();
        assert_eq!((oracle.login.password.as_str(), oracle.login.address.as_str()), ("s@cr:et", "//db1:1521/XEPDB1"));
        assert_eq!(format!("{oracle:?}"), "the Oracle database //db1:1521/XEPDB1 as millrace_orders");
        for dsn in ["oracle://scott:tiger@db1/X", "oracle://millrace_orders@db1/X", "oracle://millrace_orders:x@db1", "oracle:x"]
        {
            assert!(matches!(Oracle::parse(dsn), Err(OrdersError::OracleDsn)), "{dsn}");
        }
    }

    /// On a host without the client library, the error says so; with it, the error is that nothing listens.
    #[tokio::test]
    async fn a_session_that_cannot_be_had_says_where_it_was_looked_for_and_what_to_do() {
        let error = Oracle::parse("oracle://millrace_orders:x@127.0.0.1:1/X").unwrap().config().await.unwrap_err();
        assert_eq!(error.to_string(), "no session with the Oracle database //127.0.0.1:1/X as millrace_orders");
        let hint = error.hint().unwrap();
        let OrdersError::OracleConnect { source, .. } = error else { panic!("{error}") };
        let wanted = if source.dpi_code() == Some(1047) { "Instant Client" } else { "check that the listener runs" };
        assert!(hint.contains(wanted), "{hint}");
    }
}
