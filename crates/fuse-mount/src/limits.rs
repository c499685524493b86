//! Bounds of a mount, each with its reason.

/// Largest READ or WRITE of the kernel, in bytes: 256 pages, the most it sends in one request, and the largest call of NFS.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Room for the head of a request, in bytes: what the kernel wants beside the largest WRITE; names and a link's text fit too.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;
/// Requests served at once: as many as one user of a mount has connections to the server. More wait here, where a kill still reaches
/// them.
pub(crate) const WORKERS_MAX: usize = 64;
/// Threads that wait for requests; those beyond end when they have nothing to do. With 4, 16 readers at once had three quarters of the
/// reads they have with 16, since threads came and went; each has touched little of its memory.
pub(crate) const IDLE_WORKERS_MAX: usize = 16;
/// Requests that wait for a thread. A process waits for each, so there are thousands only while the server is away; beyond that they
/// wait in the kernel.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Requests that the kernel sends without waiting for the ones before (asynchronous I/O, RELEASE).
pub(crate) const BACKGROUND_MAX: u16 = WORKERS_MAX as u16;
/// Times an open is begun again because the file was removed between the answer and the placeholder's lock.
pub(crate) const OPEN_ROUNDS_MAX: usize = 16;
/// Users (ids and groups) with connections at once; those without open files make room.
pub(crate) const USERS_MAX: usize = 256;
/// Threads of which it is known what they looked up last; each entry is gone with the thread's next request.
pub(crate) const RECENT_MAX: usize = 4096;
/// How long the answer to a LOOKUP serves the next request of its thread, in ms: the time within one system call, and no
/// longer, since a descriptor opened with O_PATH can be asked for later.
pub(crate) const RECENT_MS: u64 = 10;
/// How long closing what is still open may take once it is unmounted, in ms: longer only where the server is away, and then the
/// mount's keeper does what is left.
pub(crate) const CLOSE_MS: u64 = 5000;
/// Pause between two looks at locks that are waited for, in ms: as under the preload library.
pub(crate) const LOCK_LOOK_MS: u64 = 5;
/// Pause between two looks whether a caller that got a signal was killed, in ms.
pub(crate) const KILL_LOOK_MS: u64 = 50;
/// How long a killed caller waits for its answer, in ms. The kernel moves the file offset when a write is answered; if it is refused and still
/// carried out, a process that shares the offset writes to the same place.
pub(crate) const KILL_WAIT_MS: u64 = 1000;
/// How long a mount point may take to say whether its process is alive, in ms.
pub(crate) const PROBE_MS: u64 = 3000;
/// Most names of one BATCH_FORGET looked at: what fits in a request of pages.
pub(crate) const FORGETS_MAX: usize = TRANSFER_BYTES_MAX / 16;
/// What programs are told to use as a block for I/O, in bytes: each call is one request, large enough that a copy has few.
pub(crate) const BLOCK_BYTES: u32 = 128 * 1024;

const _: () = assert!(BLOCK_BYTES.is_power_of_two() && (BLOCK_BYTES as usize) <= TRANSFER_BYTES_MAX);
