//! Memory for the data of commands that wait for more of it: the host grants it as data arrives, and gets it back in time.

use crate::pair::*;
use crate::wire::*;
use iscsi_proto::limits::{DATA_TIMEOUT, DATA_TIMEOUT_PER_MIB, DATA_TIMEOUT_SHORT};
use iscsi_proto::login::{Offer, SessionType};
use iscsi_proto::pdu::*;
use std::time::Duration;

const TASK_SET_FULL: u8 = 0x28;
const SECOND: Duration = Duration::from_secs(1);

/// A session with a host that has `bytes` of memory.
fn with_memory(bytes: usize) -> Wire {
    let host = TestHost { memory: bytes.into(), ..TestHost::default() };
    Wire::of(SessionType::Normal, Offer::default(), server(Offer::default(), 8), host)
}

fn status(reply: &Reply) -> u8 {
    assert_eq!(reply.opcode(), Opcode::ScsiResponse);
    ScsiResponse::from_bhs(&reply.bhs).status
}

fn expire(wire: &mut Wire, now: Duration, short: bool) -> Vec<Reply> {
    let mut out = Vec::new();
    wire.target.receiver.expire(now, short, &wire.target.host, &mut out);
    wire.target.sender.stamp(&mut out);
    replies_of(&out)
}

#[test]
fn memory_for_unsolicited_data_is_granted_when_it_arrives_and_not_when_it_is_announced() {
    let mut wire = with_memory(1 << 20);
    let command = wire.write(1, 512, false);
    wire.send(command.to_bhs(), &[1; 512]).unwrap();
    assert_eq!(wire.target.receiver.held_bytes(), 512, "of 256 KiB announced");
    wire.send(data_out(1, Ttt::NONE, 0, 512, false), &[2; 8192]).unwrap();
    assert!((8704..2 * 8704).contains(&wire.target.receiver.held_bytes()));
}

#[test]
fn a_write_without_memory_ends_with_task_set_full_and_the_session_continues() {
    let mut wire = with_memory(10_000);
    let command = wire.write(1, 64, false);
    wire.send(command.to_bhs(), &[1; 512]).unwrap();
    let replies = wire.send(data_out(1, Ttt::NONE, 0, 512, false), &[2; 16_384]).unwrap();
    assert_eq!(status(&replies[0]), TASK_SET_FULL);
    assert_eq!(wire.target.receiver.held_bytes(), 0);
    assert!(wire.send(data_out(1, Ttt::NONE, 1, 16_896, true), &[3; 15_872]).unwrap().is_empty(), "the rest is ignored");
    let command = wire.write(2, 1, true);
    wire.send(command.to_bhs(), &[4; 512]).unwrap();
    assert_eq!(wire.target.jobs.len(), 1);
}

#[test]
fn a_write_waits_for_its_r2t_until_there_is_memory() {
    let mut wire = with_memory(4096);
    let command = wire.write(1, 16, true);
    assert!(wire.send(command.to_bhs(), &[]).unwrap().is_empty(), "no R2T for the 8 KiB");
    wire.target.host.memory.set(8192);
    let replies = expire(&mut wire, SECOND * 100, true);
    assert_eq!(replies[0].opcode(), Opcode::R2t, "the initiator was not late: it had no R2T");
    let r2t = R2t::from_bhs(&replies[0].bhs);
    wire.send(data_out(1, r2t.ttt, 0, 0, true), &[7; 8192]).unwrap();
    assert_eq!(wire.target.jobs[0].data, [7; 8192]);
    assert_eq!(wire.target.receiver.held_bytes(), 0);
}

#[test]
fn a_write_whose_data_does_not_arrive_ends_in_time() {
    for (short, limit) in [(false, DATA_TIMEOUT), (true, DATA_TIMEOUT_SHORT)] {
        for is_final in [false, true] {
            let mut wire = with_memory(1 << 20);
            let command = wire.write(1, 16, is_final);
            wire.send(command.to_bhs(), &[1; 512]).unwrap();
            assert!(expire(&mut wire, SECOND, short).is_empty());
            assert!(expire(&mut wire, SECOND + limit - Duration::from_millis(1), short).is_empty());
            let replies = expire(&mut wire, SECOND + limit, short);
            assert_eq!(status(&replies[0]), 2);
            assert_eq!((&replies[0].data[4], &replies[0].data[14..16]), (&0x0b, &[0x4b, 0x06][..]), "INITIATOR RESPONSE TIMEOUT");
            assert_eq!(wire.target.receiver.held_bytes(), 0);
            assert!(!wire.target.receiver.is_collecting());
        }
    }
}

#[test]
fn a_write_whose_data_arrives_too_slowly_ends_too() {
    let mut wire = with_memory(1 << 20);
    let command = wire.write(1, 512, false);
    wire.send(command.to_bhs(), &[]).unwrap();
    let mut ended = None;
    for second in 0_u32..100 {
        if !expire(&mut wire, SECOND * second, false).is_empty() {
            ended = Some(SECOND * second);
            break;
        }
        wire.send(data_out(1, Ttt::NONE, second, 4 * second as usize, false), &[1; 4]).unwrap();
    }
    assert_eq!(ended, Some(DATA_TIMEOUT_PER_MIB));
}
