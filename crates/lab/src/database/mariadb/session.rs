//! A session on MariaDB: InnoDB's status counters, and the performance schema for times and waits.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use mysql_async::prelude::{FromRow, Queryable as _};
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use results::compare::DatabaseCounters;
use tokio::runtime::Runtime;

use crate::database::session::{Session, WaitSamples};
use crate::error::LabError;
use crate::host::interrupt;
use crate::limits::REPLY_MAX;

/// A session that reads values of the complete server.
pub(super) struct MariaDbSession {
    conn: Conn,
    /// Dropped after its connection.
    runtime: Runtime,
    /// `innodb_page_size` in bytes.
    page_bytes: u64,
}

/// Server-wide counters.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_pages_read', 'Innodb_buffer_pool_read_requests', \
     'Innodb_buffer_pool_reads', 'Innodb_pages_written', 'Innodb_dblwr_pages_written', 'Innodb_os_log_written', \
     'Innodb_data_fsyncs', 'Innodb_deadlocks', 'Com_commit', 'Com_rollback')";

/// Data files: milliseconds in reads and in writes (timers count picoseconds), and other calls, nearly
/// all of them flushes.
const DATA_FILES: &str = "SELECT CAST(SUM_TIMER_READ / 1e9 AS DOUBLE), CAST(SUM_TIMER_WRITE / 1e9 AS DOUBLE), COUNT_MISC \
     FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_data_file'";

const CHECKPOINTS: &str = "SELECT `COUNT` FROM information_schema.innodb_metrics WHERE NAME = 'log_checkpoints'";

/// Sessions by activity: a call on a file comes first, because a session in a transaction that does not wait for anything else is in one.
const WAITS: &str = "SELECT CASE WHEN p.COMMAND = 'Sleep' OR p.STATE IN ('Writing to net', 'Reading from net') THEN 'client' \
     WHEN w.EVENT_NAME IS NOT NULL THEN CONCAT(SUBSTRING_INDEX(w.EVENT_NAME, '/', -1), ':', w.OPERATION) \
     WHEN x.trx_state = 'LOCK WAIT' THEN 'row lock' \
     WHEN p.STATE LIKE 'Waiting for%lock' THEN 'table lock' \
     WHEN p.STATE = 'Commit' THEN 'commit' ELSE 'running' END AS event, COUNT(*) \
     FROM information_schema.PROCESSLIST p JOIN performance_schema.threads t ON t.PROCESSLIST_ID = p.ID \
     LEFT JOIN performance_schema.events_waits_current w ON w.THREAD_ID = t.THREAD_ID AND w.END_EVENT_ID IS NULL \
     LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = p.ID \
     WHERE p.ID <> CONNECTION_ID() AND p.COMMAND <> 'Daemon' AND p.USER <> 'system user' GROUP BY event";

const OTHERS: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
     WHERE ID <> CONNECTION_ID() AND COMMAND <> 'Daemon' AND USER <> 'system user'";

const DATABASE_BYTES: &str = "SELECT CAST(SUM(FILE_SIZE) AS UNSIGNED) FROM information_schema.INNODB_SYS_TABLESPACES \
     WHERE NAME LIKE 'millrace\\_orders/%'";

const TABLES: &str = "SELECT CONCAT('millrace_orders.`', TABLE_NAME, '`') FROM information_schema.TABLES \
     WHERE TABLE_SCHEMA = 'millrace_orders' AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME";

const CHANGED: &str = "SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES \
     WHERE GLOBAL_VALUE_ORIGIN IN ('CONFIG', 'COMMAND-LINE', 'SQL') AND VARIABLE_NAME NOT IN ('DATADIR', 'TMPDIR', 'SOCKET', \
     'PID_FILE', 'INNODB_LOG_GROUP_HOME_DIR', 'IGNORE_DB_DIRS') AND GLOBAL_VALUE IS NOT NULL";

impl MariaDbSession {
    /// Connects; the caller retries while the server starts.
    pub(super) fn open(dsn: &str) -> Result<Self, LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LabError::file("start a runtime for", dsn))?;
        let (conn, page_bytes) = runtime.block_on(within("connect", async {
            let options = OptsBuilder::from_opts(Opts::from_url(dsn)?).prefer_socket(true);
            let mut conn = Conn::new(options).await?;
            let page_bytes: Option<u64> = conn.query_first("SELECT @@innodb_page_size").await?;
            Ok((conn, page_bytes.unwrap_or_default()))
        }))?;
        Ok(Self { conn, runtime, page_bytes })
    }

    fn rows<T: FromRow + Send + 'static>(&mut self, action: &'static str, statement: &str) -> Result<Vec<T>, LabError> {
        self.runtime.block_on(within(action, self.conn.query(statement)))
    }

    /// The first row; `None` if there are no rows.
    fn row<T: FromRow + Send + 'static>(&mut self, action: &'static str, statement: &str) -> Result<Option<T>, LabError> {
        Ok(self.rows(action, statement)?.into_iter().next())
    }

    /// Runs a statement and ignores its result, without a time limit, but checks the interrupt flag.
    fn run(&mut self, action: &'static str, statement: &str) -> Result<(), LabError> {
        let Self { runtime, conn, .. } = self;
        runtime.block_on(async {
            let work = conn.query_drop(statement);
            tokio::pin!(work);
            loop {
                tokio::select! {
                    done = &mut work => return done.map_err(LabError::database(action)),
                    () = tokio::time::sleep(interrupt::POLL_EVERY) => interrupt::check()?,
                }
            }
        })
    }
}

impl Session for MariaDbSession {
    fn counters(&mut self) -> Result<DatabaseCounters, LabError> {
        let status: HashMap<String, String> = self.rows("read InnoDB's status", STATUS)?.into_iter().collect();
        let of = |name: &str| status.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        let files: Option<(f64, f64, u64)> = self.row("read the times of data files", DATA_FILES)?;
        let (block_read_ms, block_write_ms, data_flushes) = files.unwrap_or_default();
        let checkpoints: Option<u64> = self.row("count checkpoints", CHECKPOINTS)?;
        Ok(DatabaseCounters {
            blocks_read: of("Innodb_pages_read"),
            blocks_hit: of("Innodb_buffer_pool_read_requests").saturating_sub(of("Innodb_buffer_pool_reads")),
            block_read_ms,
            block_write_ms,
            // A page and its copy in the doublewrite buffer count as two blocks written.
            blocks_written: of("Innodb_pages_written") + of("Innodb_dblwr_pages_written"),
            log_bytes: of("Innodb_os_log_written"),
            // The status variable counts flushes of all files.
            log_syncs: of("Innodb_data_fsyncs").saturating_sub(data_flushes),
            checkpoints: checkpoints.unwrap_or(0),
            commits: of("Com_commit"),
            rollbacks: of("Com_rollback"),
            deadlocks: of("Innodb_deadlocks"),
            ..DatabaseCounters::default()
        })
    }

    fn others(&mut self) -> Result<u64, LabError> {
        Ok(self.row("list the sessions", OTHERS)?.unwrap_or(0))
    }

    fn sample_waits(&mut self, samples: &mut WaitSamples) -> Result<(), LabError> {
        let events: Vec<(String, u64)> = self.rows("list what sessions wait for", WAITS)?;
        samples.add(events, false);
        Ok(())
    }

    /// Also creates index statistics. The subsequent shutdown purges all old row versions; otherwise a run would have to do that.
    fn settle(&mut self) -> Result<(), LabError> {
        let tables: Vec<String> = self.rows("list the tables", TABLES)?;
        self.run("analyze the tables", &format!("ANALYZE TABLE {}", tables.join(", ")))?;
        self.run("set the way of the shutdown", "SET GLOBAL innodb_fast_shutdown = 0")
    }

    fn spread(&mut self, _shares: u32, _place: &dyn Fn(u32) -> Result<PathBuf, LabError>) -> Result<(), LabError> {
        // Plans that require this are refused.
        Err(LabError::plan("spread tables over volumes with MariaDB", "only with PostgreSQL: --database postgresql"))
    }

    fn database_bytes(&mut self) -> Result<u64, LabError> {
        Ok(self.row("read the size of the tables", DATABASE_BYTES)?.unwrap_or(0))
    }

    fn block_bytes(&mut self) -> Result<u64, LabError> {
        Ok(self.page_bytes)
    }

    fn server_version(&mut self) -> Result<String, LabError> {
        Ok(self.row("read the version", "SELECT VERSION()")?.unwrap_or_default())
    }

    fn changed_settings(&mut self) -> Result<BTreeMap<String, String>, LabError> {
        Ok(self.rows("read the variables", CHANGED)?.into_iter().collect())
    }
}

async fn within<T>(action: &'static str, work: impl Future<Output = Result<T, Error>>) -> Result<T, LabError> {
    match tokio::time::timeout(REPLY_MAX, work).await {
        Ok(outcome) => outcome.map_err(LabError::database(action)),
        Err(_) => Err(LabError::DatabaseSlow { action, seconds: REPLY_MAX.as_secs() }),
    }
}
