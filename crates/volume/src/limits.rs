//! Bounds of the volume crate, each with its reason.

/// Longest handle given out, bytes: ESXi's NFSv3 client refuses more than 56.
pub(crate) const HANDLE_BYTES_MAX: usize = 56;
/// Longest kernel file handle that a volume's handle contains, bytes: btrfs needs 20, xfs and tmpfs 12, ext4 8.
pub(crate) const KERNEL_HANDLE_BYTES_MAX: usize = 24;
/// Most bytes of a volume's handle beside the kernel's: version, type, kind and length, tag; snapshot id, file id, parent hint, MAC.
pub(crate) const HANDLE_FRAME_BYTES: usize = 4 + 4 + 8 + 8 + 8;
const _: () = assert!(KERNEL_HANDLE_BYTES_MAX + HANDLE_FRAME_BYTES <= HANDLE_BYTES_MAX);

/// Nodes kept in memory: about 400 bytes each, so a table stays below 32 MiB.
pub(crate) const NODES_MAX: usize = 65_536;
/// Parts of the node table, each with its own lock: many more than the cores of a host.
pub(crate) const NODE_SHARDS: usize = 64;
const _: () = assert!(NODES_MAX.is_multiple_of(NODE_SHARDS));

/// Descriptors that the budget of the volumes leaves to sockets, logs and listings.
pub(crate) const DESCRIPTORS_RESERVED: u64 = 512;
/// Smallest budget of cached descriptors of all volumes, however small RLIMIT_NOFILE is.
pub(crate) const DESCRIPTORS_MIN: usize = 32;
/// Largest budget of cached descriptors of all volumes. More would save nothing, and closing them at exit takes time.
pub(crate) const DESCRIPTORS_MAX: usize = 65_536;
/// Descriptors closed at once when the budget is used up: one search for the volume with the most descriptors then serves many opens.
pub(crate) const EVICTED_TOGETHER: usize = 16;

/// Longest name of one directory entry, bytes (Linux NAME_MAX).
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Longest symbolic link, bytes (Linux PATH_MAX).
pub(crate) const LINK_BYTES_MAX: usize = 4096;
/// Writes of one file through the page cache that are passed to the host at the same time. The host executes one at a time; durable
/// ones share its flushes. 32 were as fast as 1,000 (11,000 per second on ext4), and no write waited longer than 15 ms.
pub(crate) const WRITERS_AT_ONCE_MAX: usize = 32;
/// Bytes fetched from the kernel per listing step.
pub(crate) const LISTING_BYTES: usize = 32 * 1024;
/// Deepest directory that a search follows: no path of the host is deeper than PATH_MAX / 2.
pub(crate) const DEPTH_MAX: usize = 2048;
/// Largest file offset: what a signed 64-bit file offset holds.
pub(crate) const OFFSET_MAX: u64 = i64::MAX as u64;

/// Objects that walks search for at the same time. Further ones are not noted; their callers get `Busy` and ask again.
pub(crate) const WANTED_MAX: usize = 65_536;
/// Objects remembered as gone, so that a stale handle does not cost a walk with each call.
pub(crate) const GONE_MAX: usize = 65_536;
/// Times a walk is made while renames by this process interrupt it. The last result is used as it is.
pub(crate) const WALK_REPEATS_MAX: u32 = 5;

/// Page size in which the loss layer saves and takes back data: the unit in which a kernel writes back.
pub(crate) const LOSS_PAGE_BYTES: u64 = 4096;
/// Most memory for before-images of the loss layer. Beyond it, the layer flushes a file, as a kernel short of memory does.
pub(crate) const LOSS_BYTES_MAX: usize = 256 << 20;
/// Most files of which the loss layer keeps data or attributes, each with a descriptor of its own.
pub(crate) const LOSS_FILES_MAX: usize = 2048;
/// Directories whose place a volume remembers if it finds objects by name: about 100 MiB at the most.
pub(crate) const DIRECTORIES_MAX: usize = 1 << 20;

/// Faults set at the same time. Every operation is compared with each of them, and no test needs more.
pub(crate) const FAULTS_MAX: usize = 64;
/// Injections of faults on record; older ones are dropped. About 150 bytes each.
pub(crate) const FAULT_INJECTIONS_KEPT: usize = 1024;
/// The unit that a disk writes whole: a torn write is torn at its boundaries.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Bytes copied at a time where the host cannot share blocks between files.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// Alignment of direct reads and writes, in offset, length and memory: the page of the page cache. No device requires more.
pub(crate) const DIRECT_ALIGN_BYTES: usize = 4096;
/// Largest direct transfer, bytes: the largest the protocol has; each thread that makes one keeps a buffer of that size.
pub(crate) const DIRECT_BYTES_MAX: usize = 1 << 20;
/// Requests for attributes, each after a reply without them, before replies include them. A single program checks a
/// file now and then; a client that caches requests the attributes after each reply.
pub(crate) const TIMES_REQUESTS_MIN: u32 = 4;
/// Replies with attributes before replies leave them out again. With 4,096, this test costs one reply in a thousand.
pub(crate) const TIMES_INCLUDED_MAX: u32 = 4096;
/// Most unstable data that a shared flush may also write: some milliseconds of a disk. If there is more, a durable write has
/// its own flush.
pub(crate) const UNSTABLE_DRAGGED_BYTES_MAX: u64 = 1 << 20;
/// Times a kernel handle is tried while the kernel assigns its inode number to a new file: that takes microseconds, or a
/// time slice on a busy host.
pub(crate) const HANDLE_OPENS_MAX: u32 = 100;

/// Largest logical block of a block device, bytes: the page, which all initiators and kernels accept.
pub(crate) const BLOCK_BYTES_MAX: u32 = 4096;
/// Smallest logical block, bytes: the sector.
pub(crate) const BLOCK_BYTES_MIN: u32 = 512;
/// Bytes zeroed or discarded in one change: a quiesce waits for one such piece only, and the loss layer can hold it.
pub(crate) const ZERO_BYTES_MAX: u64 = 16 << 20;
const _: () = assert!(ZERO_BYTES_MAX < LOSS_BYTES_MAX as u64);
/// Zeros written at a time where the host cannot zero a range.
pub(crate) const ZERO_BUFFER_BYTES: usize = 256 << 10;
/// How long the open of a block device waits for file operations in flight to end.
pub(crate) const DEVICE_OPEN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// File systems inside one directory at which the search for further ones ends: as many as a filer can serve.
pub(crate) const INSIDE_MAX: usize = 4096;
