//! The interface between the load and a database.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::Checked;
use crate::error::OrdersError;
use crate::inputs::{DeliveryInput, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::random::NuRandConstants;
pub use crate::schema::{SCHEMA, Schema};
use crate::tables::{Table, Unit};

/// Version of the schema of order tables; a database of another version is refused.
pub const SCHEMA_VERSION: i32 = 1;

/// How a transaction reaches the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The driver sends the statements: one to three round trips.
    #[default]
    Statements,
    /// Stored functions: one round trip.
    Functions,
}

impl Mode {
    /// The mode's name in records and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Functions => "functions",
        }
    }
}

/// Isolation level of the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A statement reads one snapshot and changes the newest version of the rows it locks.
    ReadCommitted,
    /// A transaction reads one snapshot. It fails if it changes a row that another transaction changed since, and is then repeated.
    RepeatableRead,
    /// The result is that of some serial order of the transactions. A transaction that would break this fails and is repeated.
    Serializable,
}

impl Isolation {
    /// The level's name in SQL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

/// Configuration of a loaded database (table `config`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Seed of the load.
    pub seed: u64,
    /// Constants of the non-uniform draws.
    pub constants: NuRandConstants,
}

impl Config {
    /// Refuses a table `config` of another version of this program, or with invalid values.
    pub(crate) fn is_of(&self, found: i32, schema: Schema) -> Result<(), OrdersError> {
        if found != SCHEMA_VERSION {
            return Err(OrdersError::SchemaVersion { schema, found, expected: SCHEMA_VERSION });
        }
        if self.warehouses == 0 || !self.constants.are_valid() {
            let detail = format!("{self:?} is outside the rules");
            return Err(OrdersError::Answer { what: "reading table config", detail });
        }
        Ok(())
    }
}

/// Added to a step's number in the note of a finished step, so that it differs from the tables' numbers.
pub(crate) const STEP_PART: u32 = 100;

/// State of a load that was interrupted (table `load_progress`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// What is being loaded.
    pub config: Config,
    /// Units whose rows are committed.
    pub units: Vec<Unit>,
    /// Rows in these units.
    pub rows: u64,
    /// Finished steps after the rows, by their index in [`Database::finishing_steps`].
    pub steps: Vec<usize>,
}

impl Unfinished {
    /// A load that has done nothing yet.
    pub(crate) const fn new(config: Config) -> Self {
        Self { config, units: Vec::new(), rows: 0, steps: Vec::new() }
    }

    /// Adds one note: a table's number, or [`STEP_PART`] and the number of a step.
    pub(crate) fn note(&mut self, part: u32, warehouse: u32, rows: u64) -> Result<(), OrdersError> {
        if let Some(step) = part.checked_sub(STEP_PART) {
            self.steps.push(step as usize);
            return Ok(());
        }
        let Some(table) = Table::ALL.get(part as usize).copied() else {
            let detail = format!("part {part} is not a table");
            return Err(OrdersError::Answer { what: "reading how far the load was", detail });
        };
        self.units.push(Unit { table, warehouse });
        self.rows += rows;
        Ok(())
    }
}

/// Disk space of a server, if this host can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpace {
    /// The server's data directory.
    pub directory: PathBuf,
    /// Bytes free in its file system for ordinary users.
    pub free_bytes: u64,
}

/// How one attempt at a transaction failed.
#[derive(Debug)]
pub enum Failure {
    /// A deadlock or serialization failure: nothing was changed, and the same inputs may be sent once more.
    Retry(OrdersError),
    /// The connection is gone. Whether the transaction was committed is not known.
    Lost(OrdersError),
    /// Any other error: nothing was changed, and a repeat would fail too.
    Error(OrdersError),
}

/// The result of a New-Order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrderAnswer {
    /// O_ID; of an order that was rolled back, the number it would have had.
    pub order: u32,
    /// Committed, or rolled back because of the unused item.
    pub committed: bool,
    /// Total amount of the order, in cents.
    pub total_cents: i64,
}

/// The result of a Delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// Districts, of the ten, that had an undelivered order.
    pub delivered: u32,
}

/// One session that runs the five transactions with the ACID properties.
///
/// **Durability**: an `Ok` means committed and acknowledged by the database (or, for a New-Order
/// with `committed: false`, rolled back).
#[expect(async_fn_in_trait, reason = "sessions stay on the thread that opened them")]
pub trait Terminal {
    /// Clause 2.4.2.
    async fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure>;
    /// Clause 2.5.2.
    async fn payment(&mut self, input: &PaymentInput) -> Result<(), Failure>;
    /// Clause 2.6.2.
    async fn order_status(&mut self, input: &OrderStatusInput) -> Result<(), Failure>;
    /// Clause 2.7.4, the ten districts in one transaction.
    async fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure>;
    /// Clause 2.8.2. Returns the number of items with low stock.
    async fn stock_level(&mut self, input: &StockLevelInput) -> Result<u32, Failure>;
}

/// One session that copies generated rows into the tables.
#[expect(async_fn_in_trait, reason = "sessions stay on the thread that opened them")]
pub trait Copier {
    /// Copies one unit of rows and notes it, in one transaction; returns the rows copied.
    async fn copy(&mut self, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError>;
    /// Builds the `index`-th index or the statistics of [`Database::finishing_steps`], and notes that it is done.
    /// A step that was interrupted, or finished but not noted, may be repeated.
    async fn finish(&mut self, index: usize) -> Result<(), OrdersError>;
}

/// A database that the load can use.
#[expect(async_fn_in_trait, reason = "sessions stay on the thread that opened them")]
pub trait Database: Clone + Send + Sync + 'static {
    /// A session for the five transactions.
    type Terminal: Terminal;
    /// A session for loading.
    type Copier: Copier;

    /// Location of the database for messages, without passwords.
    fn description(&self) -> String;
    /// The schema of the load in this database.
    fn schema(&self) -> Schema;
    /// How its terminals send transactions.
    fn mode(&self) -> Mode;
    /// Creates the objects that terminals of [`Self::mode`] need beside the tables, if they do not exist yet.
    async fn prepare(&self) -> Result<(), OrdersError>;
    /// Isolation level of the transactions, for records.
    fn isolation(&self) -> &'static str;
    /// Version of the database, as the database reports it.
    async fn version(&self) -> Result<String, OrdersError>;
    /// Settings under which a crash may lose acknowledged orders or the database; each text names the possible loss.
    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError>;
    /// Reads the configuration of a complete load. An error if there is no load or only part of one.
    async fn config(&self) -> Result<Config, OrdersError>;
    /// Opens a session for the five transactions.
    async fn terminal(&self) -> Result<Self::Terminal, OrdersError>;

    /// Creates the empty tables, marked as half loaded; in one transaction if the engine allows it. Refuses a schema
    /// that is not empty.
    async fn create(&self, config: &Config) -> Result<(), OrdersError>;
    /// Reads the state of a load that was interrupted.
    async fn unfinished(&self) -> Result<Unfinished, OrdersError>;
    /// Bytes of one warehouse with its indexes, after the load.
    fn warehouse_bytes(&self) -> u64;
    /// Free disk space for the tables. `None` if the server is on another host or does not report its data directory.
    async fn disk_space(&self) -> Result<Option<DiskSpace>, OrdersError>;
    /// Opens a session for loading.
    async fn copier(&self) -> Result<Self::Copier, OrdersError>;
    /// Names of the steps after the rows, in stages. Steps of one stage may run in parallel.
    fn finishing_steps(&self) -> Vec<Vec<&'static str>>;
    /// Marks the schema as loaded; returns its size in bytes.
    async fn complete(&self) -> Result<u64, OrdersError>;
    /// Drops what [`Self::create`] made.
    async fn drop_all(&self) -> Result<(), OrdersError>;

    /// Runs the twelve consistency checks on one snapshot.
    async fn check(&self) -> Result<Checked, OrdersError>;
    /// Which of these acknowledged orders are not in the database.
    async fn missing(&self, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError>;
}
