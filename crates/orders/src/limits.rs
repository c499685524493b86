//! Every bound of this crate, with its reason.

/// Warehouses of one database: about 10 TB, and every identifier stays within 32 bits.
pub const WAREHOUSES_MAX: u32 = 100_000;
/// Terminals of one run: ten for each of the most warehouses, about 200 bytes each.
pub const USERS_MAX: u32 = 10 * WAREHOUSES_MAX;
/// Database sessions of one run, each with a task and its prepared statements.
pub const CONNECTIONS_MAX: u32 = 10_000;
/// Threads of the driver and jobs of the loader: more than any host this runs on has cores.
pub const THREADS_MAX: u32 = 256;
/// Longest warm-up or measured interval: a week.
pub const SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Repeats of one transaction after deadlocks or serialization failures before it counts as an
/// error: a transaction that loses a hundred times in a row will lose the next time too.
pub const RETRIES_MAX: u32 = 100;
/// Repeats that follow at once; those after them wait, or sessions that update the same rows hinder each other for ever.
pub const RETRIES_AT_ONCE: u32 = 3;
/// Longest pause before the first repeat that waits and before any, in milliseconds; it doubles from one to the next.
pub const RETRY_PAUSE_MS_MIN: u64 = 2;
/// See [`RETRY_PAUSE_MS_MIN`]: some transactions of others long.
pub const RETRY_PAUSE_MS_MAX: u64 = 64;
/// Errors of one terminal in a row before the run is given up: the database is not serving.
pub const ERRORS_IN_A_ROW_MAX: u32 = 20;
/// Errors printed on stderr by one run; the rest are counted.
pub const ERRORS_PRINTED_MAX: u64 = 10;
/// Seconds without any successful transaction after which reconnecting is given up.
pub const NO_SUCCESS_S_MAX: u64 = 60;
/// Seconds in which no transaction ended, after the measured interval, before those still running are given up.
pub const GRACE_S: u64 = 60;
/// Seconds after the measured interval at which all that still run are given up: a Delivery of some hundred reads behind four
/// slots of 120 ms, whose rows others wait for in turn, has time to end.
pub const GRACE_S_MAX: u64 = 240;
/// Seconds one attempt to connect may take.
pub const CONNECT_S: u64 = 10;
/// Times that two sessions through a pooler are compared: a pool that others use too may give them different server sessions by
/// chance, but not this often.
pub const POOLER_ROUNDS: u32 = 4;
/// Seconds that the second of them waits for a server session.
pub const POOLER_WAIT_S: u64 = 2;
/// First and longest pause between attempts to connect again, in milliseconds.
pub const BACKOFF_MS_MIN: u64 = 50;
/// See [`BACKOFF_MS_MIN`].
pub const BACKOFF_MS_MAX: u64 = 2_000;
/// Attempts, a second apart, to drop what a failed load made: a server that crashed needs a while
/// to come back.
pub const DROP_ATTEMPTS_MAX: u32 = 15;
/// Bytes of one COPY message: large against the cost of a message, small against memory.
pub const COPY_CHUNK_BYTES: usize = 256 * 1024;
/// Core seconds that loading one warehouse takes, database and loader together, for the plan that
/// is printed first (measured on 2 shared cores; the progress that follows corrects it).
pub const LOAD_CORE_S_PER_WAREHOUSE: f64 = 5.0;
/// Bytes that a load needs beside its tables: write-ahead log and the sorts of the indexes.
pub const LOAD_BESIDE_BYTES: u64 = 1 << 30;
/// Milliseconds after which a statement of an isolation test counts as waiting: long against any
/// statement of these, short for a user who waits.
pub const ISOLATION_BLOCKED_MS: u64 = 500;
/// Seconds in which a statement of an isolation test that need not wait must have answered.
pub const ISOLATION_ANSWER_S: u64 = 10;
/// Acknowledged orders in one list of keys, where the database takes no arrays.
pub const ACK_IN_LIST_ROWS: usize = 1_000;
/// Acknowledged orders looked up by one statement.
pub const ACK_CHUNK_ROWS: usize = 10_000;
/// Largest acknowledgement log read: a billion orders.
pub const ACK_LOG_BYTES_MAX: u64 = 32 << 30;
/// Missing acknowledged orders named in a report; the rest are counted.
pub const ACK_EXAMPLES_MAX: usize = 10;
/// Drivers of one run: each host needs few.
pub const DRIVERS_MAX: u32 = 256;
/// Bytes of the name of a run: it is printed on one line.
pub const RUN_NAME_BYTES_MAX: usize = 100;
/// Milliseconds between two heartbeats of a driver.
pub const HEARTBEAT_MS: u64 = 1_000;
/// Seconds without a heartbeat after which a driver counts as lost: ten of them missed.
pub const DRIVER_TIMEOUT_S: f64 = 10.0;
/// Milliseconds between two polls of who is ready, or has ended.
pub const LOOK_MS: u64 = 100;
/// Seconds from the last driver's being ready to the start, so that all read it before.
pub const START_LEAD_S: f64 = 1.0;
/// Queries for the time of the start; the quickest answer is the most exact.
pub const START_SAMPLES: u32 = 5;
/// Snapshots of one driver of a run, each some tens of KiB in the results database.
pub const SNAPSHOTS_MAX: u64 = 60;
/// Seconds one statement in the results database may take.
pub const RESULTS_REPLY_S: u64 = 10;
/// Seconds the record of a finished driver is tried to be stored.
pub const STORE_S_MAX: u64 = 60;
/// Seconds the others are waited for after the own run ended.
pub const WAIT_S_MAX: u64 = 330;
/// Largest stored record read: histograms of a few KiB and a series of a week.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// Slowest open load: one transaction an hour.
pub const RATE_PER_S_MIN: f64 = 1.0 / 3600.0;
/// Fastest open load: far more than one driver can send.
pub const RATE_PER_S_MAX: f64 = 1e6;
/// Due transactions of an open load that wait for a session, of one driver, unless told otherwise:
/// the arrivals of a stall of 100 s at 1,000 per second. What comes on top is counted as refused.
pub const DUE_QUEUE_DEFAULT: u32 = 100_000;
/// Largest such queue: 16 bytes each.
pub const DUE_QUEUE_MAX: u32 = 10_000_000;
/// Queued deliveries of one thread from which on they go before everything else, so that the queue
/// grows by no more than its sessions.
pub const DELIVERIES_QUEUED_MAX: usize = 10_000;
/// Longest time that a queued delivery waits while terminals have work, in seconds.
pub const DELIVERY_WAIT_S_MAX: u64 = 1;
/// Least and most that keying and think times can be multiplied by: a scale of 0.001 makes a cycle of
/// 20 ms, below which a paced load is a closed one.
pub const TIME_SCALE_MIN: f64 = 0.001;
/// See [`TIME_SCALE_MIN`].
pub const TIME_SCALE_MAX: f64 = 1_000.0;

const _: () = assert!(DUE_QUEUE_DEFAULT <= DUE_QUEUE_MAX);
const _: () = assert!(CONNECTIONS_MAX <= USERS_MAX);
/// Settings of one server that are read: PostgreSQL has 400, MariaDB 1,100, extensions add some.
pub const SETTINGS_MAX: usize = 10_000;
/// Fewest commits of an interval that say anything about a database's I/O per commit.
pub const LIKE_COMMITS_MIN: u64 = 100;
/// Longest interval over which a database is watched: a day.
pub const LIKE_S_MAX: u64 = 86_400;

const _: () = assert!(BACKOFF_MS_MIN < BACKOFF_MS_MAX);
const _: () = assert!(HEARTBEAT_MS * 3 < DRIVER_TIMEOUT_S as u64 * 1_000);
const _: () = assert!(BACKOFF_MS_MAX < NO_SUCCESS_S_MAX * 1000);
const _: () = assert!(WAREHOUSES_MAX < i32::MAX as u32);
