//! The tables of coordinated runs in the results database, schema `millrace_results`.
//!
//! All times come from the clock of this database, so the clocks of the drivers' hosts
//! need not agree.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use results::orders_run::OrdersRun;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, Row};

use super::agreement::{AgreedOptions, SharedRun};
use super::common_interval::{Driver, Status};
use super::error::CoordinationError;
use crate::error::OrdersError;
use crate::limits::{DRIVER_TIMEOUT_S, RECORD_BYTES_MAX, RESULTS_REPLY_S, START_LEAD_S, START_SAMPLES};
use crate::postgres::Postgres;

/// Version of these tables.
const VERSION: i32 = 1;
/// The schema of these tables.
const SCHEMA: &str = "millrace_results";

const TABLES: &str = "
CREATE SCHEMA IF NOT EXISTS millrace_results;
CREATE TABLE IF NOT EXISTS millrace_results.about (version int NOT NULL);
INSERT INTO millrace_results.about SELECT 1 WHERE NOT EXISTS (SELECT FROM millrace_results.about);
CREATE TABLE IF NOT EXISTS millrace_results.run (
    name text PRIMARY KEY, drivers int NOT NULL, seed bigint NOT NULL, warmup_s bigint NOT NULL,
    measured_s bigint NOT NULL, terms jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(), start_at timestamptz, merged jsonb);
CREATE TABLE IF NOT EXISTS millrace_results.driver (
    run text NOT NULL REFERENCES millrace_results.run ON DELETE CASCADE, number int NOT NULL,
    token bigint NOT NULL, host text NOT NULL, pid int NOT NULL, users int NOT NULL, first_user int NOT NULL,
    status text NOT NULL, heard_at timestamptz NOT NULL, start_error_ms float8 NOT NULL DEFAULT 0,
    error text, record jsonb, PRIMARY KEY (run, number));
CREATE TABLE IF NOT EXISTS millrace_results.cut (
    run text NOT NULL, number int NOT NULL, second bigint NOT NULL, record jsonb NOT NULL,
    PRIMARY KEY (run, number, second),
    FOREIGN KEY (run, number) REFERENCES millrace_results.driver ON DELETE CASCADE);";

/// A driver's membership of a run: its number and its share of the users.
#[derive(Debug, Clone)]
pub(super) struct Membership {
    pub(super) run: String,
    pub(super) number: i32,
    /// Distinguishes this driver from an earlier one with the same number.
    token: i64,
    pub(super) users: u32,
    pub(super) first_user: u32,
    /// Seed of the run, the first driver's.
    pub(super) seed: u64,
}

/// State of the start barrier.
#[derive(Debug)]
pub(super) struct Barrier {
    /// Numbers and hosts of the drivers that are ready and alive.
    pub(super) ready: BTreeMap<u32, String>,
    /// Whether the start time is set.
    pub(super) started: bool,
}

/// A session with the results database.
pub(super) struct Store {
    client: Client,
}

impl Store {
    pub(super) async fn open(results: &Postgres) -> Result<Self, OrdersError> {
        let client = results.connect().await?;
        let store = Self { client };
        // Losing heartbeats in a crash of this database does no harm.
        let settings = "SET client_min_messages = warning; SET synchronous_commit = off; SET default_transaction_read_only = off; \
                        SET statement_timeout = 0";
        store.batch(settings).await?;
        Ok(store)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Creates the tables if they do not exist.
    pub(super) async fn prepare(&self) -> Result<(), OrdersError> {
        // If several drivers come at once, one of them creates the tables.
        let lock =
            "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_advisory_xact_lock(hashtextextended('millrace_results', 0))";
        self.batch(&format!("{lock}; {TABLES} COMMIT")).await?;
        self.check_version().await
    }

    async fn check_version(&self) -> Result<(), OrdersError> {
        let row = self.row("SELECT version FROM millrace_results.about", &[]).await?;
        let found: i32 = field(&row, 0)?;
        if found != VERSION {
            return Err(CoordinationError::Version { schema: SCHEMA, found, expected: VERSION }.into());
        }
        Ok(())
    }

    /// Joins the run. The first driver creates it.
    pub(super) async fn join(&self, shared_run: &SharedRun, agreed: &AgreedOptions) -> Result<Membership, OrdersError> {
        self.batch("BEGIN").await?;
        let joined = self.join_within(shared_run, agreed).await;
        self.batch(if joined.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        joined
    }

    async fn join_within(&self, shared_run: &SharedRun, agreed: &AgreedOptions) -> Result<Membership, OrdersError> {
        let (name, drivers) = (&shared_run.run, i32::try_from(shared_run.drivers).unwrap_or(i32::MAX));
        let seed = agreed.seed.unwrap_or(agreed.seed_else).cast_signed();
        let (warmup_s, measured_s) = (agreed.warmup_s.cast_signed(), agreed.measured_s.cast_signed());
        let others = serde_json::to_string(&agreed.others).unwrap_or_default();
        self.execute(
            "INSERT INTO millrace_results.run (name, drivers, seed, warmup_s, measured_s, terms) \
             VALUES ($1, $2, $3, $4, $5, $6::text::jsonb) ON CONFLICT DO NOTHING",
            &[name, &drivers, &seed, &warmup_s, &measured_s, &others],
        )
        .await?;
        let row = self
            .row(
                "SELECT drivers, seed, warmup_s, measured_s, terms::text, \
                 extract(epoch FROM clock_timestamp() - start_at)::float8 \
                 FROM millrace_results.run WHERE name = $1 FOR UPDATE",
                &[name],
            )
            .await?;
        let seed: i64 = field(&row, 1)?;
        let mut theirs: BTreeMap<String, String> = serde_json::from_str(&field::<String>(&row, 4)?).unwrap_or_default();
        theirs.insert("--drivers".to_owned(), field::<i32>(&row, 0)?.to_string());
        theirs.insert("--warmup".to_owned(), field::<i64>(&row, 2)?.to_string());
        theirs.insert("--seconds".to_owned(), field::<i64>(&row, 3)?.to_string());
        let mut ours = agreed.others.clone();
        ours.insert("--drivers".to_owned(), drivers.to_string());
        ours.insert("--warmup".to_owned(), warmup_s.to_string());
        ours.insert("--seconds".to_owned(), measured_s.to_string());
        if let Some(own) = agreed.seed {
            theirs.insert("--seed".to_owned(), seed.cast_unsigned().to_string());
            ours.insert("--seed".to_owned(), own.to_string());
        }
        agree(name, &theirs, &ours)?;
        if let Some(ago_s) = field::<Option<f64>>(&row, 5)? {
            return Err(CoordinationError::Begun { run: name.clone(), ago_s: ago_s as i64 }.into());
        }
        let number = self.free_number(shared_run).await?;
        let (users, first_user) = agreed.share(number.unsigned_abs(), shared_run.drivers);
        let row = self
            .row(
                "INSERT INTO millrace_results.driver AS d \
                 (run, number, token, host, pid, users, first_user, status, heard_at) \
                 VALUES ($1, $2, pg_current_xact_id()::text::bigint, $3, $4, $5, $6, 'joined', clock_timestamp()) \
                 ON CONFLICT (run, number) DO UPDATE SET (token, host, pid, status, heard_at, error) = \
                 (excluded.token, excluded.host, excluded.pid, excluded.status, excluded.heard_at, NULL) \
                 RETURNING token",
                &[
                    name,
                    &number,
                    &shared_run.host,
                    &std::process::id().cast_signed(),
                    &users.cast_signed(),
                    &first_user.cast_signed(),
                ],
            )
            .await?;
        Ok(Membership { run: name.clone(), number, token: field(&row, 0)?, users, first_user, seed: seed.cast_unsigned() })
    }

    /// The requested number, or the first number that no live driver has.
    async fn free_number(&self, shared_run: &SharedRun) -> Result<i32, OrdersError> {
        let rows = self
            .rows(
                "SELECT number FROM millrace_results.driver WHERE run = $1 AND status <> 'failed' \
                 AND heard_at > clock_timestamp() - make_interval(secs => $2)",
                &[&shared_run.run, &DRIVER_TIMEOUT_S],
            )
            .await?;
        let taken = rows.iter().map(|row| field::<i32>(row, 0)).collect::<Result<Vec<i32>, _>>()?;
        let numbers = 1..=i32::try_from(shared_run.drivers).unwrap_or(i32::MAX);
        let free = match shared_run.driver {
            Some(wanted) => Some(wanted.cast_signed()).filter(|wanted| !taken.contains(wanted)),
            None => numbers.into_iter().find(|number| !taken.contains(number)),
        };
        free.ok_or_else(|| {
            let what = shared_run.driver.map_or_else(
                || format!("each of the {} driver numbers", shared_run.drivers),
                |wanted| format!("driver number {wanted}"),
            );
            CoordinationError::Taken { run: shared_run.run.clone(), what }.into()
        })
    }

    /// Stores a heartbeat and whether this driver is ready. Fails if another driver has its number.
    pub(super) async fn heartbeat(&self, membership: &Membership, ready: bool) -> Result<(), OrdersError> {
        let changed = self
            .execute(
                "UPDATE millrace_results.driver SET heard_at = clock_timestamp(), \
                 status = CASE WHEN $4 AND status = 'joined' THEN 'ready' ELSE status END \
                 WHERE run = $1 AND number = $2 AND token = $3",
                &[&membership.run, &membership.number, &membership.token, &ready],
            )
            .await?;
        still_member(changed, membership)
    }

    /// Stores the measurements up to a snapshot, with a heartbeat.
    pub(super) async fn add_snapshot(&self, membership: &Membership, record: &OrdersRun) -> Result<(), OrdersError> {
        // The heartbeat first, so that a driver that dies in between is never considered missing from before its last snapshot.
        self.heartbeat(membership, true).await?;
        self.execute(
            "INSERT INTO millrace_results.cut SELECT run, number, $4, $5::text::jsonb FROM millrace_results.driver \
             WHERE run = $1 AND number = $2 AND token = $3 ON CONFLICT DO NOTHING",
            &[&membership.run, &membership.number, &membership.token, &(record.measured_s.round() as i64), &text(record)],
        )
        .await?;
        Ok(())
    }

    /// Reads which drivers are ready, and sets the start time once all are.
    pub(super) async fn barrier(&self, membership: &Membership, drivers: u32) -> Result<Barrier, OrdersError> {
        let rows = self
            .rows(
                "SELECT number, host FROM millrace_results.driver WHERE run = $1 AND status = 'ready' \
                 AND heard_at > clock_timestamp() - make_interval(secs => $2)",
                &[&membership.run, &DRIVER_TIMEOUT_S],
            )
            .await?;
        let mut ready = BTreeMap::new();
        for row in &rows {
            ready.insert(field::<i32>(row, 0)?.unsigned_abs(), field::<String>(row, 1)?);
        }
        if ready.len() >= drivers as usize {
            self.execute(
                "UPDATE millrace_results.run SET start_at = clock_timestamp() + make_interval(secs => $2) \
                 WHERE name = $1 AND start_at IS NULL",
                &[&membership.run, &START_LEAD_S],
            )
            .await?;
        }
        let row = self.row("SELECT start_at IS NOT NULL FROM millrace_results.run WHERE name = $1", &[&membership.run]).await?;
        Ok(Barrier { ready, started: field(&row, 0)? })
    }

    /// The start time on this host's monotonic clock, from the fastest of a few queries. Also stores the possible
    /// error of this time.
    pub(super) async fn start(&self, membership: &Membership) -> Result<Instant, OrdersError> {
        let mut best: Option<(Duration, Instant)> = None;
        for _ in 0..START_SAMPLES {
            let asked = Instant::now();
            let row = self
                .row(
                    "SELECT extract(epoch FROM start_at - clock_timestamp())::float8 \
                     FROM millrace_results.run WHERE name = $1",
                    &[&membership.run],
                )
                .await?;
            let took = asked.elapsed();
            let ahead_s: f64 = field(&row, 0)?;
            let answered = asked + took / 2;
            let start = if ahead_s >= 0.0 {
                answered + Duration::from_secs_f64(ahead_s.min(START_LEAD_S))
            } else {
                let late = Duration::try_from_secs_f64(-ahead_s).unwrap_or_default();
                answered.checked_sub(late).unwrap_or(answered)
            };
            if best.is_none_or(|(quickest, _)| took < quickest) {
                best = Some((took, start));
            }
        }
        let (took, start) = best.unwrap_or_else(|| (Duration::ZERO, Instant::now()));
        let error_ms = took.as_secs_f64() * 500.0;
        self.execute(
            "UPDATE millrace_results.driver SET start_error_ms = $4 WHERE run = $1 AND number = $2 AND token = $3",
            &[&membership.run, &membership.number, &membership.token, &error_ms],
        )
        .await?;
        Ok(start)
    }

    /// Stores how this driver ended.
    ///
    /// **Durability**: on disk in the results database when it returns.
    pub(super) async fn end(&self, membership: &Membership, ended: &Result<OrdersRun, String>) -> Result<(), OrdersError> {
        let (status, record, error) = match ended {
            Ok(record) => (Status::Finished, Some(text(record)), None),
            Err(error) => (Status::Failed, None, Some(error.as_str())),
        };
        self.batch("SET synchronous_commit = on").await?;
        let changed = self
            .execute(
                "UPDATE millrace_results.driver SET status = $4, record = $5::text::jsonb, error = $6, \
                 heard_at = clock_timestamp() WHERE run = $1 AND number = $2 AND token = $3",
                &[&membership.run, &membership.number, &membership.token, &status.name(), &record, &error],
            )
            .await?;
        still_member(changed, membership)
    }

    /// Drivers that have not ended and still send heartbeats: number, and seconds since the last heartbeat.
    pub(super) async fn at_work(&self, run: &str) -> Result<BTreeMap<u32, f64>, OrdersError> {
        let rows = self
            .rows(
                "SELECT number, extract(epoch FROM clock_timestamp() - heard_at)::float8 FROM millrace_results.driver \
                 WHERE run = $1 AND status NOT IN ('finished', 'failed') \
                 AND heard_at > clock_timestamp() - make_interval(secs => $2)",
                &[&run, &DRIVER_TIMEOUT_S],
            )
            .await?;
        rows.iter().map(|row| Ok((field::<i32>(row, 0)?.unsigned_abs(), field(row, 1)?))).collect()
    }

    /// Seconds of the interval, and all drivers of a run.
    pub(super) async fn drivers(&self, run: &str) -> Result<(f64, Vec<Driver>), OrdersError> {
        let there = self.row("SELECT to_regclass('millrace_results.about') IS NOT NULL", &[]).await?;
        let no_run = || OrdersError::from(CoordinationError::NoRun { run: run.to_owned() });
        if !field::<bool>(&there, 0)? {
            return Err(no_run());
        }
        self.check_version().await?;
        let rows = self.rows("SELECT measured_s FROM millrace_results.run WHERE name = $1", &[&run]).await?;
        let measured_s: i64 = field(rows.first().ok_or_else(no_run)?, 0)?;
        let rows = self
            .rows(
                "SELECT number, host, users, first_user, status, \
                 extract(epoch FROM clock_timestamp() - heard_at)::float8, \
                 coalesce(extract(epoch FROM heard_at - start_at) - warmup_s, 0)::float8, \
                 start_error_ms, error, record::text, \
                 ARRAY(SELECT second FROM millrace_results.cut c WHERE (c.run, c.number) = (d.run, d.number) ORDER BY 1) \
                 FROM millrace_results.driver d JOIN millrace_results.run r ON r.name = d.run \
                 WHERE run = $1 ORDER BY number",
                &[&run],
            )
            .await?;
        let drivers = rows.iter().map(|row| driver(run, row)).collect::<Result<_, _>>()?;
        Ok((measured_s as f64, drivers))
    }

    /// The drivers' records at the snapshot of one second.
    pub(super) async fn snapshots(&self, run: &str, second: u64) -> Result<BTreeMap<u32, OrdersRun>, OrdersError> {
        let rows = self
            .rows(
                "SELECT number, record::text FROM millrace_results.cut WHERE run = $1 AND second = $2",
                &[&run, &second.cast_signed()],
            )
            .await?;
        let mut snapshots = BTreeMap::new();
        for row in &rows {
            let number = field::<i32>(row, 0)?.unsigned_abs();
            snapshots.insert(number, read_record(run, number, &field::<String>(row, 1)?)?);
        }
        Ok(snapshots)
    }

    /// Stores the merged record. If it is `whole`, deletes the snapshots.
    pub(super) async fn keep_merged(&self, run: &str, merged: &OrdersRun, whole: bool) -> Result<(), OrdersError> {
        self.execute("UPDATE millrace_results.run SET merged = $2::text::jsonb WHERE name = $1", &[&run, &text(merged)]).await?;
        if whole {
            self.execute("DELETE FROM millrace_results.cut WHERE run = $1", &[&run]).await?;
        }
        Ok(())
    }

    async fn batch(&self, statements: &str) -> Result<(), OrdersError> {
        within(self.client.batch_execute(statements)).await
    }

    async fn execute(&self, statement: &str, values: Values<'_>) -> Result<u64, OrdersError> {
        within(self.client.execute(statement, values)).await
    }

    async fn rows(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, OrdersError> {
        within(self.client.query(statement, values)).await
    }

    async fn row(&self, statement: &str, values: Values<'_>) -> Result<Row, OrdersError> {
        within(self.client.query_one(statement, values)).await
    }
}

type Values<'a> = &'a [&'a (dyn tokio_postgres::types::ToSql + Sync)];

const WHAT: &str = "using the results database";

async fn within<T>(work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, OrdersError> {
    match tokio::time::timeout(Duration::from_secs(RESULTS_REPLY_S), work).await {
        Ok(outcome) => outcome.map_err(|source| OrdersError::Sql { what: WHAT.to_owned(), source }),
        Err(_) => Err(OrdersError::ConnectTimeout { server: "the results database".to_owned(), seconds: RESULTS_REPLY_S }),
    }
}

fn field<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, OrdersError> {
    row.try_get(column).map_err(|source| OrdersError::Sql { what: WHAT.to_owned(), source })
}

fn text(record: &OrdersRun) -> String {
    // A record contains only numbers and text, so it always has a JSON form.
    serde_json::to_string(record).unwrap_or_default()
}

fn still_member(changed: u64, membership: &Membership) -> Result<(), OrdersError> {
    if changed == 1 {
        return Ok(());
    }
    Err(CoordinationError::Replaced { run: membership.run.clone(), driver: membership.number.unsigned_abs() }.into())
}

fn agree(run: &str, theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Result<(), CoordinationError> {
    for term in theirs.keys().chain(ours.keys()) {
        let value = |side: &BTreeMap<String, String>| side.get(term).cloned().unwrap_or_else(|| "none".to_owned());
        if theirs.get(term) != ours.get(term) {
            return Err(CoordinationError::Disagree {
                run: run.to_owned(),
                term: term.clone(),
                theirs: value(theirs),
                ours: value(ours),
            });
        }
    }
    Ok(())
}

fn driver(run: &str, row: &Row) -> Result<Driver, OrdersError> {
    let number = field::<i32>(row, 0)?.unsigned_abs();
    let status: String = field(row, 4)?;
    let unreadable = |detail: String| CoordinationError::Record { run: run.to_owned(), driver: number, detail };
    let record: Option<String> = field(row, 9)?;
    Ok(Driver {
        number,
        host: field(row, 1)?,
        users: field::<i32>(row, 2)?.unsigned_abs(),
        first_user: field::<i32>(row, 3)?.unsigned_abs(),
        status: Status::parse(&status).ok_or_else(|| unreadable(format!("status {status}")))?,
        since_heartbeat_s: field(row, 5)?,
        heartbeat_s: field(row, 6)?,
        start_error_ms: field(row, 7)?,
        error: field(row, 8)?,
        record: record.map(|text| read_record(run, number, &text)).transpose()?,
        snapshots: field::<Vec<i64>>(row, 10)?.into_iter().map(i64::cast_unsigned).collect(),
    })
}

fn read_record(run: &str, driver: u32, text: &str) -> Result<OrdersRun, CoordinationError> {
    let unreadable = |detail: String| CoordinationError::Record { run: run.to_owned(), driver, detail };
    if text.len() > RECORD_BYTES_MAX {
        return Err(unreadable(format!("{} bytes are over the limit of {RECORD_BYTES_MAX}", text.len())));
    }
    serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))
}
