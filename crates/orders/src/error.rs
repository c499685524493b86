//! Errors of the order load.

use std::path::PathBuf;

use crate::mysql::MySqlFault;
use crate::schema::Schema;

/// An error of the order load. Texts complete "cannot load/run/check: …".
#[derive(Debug, thiserror::Error)]
pub enum OrdersError {
    /// The parameters of a connection to PostgreSQL are invalid or not supported.
    #[error(transparent)]
    Conninfo(#[from] crate::postgres::ConninfoError),
    /// The connection string begins like a MySQL URL but cannot be parsed as one.
    #[error("the connection string is not a MySQL URL")]
    MySqlDsn(#[source] mysql_async::UrlError),
    /// A MySQL URL has a part that is invalid or not supported.
    #[error("the MySQL URL cannot be used: {what}")]
    MySqlUrl {
        /// The fault, without any part of the password.
        what: String,
    },
    /// `--node` was given for a database that cannot be split over servers.
    #[error("only a schema on PostgreSQL can be split over several servers (--node)")]
    NodesOfMySql,
    /// An option was given that this database does not support.
    #[error("{0} is for PostgreSQL and engines of its wire protocol")]
    NotOfMySql(&'static str),
    /// The engine does not support a requested feature.
    #[error("{engine} is not known to have {what}")]
    NotOfEngine {
        /// The engine's name.
        engine: &'static str,
        /// The missing feature.
        what: &'static str,
        /// What the user can use instead.
        instead: &'static str,
    },
    /// An option is outside its limits.
    #[error("{name}: {value} is not from {min} to {max}")]
    OutOfRange {
        /// The option.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// A session with PostgreSQL could not be opened.
    #[error("no session with {server}")]
    Connect {
        /// Host, port, database and user, without the password.
        server: String,
        /// Why.
        #[source]
        source: tokio_postgres::Error,
    },
    /// A session with MySQL or MariaDB could not be opened.
    #[error("no session with {server}")]
    MySqlConnect {
        /// Host, port and user, without the password.
        server: String,
        /// Why.
        #[source]
        source: MySqlFault,
    },
    /// The server accepted the connection and did not answer in time.
    #[error("no answer from {server} for {seconds} s")]
    ConnectTimeout {
        /// Host, port, database and user, without the password.
        server: String,
        /// Seconds waited.
        seconds: u64,
    },
    /// A connection pooler shares the server's sessions between its clients.
    #[error("the connection pooler at {server} gives each transaction another server session")]
    SharedSessions {
        /// Host, port, database and user, without the password.
        server: String,
    },
    /// A connection pooler has no free server session for this client.
    #[error("the connection pooler at {server} had no free server session for {seconds} s")]
    PoolerFull {
        /// Host, port, database and user, without the password.
        server: String,
        /// Seconds this client waited.
        seconds: u64,
    },
    /// The schema does not exist.
    #[error("schema {schema} is not in {server}")]
    MissingSchema {
        /// The schema's name.
        schema: Schema,
        /// The server that was asked, without the password.
        server: String,
    },
    /// The schema already contains relations.
    #[error("schema {schema} in {server} is not empty (relations: {relations})")]
    SchemaNotEmpty {
        /// The schema's name.
        schema: Schema,
        /// The server, without the password.
        server: String,
        /// Number of relations in the schema.
        relations: i64,
    },
    /// The load of this schema is still running or was interrupted.
    #[error("schema {schema} in {server} is half loaded: its load is running or was interrupted")]
    HalfLoaded {
        /// The schema's name.
        schema: Schema,
        /// The server, without the password.
        server: String,
    },
    /// The schema was created by another version of this program.
    #[error("schema {schema} has version {found}; this program reads version {expected}")]
    SchemaVersion {
        /// The schema's name.
        schema: Schema,
        /// Version in the database.
        found: i32,
        /// Version of this program.
        expected: i32,
    },
    /// A statement failed on PostgreSQL.
    #[error("{what} failed")]
    Sql {
        /// Purpose of the statement.
        what: String,
        /// The database's error.
        #[source]
        source: tokio_postgres::Error,
    },
    /// The connection string is for Oracle, and this build does not include Oracle.
    #[error("this program was built without support for Oracle")]
    WithoutOracle,
    /// The connection string begins like an Oracle URL but cannot be parsed as one of the user `millrace_orders`.
    #[cfg(feature = "oracle")]
    #[error("the connection string is not an Oracle URL of the user millrace_orders")]
    OracleDsn,
    /// A session with Oracle could not be opened.
    #[cfg(feature = "oracle")]
    #[error("no session with {server}")]
    OracleConnect {
        /// Host, port, service and user, without the password.
        server: String,
        /// Why.
        #[source]
        source: Box<::oracle::Error>,
    },
    /// A statement failed on Oracle.
    #[cfg(feature = "oracle")]
    #[error("{what} failed")]
    Oracle {
        /// Purpose of the statement.
        what: String,
        /// The database's error.
        #[source]
        source: Box<::oracle::Error>,
    },
    /// A statement failed on MySQL or MariaDB.
    #[error("{what} failed")]
    MySql {
        /// Purpose of the statement.
        what: String,
        /// The database's error.
        #[source]
        source: MySqlFault,
    },
    /// The database returned a result that the transaction does not allow.
    #[error("{what}: unexpected answer: {detail}")]
    Answer {
        /// Purpose of the statement.
        what: &'static str,
        /// What is wrong with the result.
        detail: String,
    },
    /// The connection was lost, and the run does not reconnect.
    #[error("the connection of session {session} was lost")]
    ConnectionLost {
        /// Number of the session, from 0.
        session: u32,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// After lost connections, no transaction succeeded within the time limit.
    #[error("no transaction succeeded for {seconds} s after connections were lost")]
    Unresponsive {
        /// The limit, in seconds.
        seconds: u64,
        /// The last attempt's error.
        #[source]
        source: Box<Self>,
    },
    /// A session had too many errors in a row.
    #[error("session {session} had {count} errors in a row")]
    ErrorsInARow {
        /// Number of the session, from 0.
        session: u32,
        /// Number of errors.
        count: u32,
        /// The last error.
        #[source]
        source: Box<Self>,
    },
    /// A file could not be read or written.
    #[error("{what} {}", path.display())]
    File {
        /// What the file is.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line of the acknowledgement log is not `w d o_id`.
    #[error("line {line} of {} is not `warehouse district order`", path.display())]
    AckLine {
        /// The log.
        path: PathBuf,
        /// Line number from 1.
        line: u64,
    },
    /// A thread of the driver or the loader could not be started, or ended early.
    #[error("{what}")]
    Thread {
        /// Which thread, and what happened to it.
        what: String,
    },
    /// A load failed, and its schema could not be dropped.
    #[error("the load failed, and schema {schema} is left half loaded ({dropping})")]
    LeftBehind {
        /// The schema's name.
        schema: Schema,
        /// Why it could not be dropped.
        dropping: Box<Self>,
        /// Why the load failed.
        #[source]
        source: Box<Self>,
    },
    /// The record of an earlier measurement is not usable.
    #[error("{detail}")]
    Record {
        /// What is wrong with it.
        detail: String,
    },
    /// Drivers of one run could not be coordinated.
    #[error(transparent)]
    Coordination(#[from] crate::coordination::CoordinationError),
    /// A load was interrupted. The committed rows stay.
    #[error("the load was interrupted with {rows} of about {rows_expected} rows in schema {schema}")]
    CutOff {
        /// The schema's name.
        schema: Schema,
        /// Rows committed.
        rows: u64,
        /// Rows of the complete load.
        rows_expected: u64,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// A load was to be resumed that is already complete.
    #[error("schema {schema} in {server} is already loaded, with {}", in_words(*warehouses))]
    LoadedAlready {
        /// The schema's name.
        schema: Schema,
        /// The server, without the password.
        server: String,
        /// Warehouses in it.
        warehouses: u32,
    },
    /// The existing load has another size or seed than the requested one.
    #[error(
        "the existing load is that of --warehouses {} --seed {}, not of --warehouses {} --seed {}",
        found.0, found.1, asked.0, asked.1
    )]
    OtherLoad {
        /// Warehouses and seed of the existing load.
        found: (u32, u64),
        /// Requested warehouses and seed.
        asked: (u32, u64),
    },
    /// The file system of the server's data directory has too little space for the load.
    #[error("{needed_mib} MiB are needed, and the file system of {} has {free_mib} MiB free", directory.display())]
    NoSpace {
        /// The server's data directory.
        directory: PathBuf,
        /// Space that the load needs, including log and sorts, in MiB.
        needed_mib: u64,
        /// Free space, in MiB.
        free_mib: u64,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
    /// The user interrupted a run before its measured interval began.
    #[error("interrupted before the measured interval began: nothing was measured")]
    NothingMeasured,
}

impl OrdersError {
    /// What the user can do about the error, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Conninfo(error) => error.hint(),
            Self::OutOfRange { name: "--active-warehouses", max, .. } => {
                Some(format!("give a number from 1 to {max}: the database has {max} warehouses; without the option all of them are used"))
            }
            Self::OutOfRange { name, min, max, .. } if name.starts_with("--") => {
                Some(format!("give {name} a number from {min} to {max}"))
            }
            Self::MySqlDsn(_) => Some("write mysql://USER:PASSWORD@HOST:PORT/ or mysql://USER@localhost/?socket=PATH".into()),
            Self::Connect { source, .. } => Some(crate::postgres::connect_hint(source)),
            Self::MySqlUrl { .. } => Some(
                "write mysql://USER:PASSWORD@HOST:PORT/?ssl-mode=…&ssl-ca=FILE; in user and password / is written %2F, @ %40, : %3A, \
                 ? %3F, # %23 and % %25"
                    .into(),
            ),
            Self::MySqlConnect { source, .. } => Some(source.connect_hint()),
            Self::MySql { source, .. } => source.statement_hint().map(Into::into),
            Self::Sql { source, .. } => crate::postgres::statement_hint(source).map(Into::into),
            Self::SharedSessions { .. } => Some(
                "the load needs settings and prepared statements that last: connect to the server itself, or set pool_mode = session for \
                 this database in the pooler"
                    .into(),
            ),
            Self::PoolerFull { .. } => Some(
                "use at most as many sessions (-c or --connections, -j of a load) as the pool has (default_pool_size of PgBouncer), or \
                 connect to the server itself"
                    .into(),
            ),
            Self::File { what: crate::ack_log::TO_CHECK, .. } | Self::AckLine { .. } => {
                Some("name the file that millrace orders run --ack-log wrote".into())
            }
            Self::File { what: crate::ack_log::TO_WRITE, .. } => {
                Some("name with --ack-log a file in a directory that is there and that this user may write".into())
            }
            Self::MissingSchema { .. } => {
                Some("load it first, with the same database: millrace orders load -d NAME --warehouses N".into())
            }
            Self::SchemaNotEmpty { schema, .. } | Self::LeftBehind { schema, .. } | Self::LoadedAlready { schema, .. } => {
                Some(format!("if it is not needed and no load is running, remove it: {}", schema.drop_statement()))
            }
            Self::HalfLoaded { schema, .. } | Self::CutOff { schema, .. } => Some(format!(
                "if no load is running: load again with the same options and --resume, or remove the schema: {}",
                schema.drop_statement()
            )),
            Self::OtherLoad { .. } => Some("use --warehouses and --seed of the existing load".into()),
            Self::NoSpace { .. } => {
                Some("load fewer warehouses, or give the server a larger disk; --no-space-check loads anyway".into())
            }
            Self::SchemaVersion { schema, .. } => Some(format!("load again after {}", schema.drop_statement())),
            Self::Unresponsive { .. } | Self::ConnectTimeout { .. } => {
                Some("the server is down or hangs, another program listens on this port, or a pooler has no free session: check the port, and read their logs".into())
            }
            Self::ConnectionLost { .. } => Some("--reconnect continues the run after a restart of the database".into()),
            Self::WithoutOracle => Some("build it with --features oracle; Oracle has not been run against a server".into()),
            #[cfg(feature = "oracle")]
            Self::OracleDsn => Some(
                "write oracle://millrace_orders:PASSWORD@HOST:PORT/SERVICE; the user is made by an administrator: CREATE USER \
                 millrace_orders IDENTIFIED BY …; GRANT CREATE SESSION, CREATE TABLE, UNLIMITED TABLESPACE TO millrace_orders"
                    .into(),
            ),
            #[cfg(feature = "oracle")]
            Self::OracleConnect { source, .. } => Some(oracle_hint(source)),
            Self::NotOfEngine { instead, .. } => Some((*instead).into()),
            Self::NotOfMySql(option) => Some(format!("leave {option} out")),
            Self::Coordination(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether the command did not run at all: invalid arguments, a missing peer or a refusal (exit code 2).
    #[must_use]
    pub const fn could_not_run(&self) -> bool {
        if let Self::Coordination(error) = self {
            return error.could_not_run();
        }
        #[cfg(feature = "oracle")]
        if let Self::Oracle { .. } = self {
            return false;
        }
        !matches!(
            self,
            Self::ConnectionLost { .. }
                | Self::Unresponsive { .. }
                | Self::ErrorsInARow { .. }
                | Self::Sql { .. }
                | Self::MySql { .. }
                | Self::CutOff { .. }
                | Self::Answer { .. }
                | Self::LeftBehind { .. }
                | Self::Interrupted
                | Self::NothingMeasured
        )
    }
}

#[cfg(feature = "oracle")]
fn oracle_hint(source: &::oracle::Error) -> String {
    /// Code of ODPI-C if it cannot load the client library.
    const NO_LIBRARY: i32 = 1047;
    if source.dpi_code() == Some(NO_LIBRARY) {
        return "install Oracle's client library (Instant Client, Basic or Basic Light) and name its folder in LD_LIBRARY_PATH"
            .into();
    }
    "check that the listener runs there, and user, password and service in the DSN".into()
}

fn in_words(warehouses: u32) -> String {
    format!("{warehouses} warehouse{}", if warehouses == 1 { "" } else { "s" })
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
