//! Bounds of the filer, each with its reason.

use std::time::Duration;

use nfs_proto::limits::{RECORD_BYTES_MAX, TRANSFER_BYTES_MAX};

/// Concurrent NFS connections. iSCSI has the same limit of its own. An idle connection takes about 2 KiB.
pub const CONNECTIONS_MAX: usize = 12_288;
/// Connections that have a thread because they received data a moment ago. One client may have half of them. A thread uses about 20 KiB of
/// its stack of [`STACK_BYTES`], and its buffers take [`RECEIVE_BYTES_START`] and [`REPLY_BYTES_IDLE`].
pub const RUNNING_MAX: usize = 2048;
/// How long a thread serves a busy connection, or waits for an idle one, while other connections wait for a thread. It is much longer than
/// a thread takes to change to another connection.
pub const CROWDED_TURN: Duration = Duration::from_millis(20);
/// Number of connection threads above which a thread parks its connection after [`MANY_RUNNING_IDLE`] without a request.
pub const MANY_RUNNING: usize = RUNNING_MAX / 4;
/// Idle time after which such a thread parks its connection. It is much longer than the time between two requests of one of 1,000 busy
/// connections.
pub const MANY_RUNNING_IDLE: Duration = Duration::from_millis(250);
/// Receives in a row that wait for [`BUFFER_IDLE`] without data, after which a connection gives up its thread and its buffers. Together
/// they take a second.
pub const PARKED_AFTER_WAITS: u32 = 2;
/// Seconds after which the filer tries again to start a thread for a connection that waits for one.
pub const PARKED_WAKE_S: i64 = 1;
/// Connections of all clients that no rule names. Such clients get only refusals, for which these places are enough.
pub const STRANGERS_MAX: usize = 64;
/// Places that one address leaves to others, so that the database of another host can still connect.
pub const OTHERS_RESERVED: usize = 1024;
/// Connections that were closed to make room and have not ended. Each has a thread that still executes a call.
pub const LEAVING_MAX: usize = 64;
/// Seconds between two log lines about refusals of one kind.
pub const REFUSALS_LOGGED_S: u32 = 10;
/// Seconds without a request up to which a connection that has brought any is not closed to make room for another.
pub const IDLE_SPARED_S: u32 = 30;
/// Descriptors that the filer asks the host for when it starts: for connections, for the volumes' files, and a reserve.
pub const DESCRIPTORS_WANTED: u64 = 65_536;
/// Descriptors that new connections leave to calls, which open files and directories for a moment.
pub const DESCRIPTORS_SPARE: u64 = 64;
/// Connections that the kernel queues until the filer accepts them, for many clients that connect at the same time.
pub const BACKLOG: i32 = 4096;
/// Stack of a connection or worker thread, in bytes. No handler recurses or keeps large arrays.
pub const STACK_BYTES: usize = 256 * 1024;

/// Exports of a filer. Each takes five descriptors and about 15 KiB.
pub const EXPORTS_MAX: usize = 4096;
/// Threads that open volumes at the start. Each waits for the disk.
pub const OPENING_THREADS: usize = 16;
/// Longest name of a volume, in bytes. The name is part of a path in the state directory and of tables on a screen.
pub const VOLUME_NAME_BYTES_MAX: usize = 64;
/// Longest name of a host, in bytes (RFC 1035 2.3.4).
pub const HOST_NAME_BYTES_MAX: usize = 255;

/// Receive buffer of a connection at its start, in bytes: one write of a 16 KiB page, or a hundred read calls.
pub const RECEIVE_BYTES_START: usize = 20 * 1024;
/// Receive buffer of an idle connection, in bytes: 25 calls. It grows again when more data arrives.
pub const RECEIVE_BYTES_IDLE: usize = 4096;
/// Receive buffer of a connection whose socket is never empty, in bytes. One system call then receives 32 writes of 8 KiB.
pub const RECEIVE_BYTES_BUSY: usize = 288 * 1024;
/// Largest receive buffer, in bytes: one record of the largest transfer.
pub const RECEIVE_BYTES_MAX: usize = RECORD_BYTES_MAX + 4096;
/// Consecutive turns without need for a large buffer after which the connection frees it.
pub const SMALL_TURNS: u32 = 64;
/// Time for each MiB of an incomplete frame. A frame that never ends would otherwise keep its buffer forever.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(60);
/// The same limit for a frame with a large buffer while memory is short. A MiB that takes longer arrives at less than 4 Mbit/s.
pub const FRAME_TIMEOUT_SHORT: Duration = Duration::from_secs(2);
/// How long an idle connection keeps a large buffer.
pub const BUFFER_IDLE: Duration = Duration::from_millis(500);
/// Bytes of collected replies after which they are sent: large enough to make the cost of a send small, and small enough that the client
/// can continue while the filer serves the next requests.
pub const REPLY_BYTES_GATHERED: usize = 128 * 1024;
/// Reply buffer of an idle connection, in bytes.
pub const REPLY_BYTES_IDLE: usize = 20 * 1024;
/// Sum of all buffers, in bytes, up to which connections keep large ones between turns. Above it each connection frees its own at the end
/// of a turn. So 64 connections stay below 64 MiB, whatever the size of their transfers.
pub const BUFFER_BYTES_KEPT: usize = 24 << 20;

/// Largest sum of all buffers, in bytes. Above it no connection gets a larger buffer. A connection that needs one waits, and is closed
/// after [`BUFFER_WAIT`]. No database moves a MiB on each of 500 connections at one moment.
pub const BUFFER_BYTES_MAX: usize = 512 << 20;
/// Part of [`BUFFER_BYTES_MAX`] for large buffers and data of SCSI commands. The rest is for the small buffers of each connection with
/// a thread, and for slow requests.
pub const BUFFER_BYTES_GROWN_MAX: usize =
    BUFFER_BYTES_MAX - SLOW_BYTES_MAX - RUNNING_MAX * (RECEIVE_BYTES_START + REPLY_BYTES_IDLE);
/// Sum of all buffers above which memory is short. Incomplete frames then have little time.
pub const BUFFER_BYTES_SHORT: usize = BUFFER_BYTES_MAX / 8 * 5;
/// Part of [`BUFFER_BYTES_MAX`] for SCSI commands that wait for more of their data.
pub const COMMAND_BYTES_MAX: usize = BUFFER_BYTES_MAX / 2;
/// Part of [`COMMAND_BYTES_MAX`] that one client may take. Half of it may be unsolicited data: 256 commands of 256 KiB, two full queues
/// of Linux.
pub const COMMAND_BYTES_PER_CLIENT_MAX: usize = 128 << 20;
/// Part of [`BUFFER_BYTES_GROWN_MAX`] that the large buffers of one client may take. The rest is left to other clients.
pub const BUFFER_BYTES_PER_CLIENT_MAX: usize = BUFFER_BYTES_GROWN_MAX / 4 * 3;
/// Sum of all buffers up to which no connection waits for memory.
pub const BUFFER_BYTES_UNWATCHED: usize = BUFFER_BYTES_MAX / 2;
/// How long a connection waits for memory. By then the filer has closed connections with incomplete frames.
pub const BUFFER_WAIT: Duration = Duration::from_secs(5);

/// Threads of a service that execute slow calls (stable writes, commits, changes of names, reads of uncached data). The
/// flushes of that many calls can overlap. One client gets at most a quarter of the threads, and at most 37 at one volume. One volume gets
/// at most half (`connections::queue`).
pub const WORKERS_MAX: usize = 256;
/// Workers that do not end when they are idle: the speed goals are measured at depth 32.
pub const WORKERS_KEPT: usize = 32;
/// Idle time after which the other workers end: longer than the pauses of a busy database.
pub const WORKER_IDLE: Duration = Duration::from_secs(10);
/// Workers that execute calls of one group at the same time, for example stable writes of one file. While one worker waits for its flush,
/// the next writes accumulate and then share a flush.
pub const BATCHES_PER_GROUP_MAX: usize = 2;
/// Calls that one worker takes together, with one flush: as many as one connection may have in progress.
pub const REQUESTS_PER_BATCH_MAX: usize = 64;
/// Slow calls of one connection that wait for a worker, run on one, or have replies that wait for the peer. The connection's own thread
/// executes further ones.
pub const SLOW_REQUESTS_PER_CONNECTION_MAX: usize = 64;
/// Bytes of the slow calls of all connections, and of their replies until these have left. One client may have half of it. Above the limit
/// each connection's own thread executes its slow calls.
pub const SLOW_BYTES_MAX: usize = 32 << 20;
/// The same limit for one connection: four of the largest transfers. So a peer that receives no replies leaves memory for others.
pub const SLOW_BYTES_PER_CONNECTION_MAX: usize = 4 << 20;
/// Consecutive turns with a single call after which the connection's own thread executes reads of uncached data. The client
/// waits for each reply anyway, and this saves two wake-ups.
pub const LONE_TURNS: u32 = 16;

/// Bytes of replies that are delayed until their time: 8,000 block reads, more than any client has in progress. Above the limit,
/// connections wait with their next reply, and TCP holds their clients back.
pub const DELAYED_BYTES_MAX: usize = 64 << 20;
/// How much before its time a delayed reply may leave, because a thread of a virtual machine wakes that much late. Never more than
/// 1/[`DELAYED_LEAD_SHARE`] of the wait, so that a fast medium is not made faster.
pub const DELAYED_LEAD_MAX: Duration = Duration::from_micros(50);
/// 50 us are 1/160 of the 8 ms of a disk.
pub const DELAYED_LEAD_SHARE: u32 = 160;

/// Time after which the filer closes the connection of a peer that takes no bytes of its replies, or fewer than [`SEND_BYTES_MIN`]. Such a
/// peer would otherwise hold a thread and its replies forever.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a peer must take in each [`SEND_TIMEOUT`] while replies wait for it: one of the largest reads.
pub const SEND_BYTES_MIN: usize = TRANSFER_MAX as usize;
/// Time limit of a TLS handshake: two round trips, also to a far client. A peer that only begins a handshake does not keep a thread for
/// longer.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest file of certificates or keys, in bytes. The certificate bundle of a distribution is a quarter of it.
pub const PEM_BYTES_MAX: u64 = 1 << 20;
/// Receive buffer of an idle connection under TLS, in bytes: the longest record.
pub const TLS_BYTES_IDLE: usize = rpc_tls::limits::RECORD_BYTES_MAX;
/// Bytes of replies that are encrypted and sent at once when the sender may wait for the peer: four records, which stay in the cache of the
/// core.
pub const SEAL_BYTES: usize = 4 * rpc_tls::limits::PLAIN_BYTES_MAX;
/// Idle time after which the kernel starts to probe whether the peer is still there (TCP keepalive).
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// How long a clean stop waits for calls in progress.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a clean stop then waits for calls that still change a volume.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Replies kept for retransmitted calls, each about 300 bytes. A client resends within minutes, and only calls that change names or
/// attributes are kept.
pub const REPLIES_KEPT: usize = 4096;
/// Largest reply that is kept, in bytes. A CREATE reply with a handle and two sets of attributes is below 400.
pub const REPLY_KEPT_BYTES_MAX: usize = 1024;
/// Bytes of all kept replies: 4096 replies of 512 bytes.
pub const REPLY_BYTES_KEPT: usize = 2 << 20;
/// Age up to which a stored reply answers a resend that no channel identifies. A client that restarted meanwhile may have begun its xids
/// at the same constant.
pub const REPLY_AGE_MAX: Duration = Duration::from_secs(600);
/// How long an equal call on another connection waits for the TCP acknowledgement of a reply, counted from when the reply was made. Linux
/// delays acknowledgements by 200 ms at most. The rest is for the round trip to a far client.
pub const ACKNOWLEDGEMENT_WAIT: Duration = Duration::from_millis(320);
/// Minimum time for which the filer keeps the socket of a connection that the client closed, to see whether a stored reply is
/// acknowledged: several round trips and a retransmission or two.
pub const CLOSING_KEPT: Duration = Duration::from_secs(10);
/// Number of such sockets. Beyond it the oldest is closed.
pub const CLOSING_MAX: usize = 32;
/// Connections that get the reply of one call: the call's own, and the latest ones of resends.
pub const REPLY_COPIES_MAX: usize = 64;
/// Stored calls with the same xid and content. Clients that begin their xids at a constant send such calls.
pub const REPLIES_PER_CALL_MAX: usize = 64;

/// Channels and dead processes that the program CHANNEL remembers, about 100 bytes each. At the limit the filer forgets ended channels that
/// had one connection and everything older than [`FENCE_AGE_MAX`], then ended channels of the client that has the most. A database has one
/// or two channels for each backend.
pub const FENCES_MAX: usize = 16_384;
/// Age from which a fence may be forgotten. No network and no middlebox keeps the bytes of a dead connection for longer.
pub const FENCE_AGE_MAX: Duration = Duration::from_secs(3600);
/// How long a fence waits for calls in progress before its client must retry. It is shorter than the time after which clients retransmit.
pub const FENCE_WAIT: Duration = Duration::from_secs(5);

/// Mounts remembered for MOUNT DUMP. The list is advisory (RFC 1813 5.2.2), so the oldest mount is forgotten.
pub const MOUNTS_MAX: usize = 1024;
/// Uids that the log names as refused. Above the limit the filer refuses further uids without a log line.
pub const REFUSED_UIDS_LOGGED_MAX: usize = 64;
/// Largest depth of a MNT path, in directories. PATH_MAX has no room for more.
pub const MOUNT_DEPTH_MAX: usize = 2048;

/// Largest READ and WRITE, in bytes.
pub const TRANSFER_MAX: u32 = TRANSFER_BYTES_MAX;
/// Size of WRITE that costs least for each byte: the received data is still in the processor's cache when it is copied to the host's pages
/// (measured: a GiB in pieces of 1 MiB takes two to three times as long).
pub const WRITE_BYTES_PREFERRED: u32 = 128 << 10;
/// Most bytes of one READDIR or READDIRPLUS reply, whatever the client asks for.
pub const LISTING_BYTES_MAX: u32 = 256 * 1024;
/// Size of a directory up to which the connection's own thread lists it: one block, about 100 names, 0.5 ms of READDIRPLUS. A listing of
/// a larger one takes up to 7 ms, and longer if the host reads the disk.
pub const BRIEF_LISTING_BYTES: u64 = 4096;
/// READDIR size that the filer asks clients to use, in bytes.
pub const LISTING_BYTES_PREFERRED: u32 = 64 * 1024;
/// Largest file size, in bytes: the maximum of a signed 64-bit file offset.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Copies of the counters of an export or client, 20 KiB or 1 KiB each once used. Threads are spread over them, so that this number of
/// cores can count without waiting for each other's cache lines.
pub const COUNTER_SETS: usize = 8;
/// Clients that are counted by address, at most 8 KiB each and 3 KiB of a page. A database has a few hosts. Further clients are counted
/// together.
pub const CLIENTS_COUNTED_MAX: usize = 128;

/// Requests for metrics that are answered at the same time. A page of 256 busy exports has a few MiB, and a collector asks every few
/// seconds.
pub const METRICS_CLIENTS_MAX: usize = 4;
/// Longest request for metrics, header included, in bytes. Prometheus sends about 400.
pub const METRICS_REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Time limit of a connection for metrics. A collector gives up after 10 s.
pub const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

/// LUNs of a volume: all that peripheral device addressing can address, which every initiator knows (SAM-5 4.7.7.2).
pub const LUNS_PER_VOLUME_MAX: usize = 256;
/// Highest number of a LUN.
pub const LUN_NUMBER_MAX: u16 = 255;
/// Longest name of a LUN, in bytes: the same as for a volume.
pub const LUN_NAME_BYTES_MAX: usize = 64;
/// Largest physical block of a LUN, in bytes: more than any disk or array writes at once.
pub const LUN_PHYSICAL_BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Initiators and groups that a LUN may be mapped to. A cluster is one group.
pub const LUN_INITIATORS_MAX: usize = 64;
/// Largest record of a LUN, in bytes: 64 of the longest iSCSI names, and the same again.
pub const LUN_RECORD_BYTES_MAX: usize = 32 * 1024;
/// Largest file about a LUN in the state directory, in bytes: three times the space of 256 registrations of about 300 bytes each.
pub const LUN_KEPT_BYTES_MAX: u64 = 256 * 1024;
/// Initiators for which a LUN remembers that it reported a loss, at most 300 bytes each. A LUN reports the loss again to an initiator that
/// it has forgotten.
pub const LUN_NEXUSES_KEPT_MAX: usize = 256;
/// Initiators that are counted by name at a LUN. Further initiators are counted together.
pub const LUN_INITIATORS_COUNTED_MAX: usize = 64;

/// Concurrent iSCSI sessions. Each has one connection.
pub const ISCSI_SESSIONS_MAX: usize = CONNECTIONS_MAX;
/// iSCSI connections that have not logged in. One address may have half of them. A login takes a moment.
pub const ISCSI_HALF_OPEN_MAX: usize = 128;
/// Time limit of a complete login: a few round trips, also to a far initiator. An initiator that only begins a login keeps its place no
/// longer.
pub const ISCSI_LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Idle time after which the filer asks an initiator for a sign of life (NOP-In).
pub const ISCSI_PING_AFTER: Duration = Duration::from_secs(20);
/// Time limit of its answer. Together with [`ISCSI_PING_AFTER`] it is below the 60 s after which cluster software gives a node up.
pub const ISCSI_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which the deadlines of connections are checked. Twice this time may pass before an initiator gets a sign of life while the
/// store is slow. Millrace's own initiator gives a silent path up after 1.5 s.
pub const ISCSI_CLOCK: Duration = Duration::from_millis(500);
/// How long a login waits for the end of the session that it replaces, whose writes may be on a slow disk.
pub const ISCSI_REINSTATEMENT_WAIT: Duration = Duration::from_secs(20);
/// How long the filer waits for the end of other sessions that an initiator wants ended. Then the initiator asks again. A connection that
/// sends no reply for longer would be given up too.
pub const ISCSI_END_WAIT: Duration = Duration::from_millis(200);
/// How long initiators have to log out when the filer stops.
pub const ISCSI_LOGOUT_WAIT: Duration = Duration::from_secs(3);
/// iSCSI portals. Each is a portal group, and a logical unit lists all of them.
pub const ISCSI_PORTALS_MAX: usize = 16;
/// CHAP users, and also groups of initiators.
pub const ISCSI_NAMES_MAX: usize = 1024;

/// Concurrent clients of the admin socket.
pub const ADMIN_CLIENTS_MAX: usize = 16;
/// Longest request on the admin socket, in bytes.
pub const ADMIN_LINE_BYTES_MAX: u64 = 64 * 1024;

const _: () = assert!(
    RECEIVE_BYTES_IDLE < RECEIVE_BYTES_START
        && RECEIVE_BYTES_START < RECEIVE_BYTES_BUSY
        && RECEIVE_BYTES_BUSY < RECEIVE_BYTES_MAX
);
const _: () = assert!(BUFFER_BYTES_GROWN_MAX >= BUFFER_BYTES_MAX / 2 && OTHERS_RESERVED > STRANGERS_MAX + ISCSI_HALF_OPEN_MAX);
const _: () = assert!(RECEIVE_BYTES_MAX >= RECORD_BYTES_MAX + 4);
const _: () = assert!(SLOW_BYTES_PER_CONNECTION_MAX >= RECORD_BYTES_MAX + TRANSFER_BYTES_MAX as usize);
const _: () = assert!(SLOW_BYTES_MAX >= SLOW_BYTES_PER_CONNECTION_MAX && SLOW_REQUESTS_PER_CONNECTION_MAX >= WORKERS_KEPT);
const _: () = assert!(DELAYED_BYTES_MAX >= 16 * RECORD_BYTES_MAX);
const _: () = assert!(BUFFER_BYTES_UNWATCHED + RECEIVE_BYTES_MAX < BUFFER_BYTES_PER_CLIENT_MAX);
const _: () = assert!(BUFFER_BYTES_SHORT + RECEIVE_BYTES_MAX < BUFFER_BYTES_GROWN_MAX);
const _: () = assert!(FRAME_TIMEOUT_SHORT.as_millis() + BUFFER_IDLE.as_millis() < BUFFER_WAIT.as_millis());
const _: () = assert!(STRANGERS_MAX + OTHERS_RESERVED < CONNECTIONS_MAX);
const _: () = assert!(LISTING_BYTES_MAX <= TRANSFER_MAX);

/// Size of the largest portmap call in a datagram, in bytes: a header with the longest credentials (RFC 5531 8.2) and a mapping. A longer
/// datagram is truncated, and gets no answer.
pub(crate) const PORTMAP_DATAGRAM_BYTES_MAX: usize = 1024;
/// Seconds without a refusal for lack of space after which the episode ends.
pub(crate) const FULL_EPISODE_S: u64 = 60;
