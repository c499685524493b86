//! The text of logins, from both sides: whatever is said is answered, refused or ends the connection, and only who knows the secret
//! is let in.
#![no_main]

#[path = "../../crates/iscsi-proto/tests/every/mod.rs"]
mod every;
#[allow(dead_code, reason = "each target uses its part")]
mod iscsi_stage;

use iscsi_proto::initiator::{Event, Initiator};
use iscsi_proto::pdu::{self, Bhs, Itt, LoginRequest, LoginResponse};
use iscsi_proto::serial::{CmdSn, StatSn};
use iscsi_proto::text;
use iscsi_stage::{Connection, client};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [choice, side, rest @ ..] = input else { return };
    if let Ok(pairs) = text::parse(rest) {
        let mut again = Vec::new();
        pairs.iter().for_each(|pair| text::append(&mut again, pair.key, pair.value));
        assert_eq!(text::parse(&again).as_ref(), Ok(&pairs));
        pairs
            .iter()
            .for_each(|pair| drop(text::binary(pair.value, 1024).map(|bytes| text::binary(&text::to_hexadecimal(&bytes), 1024))));
    }
    match side & 3 {
        0 | 1 => to_target(*choice, side & 1 != 0, rest),
        _ => to_initiator(*choice, side & 1 != 0, rest),
    }
});

/// Requests: each begins with a byte of stages and flags, then the length of its text.
fn requests(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [flags, length, rest @ ..] = input else { return None };
        let (text, rest) = rest.split_at(rest.len().min(usize::from(*length) * 4));
        input = rest;
        Some((*flags, text))
    })
}

fn whole(mut bhs: Bhs, text: &[u8]) -> Vec<u8> {
    bhs.0[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    let mut bytes = [&bhs.0[..], text].concat();
    bytes.resize(pdu::padded(bytes.len()), 0);
    bytes
}

fn to_target(choice: u8, chap: bool, input: &[u8]) {
    let mut connection = Connection::new(choice, chap);
    for (flags, text) in requests(input) {
        let request = LoginRequest {
            transit: flags & 0x80 != 0,
            is_continued: flags & 0x40 != 0,
            csg: flags >> 2 & 3,
            nsg: flags & 3,
            version_max: 0,
            version_min: 0,
            isid: Default::default(),
            tsih: 0,
            itt: Itt(1),
            cid: 0,
            cmd_sn: CmdSn(5),
            exp_stat_sn: StatSn(0),
        };
        if connection.receive(&whole(request.to_bhs(), text)).is_err() || connection.ended {
            return;
        }
        if let Some(session) = connection.receiver.session() {
            // The input cannot have computed a hash over the challenge.
            assert!(!chap, "let in as {:?}", session.user);
            return;
        }
    }
}

fn to_initiator(choice: u8, chap: bool, input: &[u8]) {
    let mut initiator = Initiator::new(client(choice, false, chap));
    let mut out = Vec::new();
    initiator.start(&mut out);
    for (number, (flags, text)) in requests(input).enumerate() {
        let response = LoginResponse {
            transit: flags & 0x80 != 0,
            is_continued: flags & 0x40 != 0,
            csg: flags >> 2 & 3,
            nsg: flags & 3,
            version_max: 0,
            version_active: 0,
            isid: Default::default(),
            tsih: 1,
            itt: Itt(0),
            stat_sn: StatSn(number as u32),
            exp_cmd_sn: CmdSn(1),
            max_cmd_sn: CmdSn(9),
            status: if flags & 0x30 == 0x30 { 0x0101 } else { 0 },
        };
        let bytes = whole(response.to_bhs(), text);
        match initiator.receive(&bytes, &mut out) {
            Ok(Event::Nothing) => {}
            Ok(Event::LoggedIn(parameters)) => {
                assert!(!chap, "the target did not prove who it is");
                assert!(parameters.first_burst_bytes <= parameters.max_burst_bytes);
                return;
            }
            _ => return,
        }
    }
}
