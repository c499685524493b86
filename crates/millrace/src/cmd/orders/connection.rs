//! The options of every command of `millrace orders` that connects to a database.

use clap::{ArgAction, Parser};
use orders::any::AnyDatabase;
use orders::database::Mode;
use orders::postgres::{ConnectionOptions, Postgres};

use crate::error_printing::refusal;

#[derive(Parser)]
pub(super) struct DatabaseArgs {
    /// Database: its name, a libpq URL or key=value list, or mysql://USER@HOST:PORT/ (?socket=PATH), or, in a
    /// build with Oracle, oracle://millrace_orders:PASSWORD@HOST:PORT/SERVICE [default: PGDATABASE, else the user's name]
    #[arg(short = 'd', long = "db", alias = "dbname", value_name = "NAME|DSN")]
    dsn: Option<String>,
    /// Host name, address or directory of sockets [default: PGHOST, else /var/run/postgresql]
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// Port [default: PGPORT, else 5432]
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<String>,
    /// User [default: PGUSER, else the name of this user]
    #[arg(short = 'U', long = "username", value_name = "USER")]
    user: Option<String>,
    /// Use only features that every engine with PostgreSQL's wire protocol has. Needed if such an engine reports
    /// that it is PostgreSQL; YugabyteDB and CockroachDB are recognised without it
    #[arg(long)]
    portable: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl DatabaseArgs {
    /// Opens the database of these options, without connecting.
    pub(super) fn open(&self, mode: Mode) -> anyhow::Result<AnyDatabase> {
        let database = AnyDatabase::open(&self.options(), mode)?;
        warn(database.warning());
        Ok(if self.portable { database.portable()? } else { database })
    }

    /// Like [`Self::open`], for commands that need PostgreSQL.
    pub(super) fn open_postgres(&self) -> anyhow::Result<Postgres> {
        if self.portable {
            return Err(refusal("use --portable here: this command reads counters that only PostgreSQL has", "leave it out"));
        }
        let database = Postgres::open(&self.options())?;
        warn(database.warning());
        Ok(database)
    }

    fn options(&self) -> ConnectionOptions {
        let Self { dsn, host, port, user, .. } = self;
        ConnectionOptions { dsn: dsn.clone(), host: host.clone(), port: port.clone(), user: user.clone() }
    }
}

/// Opens a PostgreSQL database by a connection string alone.
pub(super) fn postgres(dsn: &str) -> anyhow::Result<Postgres> {
    let database = Postgres::parse(dsn)?;
    warn(database.warning());
    Ok(database)
}

/// Prints the warning that libpq would print.
fn warn(warning: Option<&str>) {
    if let Some(warning) = warning {
        eprintln!("WARNING: {warning}");
    }
}
