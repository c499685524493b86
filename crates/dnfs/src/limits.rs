//! Bounds of the client, each with its reason.

use nfs_proto::limits::{AUTH_BYTES_MAX, HANDLE_BYTES_MAX, NAME_BYTES_MAX, RECORD_BYTES_MAX, TRANSFER_BYTES_MAX};

/// Channels of one client in one process. If more threads make calls at once, they wait for a channel; a server drops clients
/// with hundreds of connections.
pub const CHANNELS_MAX: usize = 64;
/// Connections of a mount on one host that stay open between calls; servers with a low limit accept more than that.
pub const KEPT_CONNECTIONS_MAX: usize = 64;
/// Minimum of those connections after a server refused more.
pub const KEPT_CONNECTIONS_MIN: usize = 4;
/// How often a process searches for places of dead processes, in milliseconds.
pub const KEPT_LOOK_MS: u64 = 1000;
/// How long fewer connections stay open after a refusal, in milliseconds.
pub const KEPT_LOW_MS: u64 = 30_000;
/// Calls in flight on one channel for one large read or write. 16 transfers of 64 KiB fill any path that this client is for,
/// and are far below the 128 that servers accept per connection.
pub const SLOTS_MAX: usize = 16;
/// Maximum of `slots=`, the calls in flight of a whole mount: 8 times what servers accept per connection. A free slot is found
/// by a scan of the table.
pub const CALL_SLOTS_MAX: usize = 1024;
/// Processes that can hold a slot or a lock of the shared memory at once: databases have some hundreds. Writes of other
/// processes are sent stable (mount/outsiders.rs).
pub const MEMBERS_MAX: usize = 1024;
/// Places that only keepers take: the keeper, its standby, and the two that replace them.
pub const KEEPER_MEMBERS: usize = 4;
/// How long a process that found all places taken waits before it tries again, in ms: a try is a system call for each place.
pub const MEMBER_RETRY_MS: u64 = 1_000;
/// How long such a process waits for a silent keeper, in ms. Then its call fails.
pub const OUTSIDER_WAIT_MS: u64 = 10_000;
/// Leases of all processes of a mount at once: a call in progress holds one to four. A call that finds no free lease continues
/// without one: its locks are taken over only when its process has died.
pub const LEASES_MAX: usize = 1024;
/// Age at which a lease may be revoked, in ms.
pub const LEASE_MS: u64 = 1_000;
/// Longest time of a NULL or FENCE call by which a waiter takes over a lease, in ms. It is below [`LEASE_MS`], because the waiter
/// does not renew its own leases during that call.
pub const FENCE_CALL_MS: u64 = 750;
/// Pause between the attempts to fence, in ms.
pub const FENCE_PAUSE_MS: u64 = 50;
/// Threads of one process whose leases are renewed. The locks of further threads are taken over only when the process has died.
pub const LEASE_THREADS_MAX: usize = 4096;
/// Leases of one thread that are renewed: a COMMIT of 16 files holds one for each.
pub const THREAD_LEASES_MAX: usize = 24;
/// Written data kept until COMMIT, in bytes, unless `retain=` says otherwise or the runtime directory has less than four times as
/// much.
pub const RETAIN_BYTES_MAX: u64 = 64 << 20;
/// Maximum of `retain=`, in bytes.
pub const RETAIN_BYTES_LIMIT: u64 = 4 << 30;
/// Minimum of `retain=`, in bytes: with less, nothing is kept.
pub const RETAIN_BYTES_MIN: u64 = 1 << 20;
/// Times a resend starts again because the server's verifier changed; then it is sent FILE_SYNC, which needs no verifier.
pub const RESEND_ROUNDS_MAX: u32 = 3;
/// Times a write waits for a chunk to be freed by a COMMIT before it is sent FILE_SYNC.
pub const CHUNK_ROUNDS_MAX: u32 = 8;
/// Lock files that the threads of one process hold at once: two for each of 64 threads.
pub const FILE_LOCKS_MAX: usize = 128;
/// Members' files of one process at once: a mount has one, and a program 8 mounts; the rest is for tests.
pub const MEMBER_FILES_MAX: usize = 64;
/// Longest sleep of a thread that waits for a slot or a writer, in ms; then it checks whether the holder is dead.
pub const HOLDER_CHECK_MS: u64 = 20;
/// Longest wait for another caller's COMMIT, in ms; then the waiter sends its own. It is longer than a busy disk needs.
pub const COMMIT_TURN_MS: u64 = 5_000;
/// Size classes in the counters of calls: 512 bytes to 1 MiB.
pub const SIZE_COUNT: usize = 12;
/// Steps in each power of two of the latency counters: a time is known to 6 %, and its middle to 3 %.
pub const LATENCY_STEPS: usize = 16;
/// Places of the latency counters: 1 us to 137 s.
pub const LATENCY_COUNT: usize = 27 * LATENCY_STEPS;
/// Largest READ or WRITE sent, in bytes.
pub const IO_BYTES_MAX: u32 = TRANSFER_BYTES_MAX;
/// Room for the head of a READ, WRITE or COMMIT call, in bytes: mark, RPC header, credential, handle, numbers.
pub const IO_HEAD_BYTES_MAX: usize = 4 + 24 + 8 + AUTH_BYTES_MAX + 8 + 4 + HANDLE_BYTES_MAX + 24;
/// Room for the heads of all calls in flight on a channel, in bytes; any single call fits too.
pub const SEND_BYTES_MAX: usize = 16 * 1024;
/// Room for received records on a channel, in bytes: one whole record and its marks, so that even a reply cut into
/// fragments is put together without an allocation.
pub const RECEIVE_BYTES_MAX: usize = RECORD_BYTES_MAX + 4096;
/// Segments given to one `sendmsg` or `recvmsg`. An 8 KiB page is one segment; more segments take more calls.
pub const SEGMENTS_MAX: usize = 64;
/// Calls in flight of a pipeline. Servers take 128 per connection or so; beyond that they only wait in a queue.
pub const PIPELINE_DEPTH_MAX: usize = 1024;
/// Calls in flight of one kind of one thread's asynchronous I/O on a mount: what servers take per connection.
pub const ASYNC_DEPTH_MAX: usize = 128;
/// READs that a process may have sent ahead of the program on a mount, and bytes of each. The small ones are for hints, which
/// mostly concern pages of a database (PostgreSQL gives up to `effective_io_concurrency` of them at once). The large ones are
/// for sequential readers, several at a time. Memory is only touched when it is used.
pub const EARLY_SMALL_COUNT: usize = 64;
/// See [`EARLY_SMALL_COUNT`].
pub const EARLY_SMALL_BYTES: usize = 128 << 10;
/// See [`EARLY_SMALL_COUNT`].
pub const EARLY_LARGE_COUNT: usize = 32;
/// See [`EARLY_SMALL_COUNT`].
pub const EARLY_LARGE_BYTES: usize = 512 << 10;
/// How long such bytes may be used after their READ was sent, in ms. After that time at most, a program sees what other hosts
/// wrote.
pub const EARLY_AGE_MS: u64 = 1_000;
/// Pause of such READs after the server did not answer one, in ms.
pub const EARLY_PAUSE_MS: u64 = 1_000;
/// Receive buffer requested for the socket of a pipeline, in bytes: one receive brings some thirty replies of 8 KiB.
pub const PIPELINE_SOCKET_BYTES: usize = 1 << 20;
/// Bytes that one READDIRPLUS requests. Larger replies save round trips; servers limit it themselves.
pub const DIRECTORY_BYTES: u32 = 64 * 1024;
/// Malformed or unexpected replies to one call before the client gives it up: a peer that sends more is not an NFS server.
pub const PROTOCOL_ERRORS_MAX: u32 = 8;
/// Replies with an unknown xid skipped on one connection while waiting for one answer.
pub const UNEXPECTED_REPLIES_MAX: u32 = 64;
/// Size of the largest call or reply of the program CHANNEL, in bytes. A call has a header with a credential, 40 bytes
/// of arguments and a handle. A result has about 50 bytes.
pub const ATTACH_BYTES_MAX: usize = 4 + 24 + 8 + AUTH_BYTES_MAX + 8 + 40 + nfs_proto::limits::HANDLE_BYTES_MAX;
/// How often in a row a new connection sends ATTACH: the server may have restarted, or calls of the old connection may still
/// run.
pub const ATTACH_ROUNDS_MAX: u32 = 4;
/// First attempts to attach a channel that may end without a reply; after them the client assumes that the server does not have
/// the program.
pub const ATTACH_UNANSWERED_MAX: u32 = 3;
/// Addresses of the server that may be in use at once, each with write verifiers of its own in the segment: as many as a cluster gives
/// one export. The number has four bits there.
pub const ENDPOINTS_MAX: usize = 16;
/// Addresses kept of one host name, of one server, and of this host: as many paths as multipath NICs give a database host.
pub const ADDRESSES_MAX: usize = 8;
/// Longest wait for one connection attempt once mounted, in ms; then a fresh one begins.
pub const CONNECT_ATTEMPT_MS: u64 = 1000;
/// Longest wait for the connection of a mount, in ms.
pub const MOUNT_CONNECT_MS: u64 = 5000;
/// Longest time for the AUTH_TLS probe and the handshake, in ms; then a fresh connection is made.
pub const HANDSHAKE_MS: u64 = 5000;
/// Longest reply to the AUTH_TLS probe, in bytes: a reply without results, whatever its verifier holds.
pub const PROBE_REPLY_BYTES_MAX: usize = 64 + AUTH_BYTES_MAX;
/// Largest file of certificates or keys, in bytes: the bundle of a distribution is a quarter of it.
pub const PEM_BYTES_MAX: usize = 1 << 20;
/// Encrypted records of one send, in bytes: seven pages of 8 KiB and their calls, or four full records.
pub const SEALED_BYTES: usize = 68 * 1024;
/// First pause between connection attempts, in ms; doubled up to [`BACKOFF_MS_MAX`].
pub const BACKOFF_MS_MIN: u64 = 10;
/// Longest pause between connection attempts, in ms: a server that came back is found within half a second.
pub const BACKOFF_MS_MAX: u64 = 500;
/// First pause after NFS3ERR_JUKEBOX, in ms; doubled up to [`JUKEBOX_MS_MAX`].
pub const JUKEBOX_MS_MIN: u64 = 20;
/// Longest pause after NFS3ERR_JUKEBOX, in ms.
pub const JUKEBOX_MS_MAX: u64 = 2000;
/// First pause between two GETATTRs of the root of an export that is gone, in ms; doubled up to [`GONE_PAUSE_MS_MAX`].
pub const GONE_PAUSE_MS_MIN: u64 = 20;
/// Longest such pause, in ms: each of a database's hundreds of processes asks.
pub const GONE_PAUSE_MS_MAX: u64 = 1000;
/// Pause between two questions of the keeper for an export that is gone, or for a server that does not answer, in ms.
pub const GONE_ASK_MS: u64 = 2000;
/// Timeout of the GETATTR of the root by which the keeper or an attaching process checks for the export, in ms. Longer than a
/// busy disk takes.
pub const ASK_TIME_MS: u64 = 2500;
/// Time without a reply after which the server is reported as not responding, in ms.
pub const UNRESPONSIVE_MS: u64 = 5000;
/// Age at which the client sends an unanswered idempotent call under another xid, while the server answers other calls, in ms;
/// doubled each time up to [`RENEW_MS_MAX`].
pub const RENEW_MS_MIN: u64 = 5000;
/// Largest such age, in ms.
pub const RENEW_MS_MAX: u64 = 60_000;
/// Time after the end of a connection in which the server may still execute calls that it had received on it, in ms, unless
/// `fence_ms=` in the URL says otherwise. A server executes received calls within a few ms.
pub const FENCE_MS: u32 = 1000;
/// Largest `fence_ms=`.
pub const FENCE_MS_MAX: u32 = 60_000;
/// The server counts as answering if it answered any process within this time, in ms.
pub const ANSWER_RECENT_MS: u64 = 2000;
/// Accuracy of the shared time of the last answer, in ms: processes write the shared cache line at most this often.
pub const ANSWER_STEP_MS: u64 = 250;
/// Shortest time between two NULL calls by which a process probes a silent server, in ms.
pub const PROBE_EVERY_MS: u64 = 2000;
/// Timeout of a NULL call, in ms.
pub const PROBE_ANSWER_MS: u64 = 1000;
/// Least time between two reports that a server does not respond, in ms: one that comes and goes fills no log.
pub const REPORT_EVERY_MS: u64 = 60_000;
/// Lowest number that the descriptors of channels are moved to.
pub const DESCRIPTOR_MIN: i32 = 900;
/// Longest machine name sent, in bytes: a host name (HOST_NAME_MAX is 64).
pub const MACHINE_BYTES_MAX: usize = 64;

/// Symbolic links followed in one path, as Linux does (ELOOP).
pub const SYMLINKS_MAX: u32 = 40;
/// Longest path of a program, in bytes (Linux PATH_MAX), and longest text of a symbolic link.
pub const PATH_BYTES_MAX: usize = nfs_proto::limits::PATH_BYTES_MAX;
/// Longest name in a path, in bytes: what file systems take (NAME_MAX).
pub const COMPONENT_BYTES_MAX: usize = 255;
/// Longest time that the client uses attributes, sizes and directory handles without asking the server, in ms, unless one host
/// owns the export: between the 3 and 60 s (files) and the 30 and 60 s (directories) of a Linux client.
pub const ATTRIBUTE_AGE_MS_MAX: u64 = 30_000;
/// Directories and links that one process caches. PostgreSQL uses a few dozen; one that was dropped costs a LOOKUP.
pub const DIRECTORIES_MAX: usize = 4096;
/// Time after which a call of a killed process has reached the server or never will, in ms. Servers execute what they received
/// within a few ms; a process that finds such a call waits for this time.
pub const IN_FLIGHT_MS: u64 = 300;
/// The same time for the silly name that a killed process was giving to an open file. No process waits for it, so the limit is
/// generous.
pub const SILLY_IN_FLIGHT_MS: u64 = 10_000;
/// If this process changed other attributes of a file within this time, in ms, a change to the owner that the file already has
/// sends no SETATTR: it would change only the ctime, by at most this time.
pub const SAME_OWNER_MS_MAX: u32 = 50;
/// The client assumes that the first write to a new file is its whole content if the write is shorter than this, in
/// bytes, and its length is not a multiple of the sector size.
pub const SMALL_FILE_BYTES_MAX: usize = 64 << 10;
/// Shortest time between searches for files that were unlinked while open and whose last close was not seen, in ms. A search
/// costs three system calls for each such file.
pub const SWEEP_PAUSE_MS: u64 = 50;
/// Pause between two checks of a keeper, in ms: data of a killed process is unstable for that time.
pub const KEEPER_LOOK_MS: u64 = 1000;
/// If the keeper was silent for this time, in ms, writers assume that it is busy or gone and send their COMMITs themselves.
pub const KEEPER_SILENT_MS: u64 = 2500;
/// How long the first writes that may be coalesced wait for a keeper that is starting, in ms. It takes 20 to 100 in a release
/// build.
pub const KEEPER_START_MS: u64 = 1000;
/// Pause between two checks of a new keeper for the first write, in ms.
pub const KEEPER_FIRST_LOOK_MS: u64 = 10;
/// How long a new keeper checks at this pause, in ms.
pub const KEEPER_FIRST_LOOKS_MS: u64 = 5000;
/// Longest call of a keeper, in ms: it may notice only after that time that its segment is gone.
pub const KEEPER_CALL_MS: u64 = 10_000;
/// How long a process that attaches waits for the keeper of another version of Millrace to save what programs wrote, in ms.
pub const OTHER_LAYOUT_WAIT_MS: u64 = 30_000;
/// Consecutive checks that find a mount unused before its keeper ends: a shell starts the next program meanwhile.
pub const KEEPER_UNUSED_LOOKS: u32 = 3;
/// Age at which uncommitted writes of an open file are committed, in ms (Linux: `dirty_expire_centisecs`).
pub const DIRTY_EXPIRE_MS: u64 = 30_000;
/// Requests for a size that writes keep changing; then the largest acknowledged end is used.
pub const SIZE_ROUNDS_MAX: u32 = 32;
/// Times a large write is repeated because the server restarted during it.
pub const WRITE_ROUNDS_MAX: u32 = 8;
/// Times a slot may be given to another file between finding it and locking it.
pub const REMOVE_ROUNDS_MAX: u32 = 8;
/// After a write met coalesced writes of its file, no run of the file begins for this time, in ms: two writers to one file do
/// not take turns.
pub const RUN_MET_MS: u32 = 20;
/// How long a caller waits for another one that sends coalesced writes, in ms, if that one may be waiting for the caller.
pub const RUN_WAIT_MS: u64 = 1000;
/// Bytes of one WRITE of coalesced writes, if the server accepts as many and `wsize=` does not say otherwise.
pub const GATHERED_CALL_BYTES: u32 = 512 << 10;
/// Age at which the keeper sends coalesced writes, in ms. When a container is killed, its keeper ends too and the unsent writes
/// are lost: at most 50 ms of completed writes, of which 10 ms are for the keeper's wake-up and the call.
pub const RUN_AGE_MS: u64 = 40;
/// How long the keeper waits after it could not send coalesced writes, in ms.
pub const RUN_RETRY_MS: u64 = 500;
/// Files whose coalesced writes the keeper sends at the same time: one slow answer must not delay the others.
pub const RUN_SENDERS_MAX: usize = 8;
/// Bytes that are read ahead of a write from its source end at a multiple of this: retention fills each of its chunks once.
pub const LAZY_STEP_BYTES: usize = 64 * 1024;
/// Maximum bytes of one call of such a write: the first call leaves before the last bytes are read, also if a server accepts 1
/// MiB.
pub const LAZY_CALL_BYTES_MAX: u32 = 256 * 1024;
/// Files committed at once when every slot of the segment belongs to a file that is open or not yet stable.
pub const RECLAIM_COMMITS: u32 = 64;
/// How often that is done for one open, since other processes take the slots that become free.
pub const RECLAIM_ROUNDS_MAX: u32 = 64;
/// Times the path of an open directory is searched while other processes rename it.
pub const LOCATE_ROUNDS_MAX: u32 = 64;
/// Times a name is looked up again because its object was removed at that moment.
pub const LOOKUP_ROUNDS_MAX: u32 = 4;
/// Times a listing starts again because the directory changed.
pub const LISTING_ROUNDS_MAX: u32 = 8;

const _: () = assert!(RECEIVE_BYTES_MAX >= rpc_tls::limits::HANDSHAKE_BYTES_MAX);
const _: () = assert!(SEALED_BYTES > 4 * rpc_tls::limits::RECORD_BYTES_MAX);
const _: () = assert!(512 << (SIZE_COUNT - 1) == IO_BYTES_MAX as usize);
const _: () = assert!(SLOTS_MAX * IO_HEAD_BYTES_MAX <= SEND_BYTES_MAX);
const _: () = assert!(IO_HEAD_BYTES_MAX + 2 * NAME_BYTES_MAX + PATH_BYTES_MAX + 128 <= SEND_BYTES_MAX);
const _: () = assert!((DIRECTORY_BYTES as usize) < RECEIVE_BYTES_MAX);
/// How often an attach begins again because its URL leads to another segment now: each time a volume or a directory was replaced.
pub(crate) const FIND_ROUNDS_MAX: usize = 8;
