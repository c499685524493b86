//! A connection of an iSCSI target in any state: whatever comes is answered or ends the connection; what is answered are PDUs whose
//! numbers are in order, and no task is lost.
//!
//! The first two bytes choose what is negotiated and whether the session is logged in, discovery, and of raw bytes; otherwise headers
//! come from the input and get the number that is due and lengths and digests that are right.
#![no_main]

#[path = "../../crates/iscsi-proto/tests/every/mod.rs"]
mod every;
#[allow(dead_code, reason = "each target uses its part")]
mod iscsi_stage;

use iscsi_proto::initiator::Initiator;
use iscsi_proto::pdu::{self, BHS_BYTES, Digests, Framed};
use iscsi_proto::target::Outcome;
use iscsi_stage::{Connection, client};
use libfuzzer_sys::fuzz_target;

const PDUS_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let [choice, state, rest @ ..] = input else { return };
    let mut connection = Connection::new(*choice, false);
    if state & 1 != 0 {
        connection.log_in(Initiator::new(client(choice.rotate_left(3), state & 2 != 0, false)));
    }
    let ended = if state & 4 != 0 { raw(&mut connection, rest) } else { made(&mut connection, rest) };
    if ended.is_none() && !connection.ended {
        finish(&mut connection, 0, 0xff);
        assert_eq!(connection.tasks.len(), 0);
    }
});

/// The bytes as they are, in two parts.
fn raw(connection: &mut Connection, bytes: &[u8]) -> Option<()> {
    let mut unread = bytes;
    for _ in 0..PDUS_MAX {
        let Ok(Framed::Whole { bytes }) = connection.receiver.frame(unread) else { return Some(()) };
        connection.receive(&unread[..bytes]).err().map_or(Some(()), |_| None)?;
        unread = &unread[bytes..];
    }
    None
}

/// PDUs whose headers the input has: one byte says what is put right, one how much data comes.
fn made(connection: &mut Connection, mut input: &[u8]) -> Option<()> {
    let mut due = 1_u32; // of CmdSN
    for _ in 0..PDUS_MAX {
        let [fix, size, rest @ ..] = input else { break };
        let (header, rest) = rest.split_first_chunk::<BHS_BYTES>()?;
        input = rest;
        if fix & 0x80 != 0 && !connection.tasks.is_empty() {
            finish(connection, *size, *fix);
        }
        let mut header = *header;
        header[4] = 0;
        header[0] = if fix & 0x40 != 0 {
            header[0]
        } else {
            [0, 1, 1, 1, 2, 4, 5, 5, 6, 0x10][usize::from(header[0]) % 10] | header[0] & 0x40
        };
        if fix & 1 == 0 {
            header[24..28].copy_from_slice(&due.to_be_bytes());
        }
        if fix & 2 == 0 {
            narrow(&mut header, fix & 4 != 0);
        }
        // Mostly a multiple of 256 bytes, as offsets are.
        let data = vec![*size; if fix & 8 == 0 { usize::from(*size & 3) * 256 } else { usize::from(*size) * 4 }];
        let bytes = with_digests(connection, header, &data);
        let before = header[0] & 0x40 == 0 && !matches!(header[0] & 0x3f, 5 | 0x10);
        if connection.receive(&bytes).is_err() || connection.ended {
            return Some(());
        }
        // The window shows whether the number was taken.
        let mut probe = Vec::new();
        connection.replies.window_update(&mut probe);
        connection.stamp(&mut probe);
        let expected = u32::from_be_bytes(probe[28..32].try_into().unwrap());
        assert!(expected == due || before && expected == due.wrapping_add(1) || due == 1, "ExpCmdSN {expected} behind {due}");
        due = expected;
    }
    None
}

/// Keeps tags, numbers and lengths to a few values, so that PDUs belong together.
fn narrow(header: &mut [u8; BHS_BYTES], untagged: bool) {
    let is_data = header[0] & 0x3f == 5;
    header[16..19].fill(0);
    header[19] &= 3;
    header[20..22].fill(if is_data && untagged { 0xff } else { 0 });
    (header[22], header[23]) = match (is_data, untagged) {
        (true, true) => (0xff, 0xff),
        (true, false) => (0, header[23] & 3),
        (false, _) => (header[22] & 15, 0),
    };
    if is_data {
        header[36..39].fill(0);
        header[39] &= 3;
        header[40..42].fill(0);
        (header[42], header[43]) = (header[42] & 7, 0);
    } else {
        (header[33], header[34]) = (header[33] & 15, header[34] & 8); // bytes that the host says the CDB takes
    }
}

fn with_digests(connection: &Connection, mut header: [u8; BHS_BYTES], data: &[u8]) -> Vec<u8> {
    let parameters = connection.receiver.session().map(|session| session.parameters);
    let digests = parameters.map_or_else(Digests::default, |all| Digests { header: all.header_digest, data: all.data_digest });
    header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    if digests.header {
        bytes.extend(pdu::crc32c(&header).to_le_bytes());
    }
    bytes.extend(data);
    if digests.data && !data.is_empty() {
        bytes.extend(pdu::crc32c(data).to_le_bytes());
    }
    bytes
}

/// Answers tasks, with as much data as the bytes say.
fn finish(connection: &mut Connection, size: u8, how: u8) {
    let mut out = Vec::new();
    let count = if how == 0xff { connection.tasks.len() } else { 1 };
    for _ in 0..count {
        let task = connection.tasks.remove(usize::from(how) % connection.tasks.len());
        if how & 0x20 != 0 && how != 0xff {
            continue; // Dropped without a reply.
        }
        let begun = connection.replies.begin(&mut out);
        let data = usize::from(size) * 7;
        out.resize(out.len() + data, size);
        let sense: &[u8] = if how & 8 != 0 { &[0x70; 18] } else { &[] };
        let outcome = Outcome { status: how & 10, sense, transfer_bytes: data as u64 };
        connection.replies.finish(&mut out, begun, task, &outcome);
    }
    connection.stamp(&mut out);
}
