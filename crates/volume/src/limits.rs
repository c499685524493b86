//! Bounds of the volume crate, each with its reason.

/// Longest handle given out, bytes: ESXi's NFSv3 client refuses more than 56.
pub(crate) const HANDLE_BYTES_MAX: usize = 56;
/// Longest kernel file handle kept inside ours, bytes: btrfs needs 20, xfs and tmpfs 12, ext4 8.
pub(crate) const KERNEL_HANDLE_BYTES_MAX: usize = 24;
/// Bytes of our handle beside the kernel's: version, type, length, kind, file id, parent hint, MAC.
pub(crate) const HANDLE_FRAME_BYTES: usize = 4 + 8 + 8 + 8;
const _: () = assert!(KERNEL_HANDLE_BYTES_MAX + HANDLE_FRAME_BYTES <= HANDLE_BYTES_MAX);

/// Nodes kept in memory: about 400 bytes each, so a table stays below 32 MiB.
pub(crate) const NODES_MAX: usize = 65_536;
/// Locks the node table is split over: many more than there are cores.
pub(crate) const NODE_SHARDS: usize = 64;
const _: () = assert!(NODES_MAX.is_multiple_of(NODE_SHARDS));

/// Descriptors left to sockets, logs and listings when the volumes' budget is computed.
pub(crate) const DESCRIPTORS_RESERVED: u64 = 512;
/// Smallest budget of cached descriptors of all volumes, however small RLIMIT_NOFILE is.
pub(crate) const DESCRIPTORS_MIN: usize = 32;
/// Largest budget of cached descriptors of all volumes. More would save nothing, and closing them at exit takes time.
pub(crate) const DESCRIPTORS_MAX: usize = 65_536;
/// Descriptors that are closed together when the budget is used up, so that the search for the volume with the most costs each open little.
pub(crate) const EVICTED_TOGETHER: usize = 16;

/// Longest name of one directory entry, bytes (Linux NAME_MAX).
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Longest symbolic link, bytes (Linux PATH_MAX).
pub(crate) const LINK_BYTES_MAX: usize = 4096;
/// Writes of one file through the page cache that the host gets at the same time. The host executes one at a time; durable ones share its
/// flushes. 32 of them were as fast as 1,000 (11,000 per second on ext4), and no write waited for longer than 15 ms.
pub(crate) const WRITERS_AT_ONCE_MAX: usize = 32;
/// Bytes fetched from the kernel per listing step.
pub(crate) const LISTING_BYTES: usize = 32 * 1024;
/// Deepest directory a climb or a walk follows: beyond PATH_MAX / 2 no host tool could reach it.
pub(crate) const DEPTH_MAX: usize = 2048;
/// Largest file offset: what a signed 64-bit file offset holds.
pub(crate) const OFFSET_MAX: u64 = i64::MAX as u64;

/// Objects a walk looks for at once; more callers get Busy.
pub(crate) const WANTED_MAX: usize = 65_536;
/// Objects remembered as gone, so that a stale handle costs one walk and not one per call.
pub(crate) const GONE_MAX: usize = 65_536;
/// Walks started again because names moved under them, before the last result is believed.
pub(crate) const WALK_REPEATS_MAX: u32 = 5;

/// Page size at which the loss layer keeps and takes back data: the unit a kernel writes back.
pub(crate) const LOSS_PAGE_BYTES: u64 = 4096;
/// Before-images the loss layer holds; beyond it a file is flushed, as a kernel short of memory would.
pub(crate) const LOSS_BYTES_MAX: usize = 256 << 20;
/// Files the loss layer remembers data of, each with a descriptor of its own.
pub(crate) const LOSS_FILES_MAX: usize = 2048;
/// Directories an unprivileged volume remembers the place of: about 100 MiB at the most.
pub(crate) const DIRECTORIES_MAX: usize = 1 << 20;

/// Faults set at once: more than a test tells apart, and each is compared with every operation while any is set.
pub(crate) const FAULTS_MAX: usize = 64;
/// Latest injections of faults that are remembered: about 150 bytes each.
pub(crate) const FAULT_INJECTIONS_KEPT: usize = 1024;
/// The unit a disk writes whole: what a torn write is torn at.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Bytes copied at a time where the host cannot share blocks between files.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// Alignment of direct reads and writes, in offset, length and memory: the page cache's unit, and no device requires more.
pub(crate) const DIRECT_ALIGN_BYTES: usize = 4096;
/// Largest direct transfer, bytes: the largest the protocol has; each thread that makes one keeps a buffer of that size.
pub(crate) const DIRECT_BYTES_MAX: usize = 1 << 20;
/// Requests for attributes after replies without them before replies include them: a program looks at a
/// file now and then, a client that caches does so after each reply.
pub(crate) const TIMES_REQUESTS_MIN: u32 = 4;
/// Replies with attributes before it is tried again without: the price of finding out is one in a thousand.
pub(crate) const TIMES_INCLUDED_MAX: u32 = 4096;
/// Bytes of unstable data that a shared flush may write along: some milliseconds of a disk. With more, a durable write is
/// flushed by itself.
pub(crate) const UNSTABLE_DRAGGED_BYTES_MAX: u64 = 1 << 20;
/// Times a kernel handle is tried while its inode number is being given to a new file: that takes microseconds, or a time
/// slice on a busy host.
pub(crate) const HANDLE_OPENS_MAX: u32 = 100;

/// Largest logical block of a block device, bytes: the page; what initiators and kernels take without question.
pub(crate) const BLOCK_BYTES_MAX: u32 = 4096;
/// Smallest logical block, bytes: the sector.
pub(crate) const BLOCK_BYTES_MIN: u32 = 512;
/// Bytes zeroed or discarded at a time: a quiesce, and the loss layer's memory, wait for one such piece only.
pub(crate) const ZERO_BYTES_MAX: u64 = 16 << 20;
const _: () = assert!(ZERO_BYTES_MAX < LOSS_BYTES_MAX as u64);
/// Zeros written at a time where the host cannot zero a range.
pub(crate) const ZERO_BUFFER_BYTES: usize = 256 << 10;
/// How long the open of a block device waits for file operations in flight to end.
pub(crate) const DEVICE_OPEN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Most file systems inside one directory that are listed: as many as a filer can serve.
pub(crate) const INSIDE_MAX: usize = 4096;
