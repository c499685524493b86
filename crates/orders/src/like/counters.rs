//! The counters of a PostgreSQL server.

use serde::{Deserialize, Serialize};
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, Row};

use crate::error::OrdersError;
use crate::limits::RESULTS_REPLY_S;
use crate::postgres::Postgres;

/// Cluster-wide counters at one moment, or their difference between two moments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Seconds since 1970 by the database's clock; in a difference, the elapsed seconds.
    pub at_s: f64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Blocks requested from the kernel.
    pub blocks_read: u64,
    /// Blocks found in the database's buffers.
    pub blocks_hit: u64,
    /// Time of block reads in milliseconds; valid only if `reads_timed`.
    pub block_read_ms: f64,
    /// Data blocks written by checkpoints, the background writer and sessions.
    pub blocks_written: u64,
    /// Log bytes.
    pub log_bytes: u64,
    /// Checkpoints, timed and requested.
    pub checkpoints: u64,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Whether `track_io_timing` is on.
    pub reads_timed: bool,
    /// Whether blocks that only extend a file are counted separately from reads (from version 16 on).
    pub extends_known: bool,
    /// Changes when any of these counters is reset.
    #[serde(default)]
    pub resets: u64,
}

impl Counters {
    /// The difference since `before`; a counter that decreased gives 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            at_s: (self.at_s - before.at_s).max(0.0),
            commits: self.commits.saturating_sub(before.commits),
            rollbacks: self.rollbacks.saturating_sub(before.rollbacks),
            blocks_read: self.blocks_read.saturating_sub(before.blocks_read),
            blocks_hit: self.blocks_hit.saturating_sub(before.blocks_hit),
            block_read_ms: (self.block_read_ms - before.block_read_ms).max(0.0),
            blocks_written: self.blocks_written.saturating_sub(before.blocks_written),
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            checkpoints: self.checkpoints.saturating_sub(before.checkpoints),
            resets: 0,
            ..self.clone()
        }
    }
}

const DATABASES: &str = "SELECT extract(epoch FROM clock_timestamp())::float8, sum(xact_commit)::int8, \
    sum(xact_rollback)::int8, sum(blks_read)::int8, sum(blks_hit)::int8, sum(blk_read_time)::float8, \
    current_setting('block_size')::int8, current_setting('track_io_timing')::bool, \
    coalesce(extract(epoch FROM max(stats_reset)), 0)::int8 FROM pg_stat_database";

/// Data blocks written, checkpoints, last reset; up to version 16.
const WRITES_TO_16: &str = "SELECT (buffers_checkpoint + buffers_clean + buffers_backend)::int8, \
    (checkpoints_timed + checkpoints_req)::int8, coalesce(extract(epoch FROM stats_reset), 0)::int8 FROM pg_stat_bgwriter";

/// The same from version 17 on, which has them in other views.
const WRITES_FROM_17: &str = "SELECT (SELECT coalesce(sum(writes), 0)::int8 FROM pg_stat_io WHERE object = 'relation'), \
    (num_timed + num_requested)::int8, \
    (coalesce(extract(epoch FROM stats_reset), 0) + (SELECT coalesce(extract(epoch FROM max(stats_reset)), 0) FROM pg_stat_io))::int8 \
    FROM pg_stat_checkpointer";

const LOG: &str = "SELECT wal_bytes::int8, coalesce(extract(epoch FROM stats_reset), 0)::int8 FROM pg_stat_wal";

/// Oldest version that has all these views.
const VERSION_MIN: i32 = 140_000;

/// A session that only reads.
pub(super) struct Session {
    client: Client,
    number: i32,
    version: String,
}

impl Session {
    pub(super) async fn open(database: &Postgres) -> Result<Self, OrdersError> {
        let client = database.connect().await?;
        // Neither the watched database nor this session may wait long for the other.
        let setup = format!(
            "SET default_transaction_read_only = on; SET statement_timeout = '{RESULTS_REPLY_S}s'; SET lock_timeout = '1s'"
        );
        client.batch_execute(&setup).await.map_err(failed)?;
        let row = client
            .query_one("SELECT current_setting('server_version_num')::int4, current_setting('server_version')", &[])
            .await
            .map_err(failed)?;
        let (number, version): (i32, String) = (field(&row, 0)?, field(&row, 1)?);
        if number < VERSION_MIN {
            let detail = format!(
                "PostgreSQL {version} has no pg_stat_wal, from which the log bytes are read; PostgreSQL 14 and later have it"
            );
            return Err(OrdersError::Answer { what: "looking at the database's counters", detail });
        }
        Ok(Self { client, number, version: format!("PostgreSQL {version}") })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) async fn counters(&self) -> Result<Counters, OrdersError> {
        let sums = self.row(DATABASES).await?;
        let writes = self.row(if self.number >= 170_000 { WRITES_FROM_17 } else { WRITES_TO_16 }).await?;
        let log = self.row(LOG).await?;
        let resets = [unsigned(&sums, 8)?, unsigned(&writes, 2)?, unsigned(&log, 1)?];
        Ok(Counters {
            at_s: field(&sums, 0)?,
            commits: unsigned(&sums, 1)?,
            rollbacks: unsigned(&sums, 2)?,
            blocks_read: unsigned(&sums, 3)?,
            blocks_hit: unsigned(&sums, 4)?,
            block_read_ms: field(&sums, 5)?,
            block_bytes: unsigned(&sums, 6)?,
            reads_timed: field(&sums, 7)?,
            blocks_written: unsigned(&writes, 0)?,
            checkpoints: unsigned(&writes, 1)?,
            log_bytes: unsigned(&log, 0)?,
            extends_known: self.number >= 160_000,
            resets: resets.into_iter().fold(0, u64::wrapping_add),
        })
    }

    async fn row(&self, statement: &str) -> Result<Row, OrdersError> {
        self.client.query_one(statement, &[]).await.map_err(failed)
    }
}

fn failed(source: tokio_postgres::Error) -> OrdersError {
    OrdersError::Sql { what: "reading the database's counters".to_owned(), source }
}

fn field<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, OrdersError> {
    row.try_get(column).map_err(failed)
}

fn unsigned(row: &Row, column: usize) -> Result<u64, OrdersError> {
    let value: i64 = field(row, column)?;
    Ok(u64::try_from(value).unwrap_or(0))
}
