//! Limits for what a peer may make this crate do, each with its reason.

use std::time::Duration;

/// Largest data segment that a connection may negotiate to receive, in bytes: a write of 1 MiB in one PDU, the most that Linux and
/// libiscsi send. RFC 7143 13.12 allows 16 MiB.
pub const DATA_SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Largest data segment before the full feature phase, in bytes, whatever was declared. RFC 7143 13.12: the default of 8192 applies
/// during the login.
pub const LOGIN_SEGMENT_BYTES_MAX: usize = 8192;
/// Largest size of all additional header segments of a PDU, in bytes: an extended CDB of 260 bytes with its head, and another segment of
/// 8 bytes. The field allows 1020 (RFC 7143 11.2.1.5).
pub const AHS_BYTES_MAX: usize = 276;
/// Longest CDB, in bytes (SPC-4 4.2.3: the longest variable length CDB has 260).
pub const CDB_BYTES_MAX: usize = 260;
/// Largest text of one login or text request over all its PDUs, in bytes. RFC 7143 6.1 requires at least 8192.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Keys of one negotiation: three times the number of keys in RFC 7143 13.
pub const KEYS_MAX: usize = 96;
/// Longest key name, in bytes (RFC 7143 6.1).
pub const KEY_BYTES_MAX: usize = 63;
/// Longest value of a key, in bytes. The longest value in RFC 7143 is shorter: a binary item of 1024 bytes in hexadecimal.
pub const VALUE_BYTES_MAX: usize = 2304;
/// Longest iSCSI name, in bytes (RFC 7143 4.2.7.1).
pub const NAME_BYTES_MAX: usize = 223;
/// Login PDUs of one connection before it is closed. Security with CHAP takes 4 and operational negotiation 2, and a text may be split
/// over any number of PDUs.
pub const LOGIN_PDUS_MAX: usize = 32;
/// Longest response to SendTargets, in bytes: 4096 targets with names of 128 bytes and four addresses each.
pub const TARGETS_TEXT_BYTES_MAX: usize = 1 << 20;

/// Longest CHAP name, in bytes.
pub const CHAP_NAME_BYTES_MAX: usize = 255;
/// Shortest CHAP secret, in bytes (RFC 7143 9.2.1: 96 bits without IPsec).
pub const CHAP_SECRET_BYTES_MIN: usize = 12;
/// Longest CHAP secret, in bytes: longer than any initiator accepts.
pub const CHAP_SECRET_BYTES_MAX: usize = 255;
/// Longest CHAP challenge, in bytes (RFC 7143 12.1.3: binary items of CHAP have at most 1024).
pub const CHAP_CHALLENGE_BYTES_MAX: usize = 1024;

/// Commands of a session in progress: more than any initiator's queue (Linux sends 128 by default). Each may bring unsolicited data.
pub const COMMAND_WINDOW_MAX: usize = 256;
/// Immediate commands and requests beyond the window in progress. An initiator sends a few task management functions.
pub const IMMEDIATE_TASKS_MAX: usize = 16;
/// Data of one command, in bytes. The logical unit reports a smaller limit (SBC-3 6.6.4, maximum transfer length).
pub const COMMAND_DATA_BYTES_MAX: usize = 8 << 20;
/// Bytes of data that a connection has requested by R2T and has not passed on yet. A command that needs more than the free part of this
/// limit waits for its R2T.
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
/// Bytes of a ping that the target returns (RFC 7143 11.18: up to the peer's data segment). No initiator sends more.
pub const PING_BYTES_MAX: usize = 64 * 1024;
/// Task management responses that wait for the end of tasks that they abort.
pub const HELD_ANSWERS_MAX: usize = IMMEDIATE_TASKS_MAX;

const _: () = assert!(SOLICITED_BYTES_MAX >= COMMAND_DATA_BYTES_MAX);
const _: () = assert!(AHS_BYTES_MAX.is_multiple_of(4) && AHS_BYTES_MAX <= 1020 && AHS_BYTES_MAX >= CDB_BYTES_MAX - 16 + 4);
const _: () = assert!(VALUE_BYTES_MAX > 2 * CHAP_CHALLENGE_BYTES_MAX + 2 && VALUE_BYTES_MAX < TEXT_BYTES_MAX);
const _: () = assert!(LOGIN_SEGMENT_BYTES_MAX <= TEXT_BYTES_MAX && LOGIN_SEGMENT_BYTES_MAX <= DATA_SEGMENT_BYTES_MAX);

// SCSI

/// Most data of one medium access command, in bytes: the MAXIMUM TRANSFER LENGTH of the Block Limits VPD page. It limits the buffers of
/// a command. Linux requests at most 1280 KiB by default, ESXi and Windows at most 4 MiB.
pub const SCSI_TRANSFER_BYTES_MAX: u64 = 8 << 20;
/// Largest parameter list of a command that does not access the medium, in bytes. That of UNMAP with the most descriptors has 4,104.
/// Those of mode pages and persistent reservations are smaller.
pub const SCSI_PARAMETER_BYTES_MAX: usize = 8 << 10;
/// Most blocks of one UNMAP in all its descriptors together (MAXIMUM UNMAP LBA COUNT): 512 MiB to 4 GiB. The time for making holes grows
/// with their number. An initiator splits larger requests.
pub const SCSI_UNMAP_BLOCKS_MAX: u64 = 1 << 20;
/// Most bytes of one WRITE SAME (MAXIMUM WRITE SAME LENGTH). If this limit is 65,536 blocks or more, the tests of libiscsi first write
/// as much by one WRITE, whatever the transfer length. 16 MiB is below that with blocks of 512 bytes, and one command takes 0.2 s at 100
/// MB/s.
pub const SCSI_WRITE_SAME_BYTES_MAX: u64 = 16 << 20;
/// Most descriptors of one GET LBA STATUS. Each is one question to the store.
pub const SCSI_LBA_STATUS_DESCRIPTORS_MAX: usize = 256;
/// Most block descriptors of one UNMAP (MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT). Linux sends one, ESXi at most 100.
pub const SCSI_UNMAP_DESCRIPTORS_MAX: usize = 256;
/// Most bytes of one COMPARE AND WRITE. Its number of blocks is a field of one byte, and ESXi uses one block.
pub const SCSI_COMPARE_BYTES_MAX: u64 = 1 << 20;
/// Most copy targets of one EXTENDED COPY: the unit itself, as source and as destination.
pub const SCSI_COPY_TARGETS_MAX: usize = 2;
/// Most segments of one EXTENDED COPY. ESXi sends one.
pub const SCSI_COPY_SEGMENTS_MAX: usize = 16;
/// Most bytes of one segment. ESXi requests 4 to 16 MiB. All segments together take a few of the thirty seconds after which an initiator
/// gives up.
pub const SCSI_COPY_SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// Most results kept for RECEIVE COPY RESULTS.
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
/// Bytes that commands with memory of their own compare, fill or verify at a time.
pub const SCSI_CHUNK_BYTES: usize = 256 << 10;

const _: () = assert!(8 + SCSI_UNMAP_DESCRIPTORS_MAX * 16 <= SCSI_PARAMETER_BYTES_MAX);
const _: () = assert!(SCSI_COMPARE_BYTES_MAX * 2 <= SCSI_TRANSFER_BYTES_MAX);
