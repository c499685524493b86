//! Records in a PostgreSQL database, schema `millrace_history`: an alternative to a directory, for hosts that keep no files.

use std::path::{Path, PathBuf};

use results::compare::Comparison;
use results::history::LeftOut;
use serde_json::Value;

use super::entry::Entry;
use super::find::{self, Found};
use crate::database::sql::{self, Client};
use crate::error::LabError;
use crate::limits::{HISTORY_DEPTH_MAX, KEPT_RECORD_BYTES_MAX, KEPT_RECORDS_MAX};

/// Version of the tables.
const VERSION: i32 = 1;

/// The digest is that of the record as stored in the database, so that the order of fields and white space do not matter.
const TABLES: &str = "
CREATE SCHEMA millrace_history;
CREATE TABLE millrace_history.about (version int NOT NULL);
INSERT INTO millrace_history.about VALUES (1);
CREATE TABLE millrace_history.record (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL UNIQUE, started_utc text NOT NULL,
    source text NOT NULL, kept_at timestamptz NOT NULL DEFAULT clock_timestamp(), record jsonb NOT NULL);
CREATE INDEX ON millrace_history.record (started_utc, id);";

/// Data of a run second by second, which are most of a record's size; no figure of a history uses them.
const LEFT_OUT_OF_RUNS: [&str; 3] = ["series", "warmup_per_second", "filling"];

/// Result of adding records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Added {
    /// Number of new records.
    pub added: usize,
    /// Number of records that already existed.
    pub known: usize,
    /// Files that are not records.
    pub left_out: Vec<LeftOut>,
}

/// Stores every record in and below these directories in the database of `dsn`; creates the schema if it is missing.
/// Calls `progress` with the number of records read and their total.
///
/// **Durability**: each counted record is committed.
///
/// # Errors
/// A directory cannot be read, the server cannot be reached or refuses, or a schema with this name is not Millrace's.
pub fn add(dsn: &str, places: &[PathBuf], progress: &mut dyn FnMut(usize, usize)) -> Result<Added, LabError> {
    let (files, left_out) = find::files(places, HISTORY_DEPTH_MAX)?;
    let mut added = Added { left_out, ..Added::default() };
    with_client(dsn, async |client| {
        prepare(client).await?;
        for (done, file) in files.iter().enumerate() {
            progress(done, files.len());
            let shown = file.display().to_string();
            match reduced(file) {
                Ok(text) => match insert(client, &text, &shown).await? {
                    0 => added.known += 1,
                    _ => added.added += 1,
                },
                Err(error) => added.left_out.push(LeftOut { reason: find::reason(&error, file), record: shown }),
            }
        }
        Ok(added)
    })
}

/// Reads the records of the database of `dsn`.
///
/// # Errors
/// The server cannot be reached or refuses, or the database has no records.
pub fn read(dsn: &str, progress: &mut dyn FnMut(usize, usize)) -> Result<Found, LabError> {
    with_client(dsn, async |client| {
        if !is_there(client).await? {
            return Err(LabError::plan(
                "read records: this database has no schema millrace_history".to_owned(),
                "millrace history add DIR --db DSN makes it and keeps the records of DIR there",
            ));
        }
        let ids = "SELECT id, source FROM millrace_history.record ORDER BY started_utc, id LIMIT $1";
        let ids = client.query(ids, &[&KEPT_RECORDS_MAX]).await.map_err(LabError::database("list the records"))?;
        let (mut entries, mut left_out) = (Vec::new(), Vec::new());
        for (done, row) in ids.iter().enumerate() {
            progress(done, ids.len());
            let (id, source): (i64, String) = (row.get(0), row.get(1));
            let record = format!("record {id} of the database ({source})");
            // One at a time, because all together may be larger than the memory.
            let text = client.query_one("SELECT record::text FROM millrace_history.record WHERE id = $1", &[&id]).await;
            let text: String = text.map_err(LabError::database("read a record"))?.get(0);
            match serde_json::from_str::<Comparison>(&text) {
                Ok(comparison) => entries.push(Entry::of(&comparison, record)),
                Err(error) => left_out.push(LeftOut { record, reason: error.to_string() }),
            }
        }
        Ok(Found::of(entries, left_out))
    })
}

/// Opens a session for the duration of `work`.
fn with_client<T>(dsn: &str, work: impl AsyncFnOnce(&Client) -> Result<T, LabError>) -> Result<T, LabError> {
    sql::with_client(dsn, "the session with the database", async |client| {
        let settings =
            "SET client_min_messages = warning; SET statement_timeout = '60s'; SET default_transaction_read_only = off";
        client.batch_execute(settings).await.map_err(LabError::database("set the session"))?;
        work(client).await
    })
}

/// Creates the tables if they do not exist.
async fn prepare(client: &Client) -> Result<(), LabError> {
    // If several programs come at once, one of them creates the tables.
    let begin = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('millrace_history', 0))";
    client.batch_execute(begin).await.map_err(LabError::database("lock the schema millrace_history"))?;
    let made = match is_there(client).await {
        Ok(true) => Ok(()),
        Ok(false) => client.batch_execute(TABLES).await.map_err(LabError::database("make the schema millrace_history")),
        Err(error) => Err(error),
    };
    let end = if made.is_ok() { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await.map_err(LabError::database("make the schema millrace_history"))?;
    made
}

/// Whether the tables exist. Refuses a schema of that name that is not Millrace's, or has another version.
async fn is_there(client: &Client) -> Result<bool, LabError> {
    // The catalogs also show tables that this role may not use.
    let look = "SELECT to_regnamespace('millrace_history') IS NOT NULL, \
                (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'millrace_history' AND NOT a.attisdropped \
                 AND (c.relname, a.attname) IN (('about', 'version'), ('record', 'digest'), ('record', 'record'))) = 3";
    let row = client.query_one(look, &[]).await.map_err(LabError::database("look for the schema millrace_history"))?;
    let (schema, ours): (bool, bool) = (row.get(0), row.get(1));
    if schema && !ours {
        return Err(LabError::plan(
            "keep records in the schema millrace_history: it is there, and its tables are not those of Millrace".to_owned(),
            "name another database with --db, or, if it is not needed: DROP SCHEMA millrace_history CASCADE",
        ));
    }
    if schema {
        let row = client.query_opt("SELECT version::int FROM millrace_history.about", &[]).await;
        let version: i32 =
            row.map_err(LabError::database("read the version of the schema millrace_history"))?.map_or(0, |row| row.get(0));
        if version != VERSION {
            return Err(LabError::plan(
                format!("use the schema millrace_history: it has version {version}, this program reads version {VERSION}"),
                "use the millrace that made it, or, if it is not needed: DROP SCHEMA millrace_history CASCADE",
            ));
        }
    }
    Ok(schema)
}

/// Number of rows added: 0 if the record already existed.
async fn insert(client: &Client, text: &str, source: &str) -> Result<u64, LabError> {
    let insert = "INSERT INTO millrace_history.record (digest, started_utc, source, record) \
                  SELECT encode(sha256(convert_to(given.record::text, 'UTF8')), 'hex'), given.record->>'started_utc', $2, given.record \
                  FROM (SELECT $1::text::jsonb AS record) AS given ON CONFLICT (digest) DO NOTHING";
    client.execute(insert, &[&text, &source]).await.map_err(LabError::database("keep a record"))
}

/// A record in its stored form: with fields that this version does not know, without the data of each second.
fn reduced(file: &Path) -> Result<String, LabError> {
    crate::record::read(file)?;
    let damaged = |source| LabError::Record { program: "the comparison", source };
    let text = std::fs::read(file).map_err(LabError::file("read the record", file))?;
    let mut record: Value = serde_json::from_slice(&text).map_err(damaged)?;
    let paths = record.get_mut("paths").and_then(Value::as_array_mut).into_iter().flatten();
    for run in paths.filter_map(|path| path.get_mut("runs").and_then(Value::as_array_mut)).flatten() {
        let Some(run) = run.as_object_mut() else { continue };
        run.retain(|name, _| !LEFT_OUT_OF_RUNS.contains(&name.as_str()));
    }
    let text = record.to_string();
    // PostgreSQL's JSON type does not allow this character.
    if text.contains("\\u0000") {
        return Err(LabError::plan("a text in it has a NUL character".to_owned(), "leave it out"));
    }
    if text.len() > KEPT_RECORD_BYTES_MAX {
        let what = format!("it has {} bytes without its seconds, more than {KEPT_RECORD_BYTES_MAX}", text.len());
        return Err(LabError::plan(what, "leave it in its directory"));
    }
    Ok(text)
}
