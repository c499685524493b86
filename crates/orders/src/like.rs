//! Compares this load with a production database: blocks and log bytes per commit.
//!
//! Reads the counters of a running PostgreSQL twice, read-only, and changes nothing there.
//! The counters are those of the complete server, because its storage serves all its databases.

mod counters;
mod ours;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

pub use counters::Counters;
pub use ours::{Ours, built_in, of_record};

use crate::error::OrdersError;
use crate::limits::LIKE_COMMITS_MIN;
use crate::postgres::Postgres;

/// Version of [`Reading`] and [`Likeness`].
pub const LIKE_SCHEMA: u32 = 1;

/// The work of a database during an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// [`LIKE_SCHEMA`].
    pub schema: u32,
    /// Always `orders-like`.
    pub kind: String,
    /// The database's own version string.
    pub database_version: String,
    /// Seconds between the two readings, by the database's clock.
    pub seconds: f64,
    /// Difference of the counters.
    pub counted: Counters,
    /// The same per commit, and as shares.
    pub figures: Figures,
    /// Restrictions that a reader must know before using the figures.
    pub notes: Vec<String>,
    /// False if the figures mean nothing because too little happened or counters were reset.
    pub valid: bool,
}

/// A database's work per commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Commits per second; a statement outside a transaction block commits as well.
    pub commits_per_s: f64,
    /// Blocks per commit read from storage or the kernel's cache.
    pub reads_per_commit: f64,
    /// Data blocks per commit written by any process.
    pub writes_per_commit: f64,
    /// Reads and writes: I/O operations on data blocks per commit.
    pub io_per_commit: f64,
    /// Log bytes per commit.
    pub log_bytes_per_commit: f64,
    /// Blocks found in the database's buffers divided by all requested blocks, 0 to 1.
    pub hit_ratio: f64,
    /// Bytes read divided by all bytes read and written, including the log, 0 to 1.
    pub read_share: f64,
    /// Mean time of one block read in microseconds; `None` if the database does not time its reads.
    pub block_read_us: Option<f64>,
}

/// The load compared with a production database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Likeness {
    /// The result as a sentence.
    pub verdict: String,
    /// The production database.
    pub theirs: Reading,
    /// The load's figures.
    pub ours: Figures,
    /// Source of the load's figures.
    pub ours_from: String,
    /// I/O per commit, load divided by database; `None` if the database did no I/O.
    pub io_ratio: Option<f64>,
    /// Blocks read per commit, load divided by database.
    pub reads_ratio: Option<f64>,
    /// Blocks written per commit, load divided by database.
    pub writes_ratio: Option<f64>,
    /// Log bytes per commit, load divided by database.
    pub log_ratio: Option<f64>,
    /// Commits per second, load divided by database.
    pub commits_ratio: Option<f64>,
}

/// Reads the counters of a running database before and after `seconds` seconds, in read-only transactions. Calls the
/// callback with the number of each elapsed second.
///
/// # Errors
/// [`OrdersError::Connect`], or an error of the database.
pub async fn read(database: &Postgres, seconds: u64, mut told: impl FnMut(u64)) -> Result<Reading, OrdersError> {
    let session = counters::Session::open(database).await?;
    let before = session.counters().await?;
    let began = Instant::now();
    for second in 1..=seconds {
        sleep_until(began + Duration::from_secs(second)).await;
        told(second);
    }
    let after = session.counters().await?;
    Ok(between(session.version(), &before, &after))
}

/// Compares the load's figures with those of a database.
#[must_use]
pub fn compare(theirs: Reading, ours: &Ours) -> Likeness {
    let (yours, load) = (&theirs.figures, &ours.figures);
    let ratio = |ours: f64, theirs: f64| (theirs > 0.0).then(|| ours / theirs);
    let io_ratio = ratio(load.io_per_commit, yours.io_per_commit);
    let verdict = match io_ratio {
        _ if !theirs.valid => format!("no verdict: {}", theirs.notes.join("; ")),
        Some(io_ratio) => format!("this load does {} x your I/O per commit", digits(io_ratio)),
        None => "your database read and wrote no data block in this interval; this load does".to_owned(),
    };
    Likeness {
        verdict,
        ours: *load,
        ours_from: ours.from.clone(),
        io_ratio,
        reads_ratio: ratio(load.reads_per_commit, yours.reads_per_commit),
        writes_ratio: ratio(load.writes_per_commit, yours.writes_per_commit),
        log_ratio: ratio(load.log_bytes_per_commit, yours.log_bytes_per_commit),
        commits_ratio: ratio(load.commits_per_s, yours.commits_per_s),
        theirs,
    }
}

/// A ratio with two significant digits.
#[must_use]
pub fn digits(ratio: f64) -> String {
    if ratio >= 10.0 {
        format!("{ratio:.0}")
    } else if ratio >= 1.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

fn between(version: &str, before: &Counters, after: &Counters) -> Reading {
    let mut notes = Vec::new();
    let reset = before.resets != after.resets;
    if reset {
        notes.push("counters were reset in between".to_owned());
    }
    let counted = after.since(before);
    if counted.commits < LIKE_COMMITS_MIN {
        notes.push(format!("{} commits in {:.0} s are too few", counted.commits, counted.at_s));
    }
    if !after.extends_known {
        notes.push("this version counts a block that only extends a file as read".to_owned());
    }
    Reading {
        schema: LIKE_SCHEMA,
        kind: "orders-like".to_owned(),
        database_version: version.to_owned(),
        seconds: counted.at_s,
        figures: figures(&counted),
        valid: !reset && counted.commits >= LIKE_COMMITS_MIN && counted.at_s > 0.0,
        counted,
        notes,
    }
}

/// Figures per commit from counters; all zero if there were no commits.
#[must_use]
pub fn figures(counted: &Counters) -> Figures {
    let commits = counted.commits as f64;
    let each = |count: u64| if commits > 0.0 { count as f64 / commits } else { 0.0 };
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let (reads, writes) = (counted.blocks_read as f64, counted.blocks_written as f64);
    let (read_bytes, written_bytes) = (reads * counted.block_bytes as f64, writes * counted.block_bytes as f64);
    Figures {
        commits_per_s: share(commits, counted.at_s),
        reads_per_commit: each(counted.blocks_read),
        writes_per_commit: each(counted.blocks_written),
        io_per_commit: each(counted.blocks_read + counted.blocks_written),
        log_bytes_per_commit: each(counted.log_bytes),
        hit_ratio: share(counted.blocks_hit as f64, counted.blocks_hit as f64 + reads),
        read_share: share(read_bytes, read_bytes + written_bytes + counted.log_bytes as f64),
        block_read_us: (counted.reads_timed && reads > 0.0).then(|| counted.block_read_ms * 1e3 / reads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(at_s: f64, commits: u64) -> Counters {
        Counters {
            at_s,
            commits,
            blocks_read: commits * 2,
            blocks_hit: commits * 98,
            blocks_written: commits,
            log_bytes: commits * 4_096,
            block_bytes: 8_192,
            extends_known: true,
            ..Counters::default()
        }
    }

    #[test]
    fn figures_are_those_of_the_interval_for_one_commit() {
        let reading = between("15", &counters(100.0, 1_000), &counters(110.0, 3_000));
        let found = &reading.figures;
        assert!(reading.valid && reading.notes.is_empty(), "{:?}", reading.notes);
        assert_eq!((found.commits_per_s, found.io_per_commit, found.log_bytes_per_commit), (200.0, 3.0, 4_096.0));
        assert!((found.hit_ratio - 0.98).abs() < 1e-9);
        // 16,384 bytes read, 8,192 + 4,096 written.
        assert!((found.read_share - 16_384.0 / 28_672.0).abs() < 1e-9);
        assert_eq!(found.block_read_us, None);
    }

    #[test]
    fn the_sentence_says_how_many_times_the_io() {
        let theirs = between("15", &counters(0.0, 0), &counters(10.0, 1_000));
        let figures = Figures { io_per_commit: 17.4, reads_per_commit: 10.0, ..Figures::default() };
        let likeness = compare(theirs, &Ours { figures, from: "a test".to_owned() });
        assert_eq!(likeness.verdict, "this load does 5.8 x your I/O per commit");
        assert_eq!((likeness.reads_ratio, likeness.log_ratio), (Some(5.0), Some(0.0)));
    }

    #[test]
    fn an_idle_or_reset_database_gives_no_verdict() {
        let idle = between("15", &counters(0.0, 0), &counters(10.0, 3));
        assert!(!idle.valid);
        let verdict = compare(idle, &built_in()).verdict;
        assert!(verdict.starts_with("no verdict: 3 commits in 10 s"), "{verdict}");
        let reset = Counters { resets: 1, ..counters(10.0, 5_000) };
        let reading = between("15", &counters(0.0, 9_000), &reset);
        assert!(!reading.valid && reading.counted.commits == 0, "{reading:?}");
    }
}
