//! Bounds of the laboratory, each with its reason.

use std::time::Duration;

/// Most warehouses of one comparison: the state is copied before every run, and
/// 1,000 warehouses are about 100 GiB for each copy.
pub(crate) const WAREHOUSES_MAX: u32 = 1_000;

/// Most users: each one is a database process of several MiB.
pub(crate) const USERS_MAX: u32 = 1_000;

/// Most runs on one path: beyond that the interval hardly shrinks.
pub(crate) const REPEATS_MAX: u32 = 50;

/// Memory of PostgreSQL beside its buffers and sessions, where its page cache is held small: the server's own
/// processes and shared structures.
pub(crate) const POSTGRES_OWN_BYTES: u64 = 96 << 20;

/// The same of MariaDB (measured: 80 MiB, and 95 MiB of the performance schema).
pub(crate) const MARIADB_OWN_BYTES: u64 = 192 << 20;

/// Memory of one session there: catalog caches and plans of the statements of the load, and room to sort.
pub(crate) const SESSION_OWN_BYTES: u64 = 6 << 20;

/// Memory of a filer there: 12 MiB with 64 connections, and as much for replies under way.
pub(crate) const FILER_OWN_BYTES: u64 = 32 << 20;

/// Most arms of one comparison: with three runs of a minute each that is five hours.
pub(crate) const ARMS_MAX: usize = 100;

/// Most further regimes of one comparison: each costs as long as the comparison itself.
pub(crate) const REGIMES_MAX: usize = 4;

/// Most filers behind one database: each is a process with its threads on this host.
pub(crate) const FILERS_MAX: u32 = 8;

/// Most LUNs that one file system is striped over: each is a process with its buffers and a loop device on this host.
pub(crate) const LUNS_MAX: u32 = 8;

/// Most addresses by which one volume is mounted: as many as there are filers at most, since the tables are spread alike.
pub(crate) const MOUNTS_MAX: u32 = FILERS_MAX;

/// Longest label of a path: it stands in tables and file names.
pub(crate) const LABEL_BYTES_MAX: usize = 32;

/// Most users a search for a load may try; the database's connections are sized for it.
pub(crate) const SEARCH_USERS_MAX: u32 = 256;

/// Probes of one number of users: three halve the interval of one nearly, more would not end.
pub(crate) const PROBE_REPEATS_MAX: usize = 3;

/// Seconds measured by one probe: the fewest from which an interval can be computed.
pub(crate) const PROBE_SECONDS: u64 = 10;

/// Seconds dropped before a probe: the database is warm from the probe before.
pub(crate) const PROBE_WARMUP_SECONDS: u64 = 2;

/// Number of the first probe's logs, above that of any run.
pub(crate) const PROBE_SEQUENCE: u32 = 100_000;

/// Longest measured interval of one run: one day.
pub(crate) const SECONDS_MAX: u64 = 86_400;

/// Largest share by which proof of path may differ, in percent: connection start-up
/// reads a few catalog files that the block counters do not see.
pub(crate) const PROOF_TOLERANCE_PERCENT: f64 = 5.0;

/// Largest difference between the read probes of two arms that claim one medium, in percent.
pub(crate) const MEDIA_TOLERANCE_PERCENT: f64 = 5.0;

/// Bytes of one read of the probe: a block of the database.
pub(crate) const PROBE_BLOCK_BYTES: usize = 8192;

/// Threads of the probe: enough to come to a sure mean in seconds on a disk of some
/// milliseconds, too few to queue on a medium of more than a few spindles.
pub(crate) const PROBE_THREADS: u64 = 4;

/// Fewest reads a probe's mean rests on.
pub(crate) const PROBE_READS_MIN: u64 = 200;

/// Longest time of a probe in seconds.
pub(crate) const PROBE_SECONDS_MAX: u64 = 10;

/// Fewer block reads for one order than this and storage was not exercised: the
/// figure tells about buffers, not about the path.
pub(crate) const READS_PER_ORDER_MIN: f64 = 1.0;

/// Bytes of one warehouse on disk after the load, indexes included (measured: 100 to
/// 110 MB with PostgreSQL 15).
pub(crate) const WAREHOUSE_BYTES: u64 = 110_000_000;

/// Bytes of items, catalogs and the first log segments.
pub(crate) const DATABASE_BASE_BYTES: u64 = 120_000_000;

/// Bytes that one run may add to its copy: log up to `max_wal_size` and new rows.
pub(crate) const RUN_GROWTH_BYTES: u64 = 3 << 30;

/// Smallest buffers chosen, in bytes: below 16 MiB PostgreSQL's catalogs alone fill them.
pub(crate) const BUFFERS_BYTES_MIN: u64 = 16 << 20;

/// Bytes copied between two looks at the interrupt flag and the progress line.
pub(crate) const COPY_CHUNK_BYTES: usize = 4 << 20;

/// Bytes of one read or WRITE that brings a restored copy into a page cache, here or on a server: no folio becomes larger than this.
pub(crate) const RESTORE_UNIT_BYTES: usize = 32 << 10;
/// Bytes of files whose folios are counted after a run: some tenths of a second.
pub(crate) const FOLIOS_BYTES_MAX: u64 = 512 << 20;

/// Entries of a restored directory tree: a cluster has about 1,500 files, 1 GiB
/// segments of a 100 GiB database add some hundreds.
pub(crate) const TREE_ENTRIES_MAX: usize = 1_000_000;

/// Files copied to an export at a time: enough to hide a round trip and a flush for each, and
/// no more connections than a small filer has threads.
pub(crate) const EXPORT_COPIERS: usize = 8;

/// Silence of a foreign server after which the laboratory's own calls are sent again; after
/// three times this it gives up, so that nobody waits for a filer that is gone.
pub(crate) const EXPORT_SILENCE_MAX: Duration = Duration::from_secs(15);

/// Time without a connection after which a filer that is not ours is lost: one that is restarted is back before.
pub(crate) const FILER_LOST_AFTER: Duration = Duration::from_secs(10);

/// Pause between two looks at such a filer, and the longest wait for a connection.
pub(crate) const FILER_WATCH_EVERY: Duration = Duration::from_secs(1);

/// Deepest tree removed from an export: a cluster has five levels.
pub(crate) const TREE_DEPTH_MAX: usize = 32;

/// Times a file is sent again to a server that lost unstable data.
pub(crate) const UNSTABLE_ROUNDS_MAX: usize = 3;

/// Longest time to make an empty database: a few seconds, on a busy host more.
pub(crate) const DATABASE_MAKE_MAX: Duration = Duration::from_secs(120);

/// Longest time from start to the first answer of the database: crash recovery never
/// happens here, the state was shut down cleanly.
pub(crate) const DATABASE_START_MAX: Duration = Duration::from_secs(120);

/// Longest time for a clean database stop: the shutdown checkpoint writes all dirty buffers.
pub(crate) const DATABASE_STOP_MAX: Duration = Duration::from_secs(120);

/// Longest time for the filer to say it is ready.
pub(crate) const FILER_START_MAX: Duration = Duration::from_secs(30);

/// Longest time until a LUN is attached: a minute for the login, and a file system is made.
pub(crate) const ATTACH_MAX: Duration = Duration::from_secs(180);

/// Longest time until a LUN is detached: its file system's dirty pages are written first.
pub(crate) const DETACH_MAX: Duration = Duration::from_secs(180);

/// Longest time until a file system is mounted: the kernel's NFS client tries a server for three minutes by itself; one of ours is up.
pub(crate) const MOUNT_MAX: Duration = Duration::from_secs(60);

/// Longest time until a file system is made on a device: 8 GiB are formatted, and a slow one discards its blocks first.
pub(crate) const MKFS_MAX: Duration = Duration::from_secs(300);

/// Longest time until one is unmounted: its dirty pages are written first.
pub(crate) const UNMOUNT_MAX: Duration = Duration::from_secs(180);

/// Longest time until programs have let go of a file system whose LUN is gone.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(30);

/// Least size of a LUN for a database, in bytes: room for its log whatever its size. A LUN takes space as it is written.
pub(crate) const LUN_BYTES_MIN: u64 = 8 << 30;

/// Least size of each LUN of a striped file system, in bytes: mkfs.btrfs wants 127 MiB of a device for raid0.
pub(crate) const STRIPED_LUN_BYTES_MIN: u64 = 128 << 20;

/// Size of a LUN as a multiple of the loaded state.
pub(crate) const LUN_PER_STATE: u64 = 4;

/// Steps of a ladder: each is two arms.
pub(crate) const LADDER_STEPS_MAX: usize = 12;

/// Longest time for the filer to drain and flush.
pub(crate) const FILER_STOP_MAX: Duration = Duration::from_secs(60);

/// Longest time a process gets after SIGTERM or SIGQUIT before SIGKILL when tearing down.
pub(crate) const KILL_AFTER: Duration = Duration::from_secs(8);

/// Longest reply of the filer's admin socket in bytes: 23 procedures of about 60 bytes.
pub(crate) const ADMIN_REPLY_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for a reply of the admin socket or of one statement of our own.
pub(crate) const REPLY_MAX: Duration = Duration::from_secs(30);

/// Time the driver gets beyond warm-up and interval: to open its sessions (64 of them on a modelled medium of 240 ms had not all been
/// opened after 155 s in a guest of a busy host), for the transactions under way at the end (four minutes at most), and to close the
/// sessions.
pub(crate) const DRIVER_GRACE: Duration = Duration::from_secs(480);

/// Pause between two samples of what the database's sessions wait for.
pub(crate) const WAIT_SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Longest answer of a metrics server: a node's page has about 200 kB, an array's a few MB.
pub(crate) const METRICS_BYTES_MAX: u64 = 16 << 20;

/// Longest wait for a metrics server: it is asked at the ends of an interval, which it must not stretch.
pub(crate) const METRICS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Largest record that is read back: an hour of a hundred runs second by second is about 40 MB.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Deepest directory that is looked through for records: a year, a month, a day, a host and a plan are five.
pub(crate) const HISTORY_DEPTH_MAX: usize = 16;

/// Most files and directories looked at for records: a walk of some seconds.
pub(crate) const HISTORY_ENTRIES_MAX: usize = 1_000_000;

/// Largest record that is kept in a database, after what is drawn second by second was left out: a text of PostgreSQL has at most 1 GiB.
pub(crate) const KEPT_RECORD_BYTES_MAX: usize = 64 << 20;

/// Most records read from a database at once: 20 years of 10 a day.
pub(crate) const KEPT_RECORDS_MAX: i64 = 100_000;

/// Lines of a child's log shown with an error.
pub(crate) const LOG_LINES_SHOWN: usize = 12;

/// Bytes read from the end of a child's log to find those lines.
pub(crate) const LOG_TAIL_BYTES: u64 = 16 << 10;

/// Most processors of a guest: QEMU's own limit for this machine is 255, an emulated one is slower with more than the host has.
pub(crate) const GUEST_CPUS_MAX: u32 = 64;

/// Longest comparison in a guest: a report's plan takes two hours and a half there.
pub(crate) const GUEST_COMPARE_MAX: Duration = Duration::from_secs(12 * 3600);

/// Least disk of a guest for a comparison: a sparse file, of which LUNs may want 8 GiB each.
pub(crate) const GUEST_DISK_BYTES_MIN: u64 = 32 << 30;

/// Most network interfaces of a guest: paths of one comparison are four at most.
pub(crate) const GUEST_NICS_MAX: u32 = 8;

/// Most directories shared with a guest: each is a device.
pub(crate) const GUEST_SHARES_MAX: usize = 8;

/// Least memory of a guest: kernel, first root and modules take 120 MiB; the rest is for its programs.
pub(crate) const GUEST_MEMORY_BYTES_MIN: u64 = 256 << 20;

/// Longest time until QEMU has opened its sockets, or is gone after it closed them: below a second; a loaded host takes ten times that.
pub(crate) const GUEST_START_MAX: Duration = Duration::from_secs(20);

/// Longest boot: 2 s on a quiet host, 8 s with two busy programs for each processor.
pub(crate) const GUEST_BOOT_MAX: Duration = Duration::from_secs(90);

const _: () = assert!(COPY_CHUNK_BYTES >= 1 << 16);
const _: () = assert!(RUN_GROWTH_BYTES > BUFFERS_BYTES_MIN);
