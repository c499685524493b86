//! The database that a DSN names.

use std::time::{Duration, SystemTime};

use crate::ack_log::AcknowledgedOrder;
use crate::conditions::Checked;
use crate::database::{
    Config, Copier, Database, DeliveryAnswer, DiskSpace, Failure, Isolation, Mode, NewOrderAnswer, Schema, Terminal, Unfinished,
};
use crate::error::OrdersError;
use crate::inputs::{DeliveryInput, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::isolation::Stepwise;
use crate::mysql::{MySql, MySqlCopier, MySqlTerminal};
#[cfg(feature = "oracle")]
use crate::oracle::{Oracle, OracleCopier, OracleTerminal};
use crate::postgres::{ConnectionOptions, Postgres, PostgresCopier, PostgresTerminal};
use crate::tables::Unit;

/// One of the supported databases, chosen by its DSN.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the databases' names")]
pub enum AnyDatabase {
    Postgres(Box<Postgres>),
    MySql(MySql),
    #[cfg(feature = "oracle")]
    Oracle(Box<Oracle>),
}

/// A session for the five transactions on one of them.
#[derive(Debug)]
#[expect(missing_docs, reason = "the databases' names")]
pub enum AnyTerminal {
    Postgres(Box<PostgresTerminal>),
    MySql(Box<MySqlTerminal>),
    #[cfg(feature = "oracle")]
    Oracle(Box<OracleTerminal>),
}

/// A session for loading one of them.
#[derive(Debug)]
#[expect(missing_docs, reason = "the databases' names")]
pub enum AnyCopier {
    Postgres(Box<PostgresCopier>),
    MySql(Box<MySqlCopier>),
    #[cfg(feature = "oracle")]
    Oracle(Box<OracleCopier>),
}

impl AnyDatabase {
    /// `mysql://`, `mariadb://` and `oracle://` URLs; everything else is a libpq URL, key=value list or name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn parse(dsn: &str, mode: Mode) -> Result<Self, OrdersError> {
        Self::open(&ConnectionOptions::of(dsn), mode)
    }

    /// The database that these options name: PostgreSQL unless the connection string is a URL of another one. Does not connect.
    ///
    /// # Errors
    /// [`OrdersError::Conninfo`] and similar; [`OrdersError::NotOfMySql`]; [`OrdersError::WithoutOracle`].
    pub fn open(options: &ConnectionOptions, mode: Mode) -> Result<Self, OrdersError> {
        let dsn = options.dsn.as_deref().unwrap_or_default();
        let is_other = MySql::is_dsn(dsn) || dsn.starts_with("oracle://");
        if is_other && (options.host.is_some() || options.port.is_some() || options.user.is_some()) {
            return Err(OrdersError::NotOfMySql("-h, -p or -U beside a URL of another database"));
        }
        if MySql::is_dsn(dsn) {
            return Ok(Self::MySql(MySql::parse(dsn)?.with_mode(mode)));
        }
        #[cfg(feature = "oracle")]
        if Oracle::is_dsn(dsn) {
            return Ok(Self::Oracle(Box::new(Oracle::parse(dsn)?.with_mode(mode))));
        }
        if dsn.starts_with("oracle://") {
            return Err(OrdersError::WithoutOracle);
        }
        Ok(Self::Postgres(Box::new(Postgres::open(options)?.with_mode(mode))))
    }

    /// As [`Postgres::warning`].
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Postgres(database) => database.warning(),
            _ => None,
        }
    }
}

impl AnyDatabase {
    /// The same database with a share of the warehouses on each of these servers too.
    ///
    /// # Errors
    /// [`OrdersError::Conninfo`], and [`OrdersError::NodesOfMySql`] if the database cannot be split.
    pub fn with_nodes(self, dsns: &[String]) -> Result<Self, OrdersError> {
        match self {
            Self::Postgres(database) => Ok(Self::Postgres(Box::new(database.with_nodes(dsns)?))),
            any if dsns.is_empty() => Ok(any),
            _ => Err(OrdersError::NodesOfMySql),
        }
    }

    /// The same database, using only features that every engine of PostgreSQL's wire protocol has.
    ///
    /// # Errors
    /// [`OrdersError::NotOfMySql`].
    pub fn portable(self) -> Result<Self, OrdersError> {
        match self {
            Self::Postgres(database) => Ok(Self::Postgres(Box::new(database.portable()))),
            _ => Err(OrdersError::NotOfMySql("--portable")),
        }
    }

    /// The same database with terminals at this isolation level, if one is given.
    ///
    /// # Errors
    /// [`OrdersError::NotOfMySql`].
    pub fn with_isolation(self, isolation: Option<Isolation>) -> Result<Self, OrdersError> {
        match (self, isolation) {
            (any, None) => Ok(any),
            (Self::Postgres(database), Some(isolation)) => Ok(Self::Postgres(Box::new(database.with_isolation(isolation)))),
            _ => Err(OrdersError::NotOfMySql("--isolation-level")),
        }
    }
}

/// Evaluates a call on the contained database.
macro_rules! inside {
    ($any:expr, $database:ident => $call:expr) => {
        match $any {
            Self::Postgres($database) => $call,
            Self::MySql($database) => $call,
            #[cfg(feature = "oracle")]
            Self::Oracle($database) => $call,
        }
    };
}

impl Database for AnyDatabase {
    type Terminal = AnyTerminal;
    type Copier = AnyCopier;

    fn description(&self) -> String {
        inside!(self, database => database.description())
    }

    fn schema(&self) -> Schema {
        inside!(self, database => database.schema())
    }

    fn mode(&self) -> Mode {
        inside!(self, database => database.mode())
    }

    async fn prepare(&self) -> Result<(), OrdersError> {
        inside!(self, database => database.prepare().await)
    }

    fn isolation(&self) -> &'static str {
        inside!(self, database => database.isolation())
    }

    async fn version(&self) -> Result<String, OrdersError> {
        inside!(self, database => database.version().await)
    }

    async fn unsafe_settings(&self) -> Result<Vec<String>, OrdersError> {
        inside!(self, database => database.unsafe_settings().await)
    }

    async fn config(&self) -> Result<Config, OrdersError> {
        inside!(self, database => database.config().await)
    }

    async fn terminal(&self) -> Result<AnyTerminal, OrdersError> {
        Ok(match self {
            Self::Postgres(database) => AnyTerminal::Postgres(Box::new(database.terminal().await?)),
            Self::MySql(database) => AnyTerminal::MySql(Box::new(database.terminal().await?)),
            #[cfg(feature = "oracle")]
            Self::Oracle(database) => AnyTerminal::Oracle(Box::new(database.terminal().await?)),
        })
    }

    async fn create(&self, config: &Config) -> Result<(), OrdersError> {
        inside!(self, database => database.create(config).await)
    }

    async fn unfinished(&self) -> Result<Unfinished, OrdersError> {
        inside!(self, database => database.unfinished().await)
    }

    fn warehouse_bytes(&self) -> u64 {
        inside!(self, database => database.warehouse_bytes())
    }

    async fn disk_space(&self) -> Result<Option<DiskSpace>, OrdersError> {
        inside!(self, database => database.disk_space().await)
    }

    async fn copier(&self) -> Result<AnyCopier, OrdersError> {
        Ok(match self {
            Self::Postgres(database) => AnyCopier::Postgres(Box::new(database.copier().await?)),
            Self::MySql(database) => AnyCopier::MySql(Box::new(database.copier().await?)),
            #[cfg(feature = "oracle")]
            Self::Oracle(database) => AnyCopier::Oracle(Box::new(database.copier().await?)),
        })
    }

    fn finishing_steps(&self) -> Vec<Vec<&'static str>> {
        inside!(self, database => database.finishing_steps())
    }

    async fn complete(&self) -> Result<u64, OrdersError> {
        inside!(self, database => database.complete().await)
    }

    async fn drop_all(&self) -> Result<(), OrdersError> {
        inside!(self, database => database.drop_all().await)
    }

    async fn check(&self) -> Result<Checked, OrdersError> {
        inside!(self, database => database.check().await)
    }

    async fn missing(&self, orders: &[AcknowledgedOrder]) -> Result<Vec<AcknowledgedOrder>, OrdersError> {
        inside!(self, database => database.missing(orders).await)
    }
}

impl Terminal for AnyTerminal {
    async fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        inside!(self, terminal => terminal.new_order(input).await)
    }

    async fn payment(&mut self, input: &PaymentInput) -> Result<(), Failure> {
        inside!(self, terminal => terminal.payment(input).await)
    }

    async fn order_status(&mut self, input: &OrderStatusInput) -> Result<(), Failure> {
        inside!(self, terminal => terminal.order_status(input).await)
    }

    async fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        inside!(self, terminal => terminal.delivery(input).await)
    }

    async fn stock_level(&mut self, input: &StockLevelInput) -> Result<u32, Failure> {
        inside!(self, terminal => terminal.stock_level(input).await)
    }
}

impl Stepwise for AnyTerminal {
    async fn open_new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        inside!(self, terminal => terminal.open_new_order(input).await)
    }

    async fn open_delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        inside!(self, terminal => terminal.open_delivery(input).await)
    }

    async fn end(&mut self, commit: bool) -> Result<(), Failure> {
        inside!(self, terminal => terminal.end(commit).await)
    }

    async fn number(&mut self, text: &str) -> Result<i64, Failure> {
        inside!(self, terminal => terminal.number(text).await)
    }

    async fn change(&mut self, text: &str) -> Result<(), Failure> {
        inside!(self, terminal => terminal.change(text).await)
    }

    async fn twice(&mut self, text: &str, apart: Duration) -> Result<[i64; 2], Failure> {
        inside!(self, terminal => terminal.twice(text, apart).await)
    }
}

impl Copier for AnyCopier {
    async fn copy(&mut self, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError> {
        inside!(self, copier => copier.copy(unit, now).await)
    }

    async fn finish(&mut self, index: usize) -> Result<(), OrdersError> {
        inside!(self, copier => copier.finish(index).await)
    }
}
