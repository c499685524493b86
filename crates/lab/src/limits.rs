//! Limits of the laboratory, each with its reason.

use std::time::Duration;

/// Most warehouses of one comparison: the state is copied before every run, and
/// 1,000 warehouses are about 100 GiB for each copy.
pub const WAREHOUSES_MAX: u32 = 1_000;

/// Most users: each one is a database process of several MiB.
pub const USERS_MAX: u32 = 1_000;

/// Most runs on one path: further ones hardly narrow the interval.
pub const REPEATS_MAX: u32 = 50;

/// Largest limit of a page cache, in MiB: a pebibyte, above the memory of any host.
pub const PAGE_CACHE_MIB_MAX: u64 = 1 << 30;

/// Memory of one session if the page cache of the database is limited: catalog caches and plans of the load's statements, and memory to sort.
pub(crate) const SESSION_OWN_BYTES: u64 = 6 << 20;

/// Memory of a filer for the same purpose: 12 MiB with 64 connections, and the same for replies in progress.
pub(crate) const FILER_OWN_BYTES: u64 = 32 << 20;

/// Most configurations of one comparison: with three runs of a minute each, they take five hours.
pub(crate) const ARMS_MAX: usize = 100;

/// Most further scenarios of one comparison: each takes as long as the comparison itself.
pub(crate) const REGIMES_MAX: usize = 4;

/// Most filers for one database: each is a process with its threads on this host.
pub(crate) const FILERS_MAX: u32 = 8;

/// Most LUNs that one file system is striped over: each is a process with its buffers and a loop device on this host.
pub(crate) const LUNS_MAX: u32 = 8;

/// Most addresses by which one volume is mounted: the same as for filers, because the tables are spread in the same way.
pub(crate) const MOUNTS_MAX: u32 = FILERS_MAX;

/// Longest label of a path: it is part of tables and file names.
pub(crate) const LABEL_BYTES_MAX: usize = 32;

/// Most users that a search for a load may try; the database's connection limit includes them.
pub(crate) const SEARCH_USERS_MAX: u32 = 256;

/// Most probes with one number of users: three nearly halve the interval of one; more would take too long.
pub(crate) const PROBE_REPEATS_MAX: usize = 3;

/// Seconds measured by one probe: the smallest number that gives an interval.
pub(crate) const PROBE_SECONDS: u64 = 10;

/// Seconds of warm-up of a probe: the database is already warm from the previous one.
pub(crate) const PROBE_WARMUP_SECONDS: u64 = 2;

/// Number of the first probe's logs, above the number of any run.
pub(crate) const PROBE_SEQUENCE: u32 = 100_000;

/// Longest measured interval of one run: one day.
pub const SECONDS_MAX: u64 = 86_400;

/// Largest allowed difference in the proof of path, in percent: starting a connection
/// reads a few catalog files that the block counters do not include.
pub(crate) const PROOF_TOLERANCE_PERCENT: f64 = 5.0;

/// Largest allowed difference between the read probes of two configurations with the same medium, in percent.
pub(crate) const MEDIA_TOLERANCE_PERCENT: f64 = 5.0;

/// Bytes of one read of the probe: a block of the database.
pub(crate) const PROBE_BLOCK_BYTES: usize = 8192;

/// Threads of the probe: enough for a precise mean within seconds on a disk with some
/// milliseconds per read, too few for a queue on a medium with several spindles.
pub(crate) const PROBE_THREADS: u64 = 4;

/// Smallest number of reads for a probe's mean.
pub(crate) const PROBE_READS_MIN: u64 = 200;

/// Longest time of a probe in seconds.
pub(crate) const PROBE_SECONDS_MAX: u64 = 10;

/// Block reads per order below which the storage was not exercised: the
/// figure then describes the buffers, not the path.
pub(crate) const READS_PER_ORDER_MIN: f64 = 1.0;

/// Bytes of one warehouse on disk after the load, indexes included (measured: 100 to
/// 110 MB with PostgreSQL 15).
pub(crate) const WAREHOUSE_BYTES: u64 = 110_000_000;

/// Bytes of items, catalogs and the first log segments.
pub(crate) const DATABASE_BASE_BYTES: u64 = 120_000_000;

/// Bytes that one run may add to its copy: log up to `max_wal_size` and new rows.
pub(crate) const RUN_GROWTH_BYTES: u64 = 3 << 30;

/// Smallest size of the database's buffers in bytes: below 16 MiB, PostgreSQL's catalogs alone fill them.
pub(crate) const BUFFERS_BYTES_MIN: u64 = 16 << 20;

/// Bytes copied between two checks of the interrupt flag and updates of the progress line.
pub(crate) const COPY_CHUNK_BYTES: usize = 4 << 20;

/// Bytes of one read or WRITE that brings a restored copy into a page cache, here or on a server: no folio becomes larger.
pub(crate) const RESTORE_UNIT_BYTES: usize = 32 << 10;
/// Bytes of files whose folios are counted after a run: this takes some tenths of a second.
pub(crate) const FOLIOS_BYTES_MAX: u64 = 512 << 20;

/// Entries of a restored directory tree: a cluster has about 1,500 files, 1 GiB
/// segments of a 100 GiB database add some hundreds.
pub(crate) const TREE_ENTRIES_MAX: usize = 1_000_000;

/// Files copied to an export concurrently: enough to hide a round trip and a flush for each, and
/// not more connections than a small filer has threads.
pub(crate) const EXPORT_COPIERS: usize = 8;

/// Time without a reply of an existing server after which the laboratory resends its calls. After
/// three times this, it gives up, so that it does not wait for a filer that is gone.
pub(crate) const EXPORT_SILENCE_MAX: Duration = Duration::from_secs(15);

/// Time without a connection after which an existing filer counts as lost: a restart takes less.
pub(crate) const FILER_LOST_AFTER: Duration = Duration::from_secs(10);

/// Pause between two checks of such a filer, and the longest wait for a connection.
pub(crate) const FILER_WATCH_EVERY: Duration = Duration::from_secs(1);

/// Deepest directory tree that is removed from an export: a cluster has five levels.
pub(crate) const TREE_DEPTH_MAX: usize = 32;

/// Number of times that a file is resent to a server that lost unstable data.
pub(crate) const UNSTABLE_ROUNDS_MAX: usize = 3;

/// Longest time to create an empty database: a few seconds, on a busy host more.
pub(crate) const DATABASE_MAKE_MAX: Duration = Duration::from_secs(120);

/// Longest time from the start of the database to its first response. There is no crash recovery,
/// because the state was shut down cleanly.
pub(crate) const DATABASE_START_MAX: Duration = Duration::from_secs(120);

/// Longest time for a clean database stop: the shutdown checkpoint writes all dirty buffers.
pub(crate) const DATABASE_STOP_MAX: Duration = Duration::from_secs(120);

/// Longest time until the filer reports that it is ready.
pub(crate) const FILER_START_MAX: Duration = Duration::from_secs(30);

/// Longest time to attach a LUN: a minute for the login, and the creation of a file system.
pub(crate) const ATTACH_MAX: Duration = Duration::from_secs(180);

/// Longest time to detach a LUN: its file system's dirty pages are written first.
pub(crate) const DETACH_MAX: Duration = Duration::from_secs(180);

/// Longest time to mount a file system: the kernel's NFS client itself tries a server for three minutes; Millrace's filer is running.
pub(crate) const MOUNT_MAX: Duration = Duration::from_secs(60);

/// Longest time to create a file system on a device: 8 GiB are formatted, and a slow device first discards its blocks.
pub(crate) const MKFS_MAX: Duration = Duration::from_secs(300);

/// Longest time to unmount a file system: its dirty pages are written first.
pub(crate) const UNMOUNT_MAX: Duration = Duration::from_secs(180);

/// Longest time until programs stop using a file system whose LUN is gone.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(30);

/// Smallest size of a LUN for a database, in bytes: enough for its log at any size. A LUN occupies space only as it is written.
pub(crate) const LUN_BYTES_MIN: u64 = 8 << 30;

/// Smallest size of each LUN of a striped file system, in bytes: mkfs.btrfs requires 127 MiB per device for raid0.
pub(crate) const STRIPED_LUN_BYTES_MIN: u64 = 128 << 20;

/// Size of a LUN as a multiple of the loaded state.
pub(crate) const LUN_PER_STATE: u64 = 4;

/// Most steps of a ladder: each needs two configurations.
pub(crate) const LADDER_STEPS_MAX: usize = 12;

/// Longest time for the filer to drain and flush.
pub(crate) const FILER_STOP_MAX: Duration = Duration::from_secs(60);

/// Longest time between SIGTERM or SIGQUIT and SIGKILL when a process is ended.
pub(crate) const KILL_AFTER: Duration = Duration::from_secs(8);

/// Longest reply of the filer's admin socket in bytes: 23 procedures of about 60 bytes.
pub(crate) const ADMIN_REPLY_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for a reply of the admin socket or of one of the laboratory's own statements.
pub(crate) const REPLY_MAX: Duration = Duration::from_secs(30);

/// Time that the driver gets in addition to warm-up and interval: to open its sessions (in a guest of a busy host, 64 of them on a
/// modelled medium of 240 ms were not all open after 155 s), for the transactions in progress at the end (four minutes at most), and
/// to close the sessions.
pub(crate) const DRIVER_GRACE: Duration = Duration::from_secs(480);

/// Pause between two samples of the wait events of the database's sessions.
pub(crate) const WAIT_SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Largest response of a metrics server: a node's page has about 200 kB, an array's a few MB.
pub(crate) const METRICS_BYTES_MAX: u64 = 16 << 20;

/// Longest wait for a metrics server: it is read at the start and end of an interval, which it must not extend.
pub(crate) const METRICS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Largest record that is read: a hundred runs of an hour, second by second, need about 40 MB.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Deepest directory that is searched for records: a year, a month, a day, a host and a plan are five.
pub(crate) const HISTORY_DEPTH_MAX: usize = 16;

/// Most files and directories examined in the search for records: this takes some seconds.
pub(crate) const HISTORY_ENTRIES_MAX: usize = 1_000_000;

/// Largest record stored in a database, without the data that are drawn second by second: a text of PostgreSQL has at most 1 GiB.
pub(crate) const KEPT_RECORD_BYTES_MAX: usize = 64 << 20;

/// Most records read from a database at once: 20 years with 10 a day.
pub(crate) const KEPT_RECORDS_MAX: i64 = 100_000;

/// Lines of a child's log shown with an error.
pub(crate) const LOG_LINES_SHOWN: usize = 12;

/// Bytes read from the end of a child's log to find those lines.
pub(crate) const LOG_TAIL_BYTES: u64 = 16 << 10;

/// Most processors of a guest: QEMU's own limit for this machine type is 255. An emulated guest is slower if it has more than the host.
pub const GUEST_CPUS_MAX: u32 = 64;

/// Longest comparison in a guest: the plan of a report takes two and a half hours there.
pub(crate) const GUEST_COMPARE_MAX: Duration = Duration::from_secs(12 * 3600);

/// Smallest disk of a guest for a comparison: a sparse file; each LUN may need 8 GiB of it.
pub(crate) const GUEST_DISK_BYTES_MIN: u64 = 32 << 30;

/// Most network interfaces of a guest: one comparison has at most four paths.
pub const GUEST_NICS_MAX: u32 = 8;

/// Most directories shared with a guest: each is a device.
pub(crate) const GUEST_SHARES_MAX: usize = 8;

/// Smallest memory of a guest: kernel, initial root and modules need 120 MiB; the rest is for its programs.
pub(crate) const GUEST_MEMORY_BYTES_MIN: u64 = 256 << 20;

/// Longest time until QEMU has opened its sockets, or has exited after closing them: less than a second; ten times that on a busy host.
pub(crate) const GUEST_START_MAX: Duration = Duration::from_secs(20);

/// Longest boot: 2 s on an idle host, 8 s with two busy programs per processor.
pub(crate) const GUEST_BOOT_MAX: Duration = Duration::from_secs(90);

const _: () = assert!(COPY_CHUNK_BYTES >= 1 << 16);
const _: () = assert!(RUN_GROWTH_BYTES > BUFFERS_BYTES_MIN);
