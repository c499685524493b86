//! Every bound of this room, with its reason.

/// Warehouses of one database: about 10 TB, and every identifier stays within 32 bits.
pub const WAREHOUSES_MAX: u32 = 100_000;
/// Users of one run, each with a connection and a task.
pub const USERS_MAX: u32 = 10_000;
/// Threads of the driver and jobs of the loader: more than any host this runs on has cores.
pub const THREADS_MAX: u32 = 256;
/// Longest warm-up or measured interval: a week.
pub const SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Repeats of one transaction after deadlocks or serialization failures before it counts as an
/// error: a transaction that loses a hundred times in a row will lose the next time too.
pub const RETRIES_MAX: u32 = 100;
/// Errors of one terminal in a row before the run is given up: the database is not serving.
pub const ERRORS_IN_A_ROW_MAX: u32 = 20;
/// Errors printed on stderr by one run; the rest are counted.
pub const ERRORS_PRINTED_MAX: u64 = 10;
/// Seconds without any successful transaction after which reconnecting is given up.
pub const SILENCE_S_MAX: u64 = 60;
/// Seconds a transaction may go on after the measured interval before it is given up.
pub const GRACE_S: u64 = 60;
/// Seconds one attempt to connect may take.
pub const CONNECT_S: u64 = 10;
/// First and longest pause between attempts to connect again, in milliseconds.
pub const BACKOFF_MS_MIN: u64 = 50;
/// See [`BACKOFF_MS_MIN`].
pub const BACKOFF_MS_MAX: u64 = 2_000;
/// Attempts, a second apart, to drop what a failed load made: a server that crashed needs a while
/// to come back.
pub const DROP_ATTEMPTS_MAX: u32 = 15;
/// Bytes of one COPY message: large against the cost of a message, small against memory.
pub const COPY_CHUNK_BYTES: usize = 256 * 1024;
/// Acknowledged orders looked up by one statement.
pub const ACK_CHUNK_ROWS: usize = 10_000;
/// Largest acknowledgement log read: a billion orders.
pub const ACK_LOG_BYTES_MAX: u64 = 32 << 30;
/// Missing acknowledged orders named in a report; the rest are counted.
pub const ACK_EXAMPLES_MAX: usize = 10;

const _: () = assert!(BACKOFF_MS_MIN < BACKOFF_MS_MAX);
const _: () = assert!(BACKOFF_MS_MAX < SILENCE_S_MAX * 1000);
const _: () = assert!(WAREHOUSES_MAX < i32::MAX as u32);
