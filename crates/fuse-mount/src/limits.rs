//! Limits of a mount, each with its reason.

/// Largest READ or WRITE of the kernel, in bytes: 256 pages, the most that it sends in one request, and the largest call of NFS.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Space for the head of a request, in bytes: what the kernel requires in addition to the largest WRITE. Names and the
/// target of a link fit too.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;
/// Requests served at the same time: as many as one user of a mount has connections to the server. More requests wait in this
/// process, where their callers can still be killed.
pub(crate) const WORKERS_MAX: usize = 64;
/// Threads that wait for requests. Further ones end when they have nothing to do. With 4 instead of 16, 16 parallel readers made
/// only three quarters of the reads, because threads ended and were started again. A waiting thread uses little memory.
pub(crate) const IDLE_WORKERS_MAX: usize = 16;
/// Requests that wait for a thread. A process waits for each, so there are thousands only while the server does not
/// answer. Further ones wait in the kernel.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Background requests (asynchronous I/O, RELEASE) that the kernel sends at the same time.
pub(crate) const BACKGROUND_MAX: u16 = WORKERS_MAX as u16;
/// Attempts to open or create a file while other processes remove it before its placeholder is locked.
pub(crate) const OPEN_ROUNDS_MAX: usize = 16;
/// Users (ids and groups) with connections at the same time. If there are more, one without open files is dropped.
pub(crate) const USERS_MAX: usize = 256;
/// Threads whose last lookup is kept. The next request of a thread removes its entry.
pub(crate) const RECENT_MAX: usize = 4096;
/// How long the result of a LOOKUP serves the next request of its thread, in ms: the time of one system call. It must not be
/// longer, because the next request can be about a descriptor that was opened with O_PATH long before.
pub(crate) const RECENT_MS: u64 = 10;
/// How long closing the open files may take after the unmount, in ms. It takes longer only if the server does not
/// answer; then the mount's keeper closes the rest.
pub(crate) const CLOSE_MS: u64 = 5000;
/// Pause between two attempts to get a lock, in ms: the same as in the preload library.
pub(crate) const LOCK_LOOK_MS: u64 = 5;
/// Pause between two checks whether a caller that got a signal was killed, in ms.
pub(crate) const KILL_LOOK_MS: u64 = 50;
/// How long a killed caller waits for its reply, in ms. The kernel moves the file offset when a write succeeds. If the
/// reply is an error but the write is still made, a process that shares the offset writes to the same place.
pub(crate) const KILL_WAIT_MS: u64 = 1000;
/// How long the check whether the process of a mount is alive may take, in ms.
pub(crate) const PROBE_MS: u64 = 3000;
/// Most nodes of one BATCH_FORGET that are handled: as many as fit in a request.
pub(crate) const FORGETS_MAX: usize = TRANSFER_BYTES_MAX / 16;
/// Preferred size of an I/O call (`st_blksize`), in bytes. Each call is one request, and a copy with this size needs few of them.
pub(crate) const BLOCK_BYTES: u32 = 128 * 1024;

const _: () = assert!(BLOCK_BYTES.is_power_of_two() && (BLOCK_BYTES as usize) <= TRANSFER_BYTES_MAX);
