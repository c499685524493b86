//! Bounds on what a peer may make this crate do, each with its reason.

use std::time::Duration;

/// Largest data segment that a connection may be set up to receive, in bytes: a write of 1 MiB in one PDU, the most that Linux and
/// libiscsi send. RFC 7143 13.12 allows 16 MiB.
pub const DATA_SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Largest data segment before the full feature phase, in bytes, whatever was declared (RFC 7143 13.12: 8192 is the default, which
/// rules the login).
pub const LOGIN_SEGMENT_BYTES_MAX: usize = 8192;
/// Largest additional header segments, in bytes: an extended CDB of 260 bytes with its head, and one more of 8 bytes. The field allows
/// 1020 (RFC 7143 11.2.1.5).
pub const AHS_BYTES_MAX: usize = 276;
/// Longest CDB, in bytes (SPC-4 4.2.3: variable length CDBs end at 260).
pub const CDB_BYTES_MAX: usize = 260;
/// Text that one login or text request may bring over all its PDUs, in bytes; RFC 7143 6.1 asks for 8192 at least.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Keys of one negotiation: three times as many as RFC 7143 13 has.
pub const KEYS_MAX: usize = 96;
/// Longest key name, in bytes (RFC 7143 6.1).
pub const KEY_BYTES_MAX: usize = 63;
/// Longest value, in bytes: the longest that RFC 7143 has, a binary item of 1024 bytes in hexadecimal, is below.
pub const VALUE_BYTES_MAX: usize = 2304;
/// Longest iSCSI name, in bytes (RFC 7143 4.2.7.1).
pub const NAME_BYTES_MAX: usize = 223;
/// Login PDUs of one connection before it is closed: security with CHAP takes 4, operational 2, and keys may be cut at will.
pub const LOGIN_PDUS_MAX: usize = 32;
/// Longest answer to SendTargets, in bytes: 4096 targets with names of 128 bytes and four addresses each.
pub const TARGETS_TEXT_BYTES_MAX: usize = 1 << 20;

/// Longest CHAP name, in bytes.
pub const CHAP_NAME_BYTES_MAX: usize = 255;
/// Shortest CHAP secret, in bytes (RFC 7143 9.2.1: 96 bits where there is no IPsec).
pub const CHAP_SECRET_BYTES_MIN: usize = 12;
/// Longest CHAP secret, in bytes: longer than any initiator takes.
pub const CHAP_SECRET_BYTES_MAX: usize = 255;
/// Longest CHAP challenge, in bytes (RFC 7143 12.1.3: binary items of CHAP end at 1024).
pub const CHAP_CHALLENGE_BYTES_MAX: usize = 1024;

/// Commands that a session may have under way: more than any initiator's queue (Linux sends 128 by default), and each may bring
/// unsolicited data.
pub const COMMAND_WINDOW_MAX: usize = 256;
/// Immediate commands and requests beyond the window that may be under way: an initiator sends a few task management functions.
pub const IMMEDIATE_TASKS_MAX: usize = 16;
/// Data that one command may bring, in bytes. The logical unit announces less (SBC-3 6.6.4, maximum transfer length).
pub const COMMAND_DATA_BYTES_MAX: usize = 8 << 20;
/// Bytes of data that a connection has requested by R2T and not passed on yet. A command that needs more than what is left waits for
/// its R2T.
pub const SOLICITED_BYTES_MAX: usize = 16 << 20;
/// How long a command waits for its next data. Initiators give a command up after 30 s.
pub const DATA_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it waits while memory is short. No network needs so long between two PDUs of one command.
pub const DATA_TIMEOUT_SHORT: Duration = Duration::from_secs(2);
/// How long a command may wait in total, for each MiB of its data.
pub const DATA_TIMEOUT_PER_MIB: Duration = Duration::from_secs(60);
/// R2Ts of one command that may be unanswered, whatever was negotiated.
pub const OUTSTANDING_R2T_MAX: usize = 16;
/// Tags of aborted commands that are remembered, so that their late data is ignored.
pub const ABORTED_TAGS_KEPT: usize = COMMAND_WINDOW_MAX;
/// Bytes of a ping that are sent back (RFC 7143 11.18: up to the peer's data segment); no initiator sends more.
pub const PING_BYTES_MAX: usize = 64 * 1024;
/// Task management answers that wait for the tasks which they end.
pub const HELD_ANSWERS_MAX: usize = IMMEDIATE_TASKS_MAX;

const _: () = assert!(SOLICITED_BYTES_MAX >= COMMAND_DATA_BYTES_MAX);
const _: () = assert!(AHS_BYTES_MAX.is_multiple_of(4) && AHS_BYTES_MAX <= 1020 && AHS_BYTES_MAX >= CDB_BYTES_MAX - 16 + 4);
const _: () = assert!(VALUE_BYTES_MAX > 2 * CHAP_CHALLENGE_BYTES_MAX + 2 && VALUE_BYTES_MAX < TEXT_BYTES_MAX);
const _: () = assert!(LOGIN_SEGMENT_BYTES_MAX <= TEXT_BYTES_MAX && LOGIN_SEGMENT_BYTES_MAX <= DATA_SEGMENT_BYTES_MAX);

// SCSI

/// Most data of one medium access command, in bytes: the MAXIMUM TRANSFER LENGTH of the Block Limits VPD page. It bounds the
/// buffers of a command; Linux asks for at most 1280 KiB unless told otherwise, ESXi and Windows for at most 4 MiB.
pub const SCSI_TRANSFER_BYTES_MAX: u64 = 8 << 20;
/// Largest parameter list of a command that is not a medium access, in bytes: UNMAP's with its most descriptors is 4,104, and the
/// mode pages and persistent reservations are smaller.
pub const SCSI_PARAMETER_BYTES_MAX: usize = 8 << 10;
/// Most blocks of one UNMAP, all its descriptors together (MAXIMUM UNMAP LBA COUNT): 512 MiB to 4 GiB. Making holes takes time by their
/// number, and an initiator splits what is larger.
pub const SCSI_UNMAP_BLOCKS_MAX: u64 = 1 << 20;
/// Most bytes of one WRITE SAME (MAXIMUM WRITE SAME LENGTH). libiscsi's tests write as much by one WRITE first when that is 65,536
/// blocks or more, whatever the transfer length: 16 MiB is below that with blocks of 512 bytes, and one command of 0.2 s at 100 MB/s.
pub const SCSI_WRITE_SAME_BYTES_MAX: u64 = 16 << 20;
/// Most descriptors of one GET LBA STATUS: each asks the store once.
pub const SCSI_LBA_STATUS_DESCRIPTORS_MAX: usize = 256;
/// Most block descriptors of one UNMAP (MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT). Linux sends one, ESXi at most 100.
pub const SCSI_UNMAP_DESCRIPTORS_MAX: usize = 256;
/// Most bytes COMPARE AND WRITE covers: its length is one byte of blocks, and ESXi uses one block.
pub const SCSI_COMPARE_BYTES_MAX: u64 = 1 << 20;
/// Most copy targets of one EXTENDED COPY: the unit itself, as source and as destination.
pub const SCSI_COPY_TARGETS_MAX: usize = 2;
/// Most segments of one EXTENDED COPY. ESXi sends one.
pub const SCSI_COPY_SEGMENTS_MAX: usize = 16;
/// Most bytes of one segment; ESXi asks for 4 to 16 MiB. All segments together take some seconds of an initiator's thirty.
pub const SCSI_COPY_SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// Most copy results kept for RECEIVE COPY RESULTS.
pub const SCSI_COPY_LISTS_MAX: usize = 64;
/// Most registrations of persistent reservations of one unit: 64 hosts with 4 paths each.
pub const SCSI_REGISTRATIONS_MAX: usize = 256;
/// Most I_T nexuses for which a unit keeps unit attentions. Beyond it the unit forgets the nexus that was used longest ago. A target has
/// fewer sessions, so no nexus of an open session is forgotten.
pub const SCSI_NEXUSES_MAX: usize = 16_384;
/// Most unit attentions that wait for one nexus. There are not more kinds, and each kind waits once.
pub const SCSI_ATTENTIONS_MAX: usize = 16;
/// Longest iSCSI name, in bytes (RFC 7143 4.2.7.1).
pub const SCSI_NAME_BYTES_MAX: usize = 223;
/// Bytes compared, filled or verified at a time by commands that need memory of their own.
pub const SCSI_CHUNK_BYTES: usize = 256 << 10;

const _: () = assert!(8 + SCSI_UNMAP_DESCRIPTORS_MAX * 16 <= SCSI_PARAMETER_BYTES_MAX);
const _: () = assert!(SCSI_COMPARE_BYTES_MAX * 2 <= SCSI_TRANSFER_BYTES_MAX);
