//! All limits of this crate, with their reasons.

/// Warehouses of one database: about 10 TB, and every identifier stays within 32 bits.
pub const WAREHOUSES_MAX: u32 = 100_000;
/// Terminals of one run: ten for each warehouse of the largest database, about 200 bytes each.
pub const USERS_MAX: u32 = 10 * WAREHOUSES_MAX;
/// Database sessions of one run, each with a task and its prepared statements.
pub const CONNECTIONS_MAX: u32 = 10_000;
/// Threads of the driver and jobs of the loader: more than the cores of any expected host.
pub const THREADS_MAX: u32 = 256;
/// Longest warm-up or measured interval: a week.
pub const SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Repeats of one transaction after deadlocks or serialization failures before it counts as an
/// error: a transaction that fails a hundred times in a row will fail the next time too.
pub const RETRIES_MAX: u32 = 100;
/// Repeats without a pause. Later ones wait, because sessions that update the same rows would otherwise hinder each other for ever.
pub const RETRIES_AT_ONCE: u32 = 3;
/// Upper bound of the first pause before a repeat, in milliseconds. It doubles with each repeat, up to [`RETRY_PAUSE_MS_MAX`].
pub const RETRY_PAUSE_MS_MIN: u64 = 2;
/// See [`RETRY_PAUSE_MS_MIN`]: the length of a few concurrent transactions.
pub const RETRY_PAUSE_MS_MAX: u64 = 64;
/// Errors of one terminal in a row before the run ends: the database is not serving.
pub const ERRORS_IN_A_ROW_MAX: u32 = 20;
/// Errors printed on stderr by one run; the rest are counted.
pub const ERRORS_PRINTED_MAX: u64 = 10;
/// Seconds without any successful transaction after which the driver stops reconnecting.
pub const NO_SUCCESS_S_MAX: u64 = 60;
/// Seconds after the measured interval in which no transaction ended, before the driver abandons those that still run.
pub const GRACE_S: u64 = 60;
/// Seconds after the measured interval at which the driver abandons all transactions that still run. A Delivery can need some
/// hundred reads through four slots of 120 ms each while other transactions wait for its rows: it has time to end.
pub const GRACE_S_MAX: u64 = 240;
/// Seconds one attempt to connect may take.
pub const CONNECT_S: u64 = 10;
/// Comparisons of two sessions through a pooler. If other clients use the pool too, the two may get different server sessions
/// by chance, but not this many times in a row.
pub const POOLER_ROUNDS: u32 = 4;
/// Seconds that the second session waits for a server session.
pub const POOLER_WAIT_S: u64 = 2;
/// First and longest pause between attempts to reconnect, in milliseconds.
pub const BACKOFF_MS_MIN: u64 = 50;
/// See [`BACKOFF_MS_MIN`].
pub const BACKOFF_MS_MAX: u64 = 2_000;
/// Attempts, a second apart, to drop the schema of a failed load: a server that crashed needs some time to restart.
pub const DROP_ATTEMPTS_MAX: u32 = 15;
/// Bytes of one COPY message: large compared with the cost of a message, small compared with memory.
pub const COPY_CHUNK_BYTES: usize = 256 * 1024;
/// Core seconds that loading one warehouse takes, database and loader together, for the plan that
/// is printed first (measured on 2 shared cores; the progress display replaces this estimate).
pub const LOAD_CORE_S_PER_WAREHOUSE: f64 = 5.0;
/// Bytes that a load needs in addition to its tables: write-ahead log and the sorts of the indexes.
pub const LOAD_BESIDE_BYTES: u64 = 1 << 30;
/// Milliseconds after which a statement of an isolation test counts as waiting: longer than any
/// of its statements takes, but short for the user.
pub const ISOLATION_BLOCKED_MS: u64 = 500;
/// Seconds within which a statement of an isolation test that must not wait has to return.
pub const ISOLATION_ANSWER_S: u64 = 10;
/// Acknowledged orders in one list of keys, for databases without array parameters.
pub const ACK_IN_LIST_ROWS: usize = 1_000;
/// Acknowledged orders looked up by one statement.
pub const ACK_CHUNK_ROWS: usize = 10_000;
/// Size limit for reading an acknowledgement log: a billion orders.
pub const ACK_LOG_BYTES_MAX: u64 = 32 << 30;
/// Missing acknowledged orders listed in a report; the rest are only counted.
pub const ACK_EXAMPLES_MAX: usize = 10;
/// Drivers of one run: a host needs only a few.
pub const DRIVERS_MAX: u32 = 256;
/// Bytes of a run's name: it is printed on one line.
pub const RUN_NAME_BYTES_MAX: usize = 100;
/// Milliseconds between two heartbeats of a driver.
pub const HEARTBEAT_MS: u64 = 1_000;
/// Seconds without a heartbeat after which a driver counts as lost: ten missed heartbeats.
pub const DRIVER_TIMEOUT_S: f64 = 10.0;
/// Milliseconds between two queries for the drivers that are ready or have ended.
pub const LOOK_MS: u64 = 100;
/// Seconds between the moment at which the last driver is ready and the start, so that all drivers read the start time before it.
pub const START_LEAD_S: f64 = 1.0;
/// Queries for the start time; the fastest answer is the most exact.
pub const START_SAMPLES: u32 = 5;
/// Snapshots of one driver of a run, each some tens of KiB in the results database.
pub const SNAPSHOTS_MAX: u64 = 60;
/// Seconds one statement in the results database may take.
pub const RESULTS_REPLY_S: u64 = 10;
/// Seconds for which a finished driver tries to store its record.
pub const STORE_S_MAX: u64 = 60;
/// Seconds for which a driver waits for the others after its own run has ended.
pub const WAIT_S_MAX: u64 = 330;
/// Size limit for reading a stored record: histograms of a few KiB and the series of a week.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

/// Slowest open load: one transaction an hour.
pub const RATE_PER_S_MIN: f64 = 1.0 / 3600.0;
/// Fastest open load: far more than one driver can send.
pub const RATE_PER_S_MAX: f64 = 1e6;
/// Default for the due transactions of an open load that wait for a session, for one driver:
/// the arrivals of a stall of 100 s at 1,000 per second. Further ones are counted as refused.
pub const DUE_QUEUE_DEFAULT: u32 = 100_000;
/// Upper limit of this queue: 16 bytes per entry.
pub const DUE_QUEUE_MAX: u32 = 10_000_000;
/// Once a thread has this many queued deliveries, they take precedence over everything else, so that the queue
/// grows by at most the number of its sessions.
pub const DELIVERIES_QUEUED_MAX: usize = 10_000;
/// Longest time that a queued delivery waits while terminals have work, in seconds.
pub const DELIVERY_WAIT_S_MAX: u64 = 1;
/// Smallest and largest factor for keying and think times. A factor of 0.001 gives a cycle of
/// 20 ms; below that, a paced load behaves like a closed one.
pub const TIME_SCALE_MIN: f64 = 0.001;
/// See [`TIME_SCALE_MIN`].
pub const TIME_SCALE_MAX: f64 = 1_000.0;

const _: () = assert!(DUE_QUEUE_DEFAULT <= DUE_QUEUE_MAX);
const _: () = assert!(CONNECTIONS_MAX <= USERS_MAX);
/// Limit of the settings that are read from one server: PostgreSQL has 400, MariaDB 1,100, extensions add some.
pub const SETTINGS_MAX: usize = 10_000;
/// Smallest number of commits in an interval that gives a usable value of a database's I/O per commit.
pub const LIKE_COMMITS_MIN: u64 = 100;
/// Longest interval for observing a database: a day.
pub const LIKE_S_MAX: u64 = 86_400;

const _: () = assert!(BACKOFF_MS_MIN < BACKOFF_MS_MAX);
const _: () = assert!(HEARTBEAT_MS * 3 < DRIVER_TIMEOUT_S as u64 * 1_000);
const _: () = assert!(BACKOFF_MS_MAX < NO_SUCCESS_S_MAX * 1000);
const _: () = assert!(WAREHOUSES_MAX < i32::MAX as u32);
