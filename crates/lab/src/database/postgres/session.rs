//! A session on PostgreSQL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use results::compare::DatabaseCounters;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row};

use crate::database::postgres::tablespaces::shares_of;
use crate::database::session::{Session, WaitSamples};
use crate::error::LabError;
use crate::host::interrupt;
use crate::limits::REPLY_MAX;

/// Tables and indexes of the load: object type for `alter`, name, bytes.
const RELATIONS: &str = "select case c.relkind when 'i' then 'index' else 'table' end, c.oid::regclass::text, \
     pg_relation_size(c.oid)::int8 from pg_class c join pg_namespace n on n.oid = c.relnamespace \
     where c.relkind in ('r', 'i') and n.nspname = 'millrace_orders' order by 3 desc, 2";

/// A session that reads values of the complete cluster.
pub(crate) struct PostgresSession {
    runtime: Runtime,
    client: Client,
    /// `server_version_num`: 150013 for 15.13.
    version: i32,
}

/// Cluster-wide counters; `BLOCKS` of them are sums over all databases and shared catalogs.
const DATABASE_SUMS: &str = "select sum(blks_read)::int8, sum(blks_hit)::int8, \
     sum(blk_read_time)::float8, sum(blk_write_time)::float8, sum(xact_commit)::int8, \
     sum(xact_rollback)::int8, sum(deadlocks)::int8, coalesce(sum(checksum_failures), 0)::int8, \
     (select archived_count::int8 from pg_stat_archiver), (select failed_count::int8 from pg_stat_archiver) \
     from pg_stat_database";

/// Blocks of the load's tables and indexes. Up to version 15, a block that extends a file counts as
/// read although nothing is read; the growth of the relations is the number of these blocks.
const BLOCKS_UP_TO_15: &str = "select coalesce(sum(pg_relation_size(c.oid)), 0)::int8 \
     / current_setting('block_size')::int8 from pg_class c join pg_namespace n \
     on n.oid = c.relnamespace where c.relkind in ('r', 'i') and n.nspname = 'millrace_orders'";

/// Data blocks written and checkpoints, up to version 16.
const WRITES_TO_16: &str = "select (buffers_checkpoint + buffers_clean + buffers_backend)::int8, \
     (checkpoints_timed + checkpoints_req)::int8 from pg_stat_bgwriter";

/// The same from version 17 on, which has them in other views.
const WRITES_FROM_17: &str = "select (select coalesce(sum(writes), 0)::int8 from pg_stat_io \
     where object = 'relation'), (num_timed + num_requested)::int8 from pg_stat_checkpointer";

/// Log bytes, flushes and their time (with `track_wal_io_timing`), up to version 17.
const LOG_TO_17: &str = "select wal_bytes::int8, wal_sync::int8, wal_sync_time::float8 from pg_stat_wal";

/// The same from version 18 on, which has the flushes in another view.
const LOG_FROM_18: &str = "select wal_bytes::int8, (select coalesce(sum(fsyncs), 0)::int8 from pg_stat_io \
     where object = 'wal'), (select coalesce(sum(fsync_time), 0)::float8 from pg_stat_io where object = 'wal') \
     from pg_stat_wal";

impl PostgresSession {
    /// Connects; the caller retries while the server starts.
    pub(crate) fn open(dsn: &str) -> Result<Self, LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LabError::file("start a runtime for", dsn))?;
        let (client, version) = runtime.block_on(within("connect", async {
            let (client, connection) = tokio_postgres::connect(dsn, NoTls).await?;
            tokio::spawn(connection);
            let row = client.query_one("select current_setting('server_version_num')::int4", &[]).await?;
            let version: i32 = row.try_get(0)?;
            Ok((client, version))
        }))?;
        Ok(Self { runtime, client, version })
    }

    fn rows(&self, action: &'static str, statement: &str) -> Result<Vec<Row>, LabError> {
        self.runtime.block_on(within(action, self.client.query(statement, &[])))
    }

    fn row(&self, action: &'static str, statement: &str) -> Result<Row, LabError> {
        self.runtime.block_on(within(action, self.client.query_one(statement, &[])))
    }

    /// Runs statements that return nothing, without a time limit, but checks
    /// the interrupt flag.
    pub(crate) fn run(&mut self, action: &'static str, statement: &str) -> Result<(), LabError> {
        let Self { runtime, client, .. } = self;
        runtime.block_on(async {
            let work = client.batch_execute(statement);
            tokio::pin!(work);
            loop {
                tokio::select! {
                    done = &mut work => return done.map_err(LabError::database(action)),
                    () = tokio::time::sleep(interrupt::POLL_EVERY) => interrupt::check()?,
                }
            }
        })
    }

    /// Relations of the load, listed by `statement`: kind, name and bytes of each.
    pub(crate) fn relations(&self, statement: &str) -> Result<Vec<(String, String, u64)>, LabError> {
        let rows = self.rows("list the tables", statement)?;
        rows.iter().map(|row| Ok((field(row, 0)?, field(row, 1)?, unsigned(row, 2)?))).collect()
    }
}

impl Session for PostgresSession {
    fn counters(&mut self) -> Result<DatabaseCounters, LabError> {
        let sums = self.row("read pg_stat_database", DATABASE_SUMS)?;
        let statement = if self.version >= 170_000 { WRITES_FROM_17 } else { WRITES_TO_16 };
        let writes = self.row("read the write counters", statement)?;
        let log = self.row("read the log's counters", if self.version >= 180_000 { LOG_FROM_18 } else { LOG_TO_17 })?;
        let blocks_extended =
            if self.version < 160_000 { unsigned(&self.row("read the size of tables", BLOCKS_UP_TO_15)?, 0)? } else { 0 };
        Ok(DatabaseCounters {
            blocks_extended,
            blocks_read: unsigned(&sums, 0)?,
            blocks_hit: unsigned(&sums, 1)?,
            block_read_ms: field(&sums, 2)?,
            block_write_ms: field(&sums, 3)?,
            commits: unsigned(&sums, 4)?,
            rollbacks: unsigned(&sums, 5)?,
            deadlocks: unsigned(&sums, 6)?,
            checksum_failures: unsigned(&sums, 7)?,
            log_segments_archived: unsigned(&sums, 8)?,
            log_archive_failures: unsigned(&sums, 9)?,
            blocks_written: unsigned(&writes, 0)?,
            checkpoints: unsigned(&writes, 1)?,
            log_bytes: unsigned(&log, 0)?,
            log_syncs: unsigned(&log, 1)?,
            log_sync_ms: field(&log, 2)?,
        })
    }

    /// A session reports its reads at its end. A running vacuum does so only when it ends, which may take minutes, so it is
    /// terminated.
    fn others(&mut self) -> Result<u64, LabError> {
        let end_vacuum = "select count(pg_terminate_backend(pid)) from pg_stat_activity where backend_type = 'autovacuum worker'";
        self.row("end autovacuum", end_vacuum)?;
        let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid() \
                      and backend_type in ('client backend', 'parallel worker', 'autovacuum worker')";
        unsigned(&self.row("read pg_stat_activity", others)?, 0)
    }

    fn sample_waits(&mut self, samples: &mut WaitSamples) -> Result<(), LabError> {
        let statement = "select coalesce(wait_event_type || ':' || wait_event, 'running'), count(*), \
             backend_type = 'autovacuum worker' from pg_stat_activity \
             where backend_type in ('client backend', 'autovacuum worker') and pid <> pg_backend_pid() group by 1, 3";
        let (rows, mut events, mut vacuum) = (self.rows("read pg_stat_activity", statement)?, Vec::new(), false);
        for row in &rows {
            if field(row, 2)? {
                vacuum = true;
            } else {
                events.push((field(row, 0)?, unsigned(row, 1)?));
            }
        }
        samples.add(events, vacuum);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), LabError> {
        self.run("vacuum", "vacuum (freeze, analyze)")?;
        self.run("write a checkpoint", "checkpoint")
    }

    fn spread(&mut self, shares: u32, place: &dyn Fn(u32) -> Result<PathBuf, LabError>) -> Result<(), LabError> {
        for number in 1..shares {
            let location = place(number)?.display().to_string().replace('\'', "''");
            self.run("make a tablespace", &format!("create tablespace millrace_{number} location '{location}'"))?;
        }
        let relations = self.relations(RELATIONS)?;
        let bytes: Vec<u64> = relations.iter().map(|(.., bytes)| *bytes).collect();
        for ((kind, name, _), share) in relations.iter().zip(shares_of(&bytes, shares as usize)) {
            if share > 0 {
                self.run("move a table", &format!("alter {kind} {name} set tablespace millrace_{share}"))?;
            }
        }
        Ok(())
    }

    /// The process that copies log segments to the archive.
    fn reader_of_other_files(&mut self) -> Result<Option<u32>, LabError> {
        let rows = self.rows("read pg_stat_activity", "select pid from pg_stat_activity where backend_type = 'archiver'")?;
        let pid: Option<i32> = rows.first().map(|row| field(row, 0)).transpose()?;
        Ok(pid.and_then(|pid| u32::try_from(pid).ok()))
    }

    fn database_bytes(&mut self) -> Result<u64, LabError> {
        let statement = "select pg_database_size(current_database())::int8";
        unsigned(&self.row("read the database's size", statement)?, 0)
    }

    /// Workers of autovacuum: one for each database in `autovacuum_naptime`.
    fn own_starts(&mut self, elapsed: Duration) -> Result<u64, LabError> {
        let statement = "select case when current_setting('autovacuum')::bool then setting::int8 else 0 end, \
                         (select count(*) from pg_database) from pg_settings where name = 'autovacuum_naptime'";
        let row = self.row("read autovacuum_naptime", statement)?;
        let (pause_s, databases) = (unsigned(&row, 0)?, unsigned(&row, 1)?);
        Ok((elapsed.as_secs() * databases).checked_div(pause_s).map_or(0, |starts| starts + 1))
    }

    fn session_start_bytes(&mut self) -> Result<u64, LabError> {
        let statement = "select coalesce((pg_stat_file('global/pg_internal.init', true)).size, 0)
                              + coalesce((pg_stat_file('base/' || oid || '/pg_internal.init', true)).size, 0)
                         from pg_database where datname = current_database()";
        unsigned(&self.row("read the size of the catalog cache", statement)?, 0)
    }

    fn block_bytes(&mut self) -> Result<u64, LabError> {
        let row = self.row("read block_size", "select current_setting('block_size')::int8")?;
        unsigned(&row, 0)
    }

    fn server_version(&mut self) -> Result<String, LabError> {
        field(&self.row("read server_version", "select current_setting('server_version')")?, 0)
    }

    fn changed_settings(&mut self) -> Result<BTreeMap<String, String>, LabError> {
        let statement = "select name, current_setting(name) from pg_settings \
             where source not in ('default', 'override') and name not in ('data_directory', \
             'config_file', 'hba_file', 'ident_file', 'unix_socket_directories', 'port', \
             'application_name', 'client_encoding', 'external_pid_file')";
        let mut settings = BTreeMap::new();
        for row in self.rows("read pg_settings", statement)? {
            settings.insert(field(&row, 0)?, field(&row, 1)?);
        }
        Ok(settings)
    }
}

async fn within<T>(action: &'static str, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, LabError> {
    match tokio::time::timeout(REPLY_MAX, work).await {
        Ok(outcome) => outcome.map_err(LabError::database(action)),
        Err(_) => Err(LabError::DatabaseSlow { action, seconds: REPLY_MAX.as_secs() }),
    }
}

fn field<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, LabError> {
    row.try_get(column).map_err(LabError::database("read a counter"))
}

fn unsigned(row: &Row, column: usize) -> Result<u64, LabError> {
    let value: i64 = field(row, column)?;
    Ok(u64::try_from(value).unwrap_or(0))
}
