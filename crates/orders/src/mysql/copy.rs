//! Loading MariaDB and MySQL: rows as text, in bulk if the server allows it.
//!
//! LOAD DATA LOCAL reads the rows as a stream of tab-separated lines. If `local_infile` is off,
//! multi-row INSERT statements transfer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::StreamExt as _;
use mysql_async::Row;
use mysql_async::prelude::Queryable;

use crate::common_sql;
use crate::database::{Config, Copier, Database as _, SCHEMA, STEP_PART, Schema, Unfinished};
use crate::error::OrdersError;
use crate::limits::COPY_CHUNK_BYTES;
use crate::rows::{RowSink, RowSource};
use crate::tables::{Table, Unit};

use super::caught::caught;
use super::{MySql, Session, schema, sql, value};

/// Entities generated between two checks of the chunk's size; the largest row is about 1 KiB.
const STEPS_AT_ONCE: u32 = 32;
/// The server's error for an existing index: the step was done before the load was interrupted.
const DUPLICATE_KEY_NAME: u16 = 1061;

/// A session that loads rows and builds indexes.
#[derive(Debug)]
pub struct MySqlCopier {
    session: Session,
    config: Config,
    style: Style,
    /// The time of the load in the server's notation.
    now: Option<Arc<str>>,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Lines for LOAD DATA.
    Lines,
    /// Tuples for INSERT.
    Tuples,
}

impl MySqlCopier {
    pub(super) async fn open(mut session: Session, config: Config) -> Result<Self, OrdersError> {
        const WHAT: &str = "preparing to load";
        let style = match session.number(WHAT, "SELECT @@GLOBAL.local_infile").await? {
            0 => Style::Tuples,
            _ => Style::Lines,
        };
        session.execute(WHAT, "SET unique_checks = 0").await?;
        Ok(Self { session, config, style, now: None })
    }

    async fn now(&mut self, now: SystemTime) -> Result<Arc<str>, OrdersError> {
        const WHAT: &str = "reading the time";
        if let Some(now) = &self.now {
            return Ok(Arc::clone(now));
        }
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let rows: Vec<Row> = self.session.rows(WHAT, &format!("SELECT CAST(FROM_UNIXTIME({seconds}) AS CHAR)")).await?;
        let text: String = rows.first().map_or_else(|| Ok(String::new()), |row| value(WHAT, row, 0))?;
        let text: Arc<str> = text.into();
        self.now = Some(Arc::clone(&text));
        Ok(text)
    }

    /// Sends all rows. Returns how many were generated and how many the server stored.
    async fn send(&mut self, what: &str, table: Table, chunks: Chunks) -> Result<(u64, u64), OrdersError> {
        let mut taken = 0;
        let generated = Arc::clone(&chunks.rows_sent);
        let (table, columns) = (table.name(), schema::copied_columns(table));
        if self.style == Style::Lines {
            self.session.conn.set_infile_handler(async move { Ok(futures_util::stream::iter(chunks.map(Ok)).boxed()) });
            let text = format!("LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET ascii{columns}");
            taken = self.affected(text.into_bytes()).await.map_err(sql(what))?;
        } else {
            let insert = format!("INSERT INTO {table}{columns} VALUES ");
            for tuples in chunks {
                taken += self.affected([insert.as_bytes(), &tuples].concat()).await.map_err(sql(what))?;
            }
        }
        Ok((generated.load(Ordering::Relaxed), taken))
    }

    /// Runs a statement. Returns how many rows it changed.
    async fn affected(&mut self, statement: Vec<u8>) -> Result<u64, mysql_async::Error> {
        caught(async {
            let result = self.session.conn.query_iter(statement).await?;
            let rows = result.affected_rows();
            result.drop_result().await?;
            Ok(rows)
        })
        .await
    }
}

impl Copier for MySqlCopier {
    async fn copy(&mut self, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError> {
        let table = unit.table.name();
        let what = format!("loading {table} of warehouse {}", unit.warehouse);
        let now = self.now(now).await?;
        self.session.execute(&what, "START TRANSACTION").await?;
        let chunks = Chunks {
            source: Some(RowSource::new(*unit, &self.config)),
            rows: TextRows::new(self.style, now),
            rows_sent: Arc::default(),
        };
        let (generated, taken) = self.send(&what, unit.table, chunks).await?;
        // LOAD DATA LOCAL turns errors of rows into warnings and skips the rows.
        if taken != generated {
            let detail = format!("{taken} of {generated} rows of {table} of warehouse {} were taken", unit.warehouse);
            return Err(OrdersError::Answer { what: "loading rows", detail });
        }
        self.session.execute(&what, &common_sql::note(unit.table as u32, unit.warehouse, taken)).await?;
        self.session.execute(&what, "COMMIT").await?;
        Ok(taken)
    }

    async fn finish(&mut self, index: usize) -> Result<(), OrdersError> {
        let Some((name, text)) = schema::STEPS.get(index) else {
            let detail = format!("there are {} steps, not {index}", schema::STEPS.len());
            return Err(OrdersError::Answer { what: "finishing the load", detail });
        };
        match caught(self.session.conn.query_drop(*text)).await {
            Err(mysql_async::Error::Server(error)) if error.code == DUPLICATE_KEY_NAME => {}
            outcome => outcome.map_err(sql(name))?,
        }
        let note = format!("REPLACE INTO load_progress VALUES ({STEP_PART} + {index}, 0, 0)");
        self.session.execute(name, &note).await
    }
}

/// Generated rows, one chunk at a time.
struct Chunks {
    source: Option<RowSource>,
    rows: TextRows,
    rows_sent: Arc<AtomicU64>,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let source = self.source.as_mut()?;
        let mut more = true;
        while more && self.rows.text.len() < COPY_CHUNK_BYTES {
            more = source.push(STEPS_AT_ONCE, &mut self.rows);
        }
        if !more {
            self.source = None;
        }
        let (chunk, rows) = self.rows.take();
        self.rows_sent.fetch_add(rows, Ordering::Relaxed);
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

/// Rows as text.
struct TextRows {
    style: Style,
    text: Vec<u8>,
    rows: u64,
    first_column: bool,
    now: Arc<str>,
}

impl TextRows {
    fn new(style: Style, now: Arc<str>) -> Self {
        let text = Vec::with_capacity(COPY_CHUNK_BYTES + (COPY_CHUNK_BYTES >> 3));
        Self { style, text, rows: 0, first_column: true, now }
    }

    /// The text written so far, complete, and the number of its rows.
    fn take(&mut self) -> (Vec<u8>, u64) {
        if self.rows > 0 {
            self.text.push(if self.style == Style::Lines { b'\n' } else { b')' });
        }
        let empty = Vec::with_capacity(self.text.capacity());
        (std::mem::replace(&mut self.text, empty), std::mem::take(&mut self.rows))
    }

    fn column(&mut self) {
        if !self.first_column {
            self.text.push(if self.style == Style::Lines { b'\t' } else { b',' });
        }
        self.first_column = false;
    }

    /// Writes a number without the formatting machinery, because loading spends most of its time here.
    fn digits(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.text.extend_from_slice(&digits[at..]);
    }

    fn quoted(&mut self, value: &[u8]) {
        self.column();
        match self.style {
            Style::Lines => self.text.extend_from_slice(value),
            Style::Tuples => {
                self.text.push(b'\'');
                self.text.extend_from_slice(value);
                self.text.push(b'\'');
            }
        }
    }
}

impl RowSink for TextRows {
    fn row(&mut self) {
        let between: &[u8] = match (self.style, self.rows) {
            (Style::Lines, 0) => b"",
            (Style::Lines, _) => b"\n",
            (Style::Tuples, 0) => b"(",
            (Style::Tuples, _) => b"),(",
        };
        self.text.extend_from_slice(between);
        self.rows += 1;
        self.first_column = true;
    }

    fn int(&mut self, value: u32) {
        self.column();
        self.digits(value.into());
    }

    fn long(&mut self, value: i64) {
        self.column();
        if value < 0 {
            self.text.push(b'-');
        }
        self.digits(value.unsigned_abs());
    }

    fn text(&mut self, value: &[u8]) {
        debug_assert!(value.iter().all(u8::is_ascii_alphanumeric), "nothing to escape");
        self.quoted(value);
    }

    fn now(&mut self) {
        let now = Arc::clone(&self.now);
        self.quoted(now.as_bytes());
    }

    fn null(&mut self) {
        self.column();
        self.text.extend_from_slice(if self.style == Style::Lines { b"\\N" } else { b"NULL" });
    }
}

/// Creates the database, if it is missing, and the empty tables. Each DDL statement commits, so the
/// table that marks the schema as half loaded comes first.
pub(super) async fn create(mysql: &MySql, config: &Config) -> Result<(), OrdersError> {
    const WHAT: &str = "creating the tables";
    let mut session = mysql.connect().await?;
    session.execute(WHAT, &format!("DO GET_LOCK('{SCHEMA}', 60)")).await?;
    let count = |of: &str, column: &str| format!("SELECT COUNT(*) FROM information_schema.{of} WHERE {column} = '{SCHEMA}'");
    let databases = session.number(WHAT, &count("schemata", "schema_name")).await?;
    let relations = session.number(WHAT, &count("tables", "table_schema")).await?;
    if relations > 0 {
        let half = match mysql.session().await {
            Ok(mut inside) => matches!(inside.stored_config().await, Ok((_, false))),
            Err(_) => false,
        };
        let server = mysql.description();
        return Err(if half {
            OrdersError::HalfLoaded { schema: Schema::MySql, server }
        } else {
            OrdersError::SchemaNotEmpty { schema: Schema::MySql, server, relations }
        });
    }
    session.execute(WHAT, &format!("CREATE DATABASE IF NOT EXISTS {SCHEMA}")).await?;
    session.execute(WHAT, &format!("USE {SCHEMA}")).await?;
    let made_schema = databases == 0;
    let insert = common_sql::insert_config(config, made_schema);
    let Err(failed) = make_tables(&mut session, Some(insert)).await else { return Ok(()) };
    let drop = if made_schema { format!("DROP DATABASE {SCHEMA}") } else { schema::drop_tables() };
    match session.execute(WHAT, &drop).await {
        Ok(()) => Err(failed),
        Err(dropping) => {
            let (dropping, source) = (Box::new(dropping), Box::new(failed));
            Err(OrdersError::LeftBehind { schema: Schema::MySql, dropping, source })
        }
    }
}

/// Creates the missing tables. Writes `first_row` after the first of them.
async fn make_tables(session: &mut Session, first_row: Option<String>) -> Result<(), OrdersError> {
    const WHAT: &str = "creating the tables";
    const KEYED: &str = "SHOW VARIABLES WHERE Value = 'ON' \
                         AND Variable_name IN ('innodb_force_primary_key', 'sql_require_primary_key')";
    let keyed = !session.rows::<Row>(WHAT, KEYED).await?.is_empty();
    let mut tables = schema::create(keyed).into_iter();
    for text in tables.next().into_iter().chain(first_row).chain(tables) {
        session.execute(WHAT, &text).await?;
    }
    Ok(())
}

/// Reads the state of a load that was interrupted.
pub(super) async fn unfinished(mysql: &MySql) -> Result<Unfinished, OrdersError> {
    const WHAT: &str = "reading how far the load was";
    let mut session = mysql.session().await?;
    let (config, loaded) = session.stored_config().await?;
    if loaded {
        let (server, warehouses) = (mysql.description(), config.warehouses);
        return Err(OrdersError::LoadedAlready { schema: Schema::MySql, server, warehouses });
    }
    // Each DDL statement commits, so a load that was killed early has created only some of the tables.
    make_tables(&mut session, None).await?;
    let mut unfinished = Unfinished::new(config);
    let parts: Vec<Row> = session.rows(WHAT, "SELECT part, warehouse, amount FROM load_progress").await?;
    for row in parts {
        unfinished.note(value(WHAT, &row, 0)?, value(WHAT, &row, 1)?, value(WHAT, &row, 2)?)?;
    }
    Ok(unfinished)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style) -> String {
        let mut rows = TextRows::new(style, "2026-11-21 07:00:00".into());
        for _ in 0..2 {
            rows.row();
            rows.int(1);
            rows.long(-20);
            rows.text(b"OE");
            rows.now();
            rows.null();
        }
        let (text, count) = rows.take();
        assert_eq!((count, rows.take()), (2, (Vec::new(), 0)));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn rows_are_lines_for_a_bulk_load_and_tuples_for_an_insert() {
        let line = "1\t-20\tOE\t2026-11-21 07:00:00\t\\N\n";
        assert_eq!(written(Style::Lines), [line, line].concat());
        let tuple = "(1,-20,'OE','2026-11-21 07:00:00',NULL)";
        assert_eq!(written(Style::Tuples), [tuple, tuple].join(","));
    }

    #[test]
    fn chunks_hold_every_row_once() {
        let config =
            Config { warehouses: 1, seed: 1, constants: crate::random::NuRandConstants::draw(&mut crate::random::stream(1, 1)) };
        let unit = Unit { table: crate::tables::Table::Stock, warehouse: 1 };
        let rows_sent = Arc::default();
        let chunks = Chunks {
            source: Some(RowSource::new(unit, &config)),
            rows: TextRows::new(Style::Lines, "".into()),
            rows_sent: Arc::clone(&rows_sent),
        };
        let lines: usize = chunks.map(|chunk| chunk.iter().filter(|byte| **byte == b'\n').count()).sum();
        assert_eq!((lines, rows_sent.load(Ordering::Relaxed)), (100_000, 100_000));
    }
}
