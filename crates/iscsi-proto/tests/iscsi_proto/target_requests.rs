//! What a target takes: the command window, unsolicited data, R2Ts, and what breaks the rules.

use crate::pair::*;
use crate::wire::*;
use iscsi_proto::limits::{COMMAND_DATA_BYTES_MAX, IMMEDIATE_TASKS_MAX, SOLICITED_BYTES_MAX};
use iscsi_proto::login::{Offer, SessionType};
use iscsi_proto::pdu::*;
use iscsi_proto::serial::{CmdSn, StatSn};
use iscsi_proto::target::{Event, Fault};
use std::borrow::Cow;

fn ping(cmd_sn: CmdSn, immediate: bool, itt: Itt) -> Bhs {
    NopOut { immediate, lun: Lun::default(), itt, ttt: Ttt::NONE, cmd_sn, exp_stat_sn: StatSn(0) }.to_bhs()
}

fn number_of<T: std::fmt::Debug>(result: Result<T, Fault>) -> &'static str {
    match result.unwrap_err() {
        Fault::Number { what, .. } | Fault::Limit { what, .. } => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_outside_the_window_are_passed_over() {
    let mut wire = Wire::default();
    for cmd_sn in [0, u32::MAX, 9, 1000] {
        assert!(wire.send(ping(CmdSn(cmd_sn), false, Itt(1)), b"x").unwrap().is_empty(), "CmdSN {cmd_sn}");
    }
    assert_eq!(wire.send(ping(CmdSn(1), false, Itt(1)), b"x").unwrap().len(), 1);
}

#[test]
fn a_gap_in_the_window_ends_the_session() {
    assert_eq!(number_of(Wire::default().send(ping(CmdSn(3), false, Itt(1)), b"x")), "CmdSN");
}

#[test]
fn immediate_requests_do_not_advance_the_window() {
    let mut wire = Wire::default();
    for itt in 1..4 {
        let replies = wire.send(ping(CmdSn(1), true, Itt(itt)), b"data").unwrap();
        let pong = NopIn::from_bhs(&replies[0].bhs);
        assert_eq!((pong.exp_cmd_sn, pong.itt, &replies[0].data[..]), (CmdSn(1), Itt(itt), &b"data"[..]));
    }
}

#[test]
fn an_answer_to_our_ping_is_not_answered() {
    assert!(Wire::default().send(ping(CmdSn(1), true, Itt::NONE), b"").unwrap().is_empty());
}

#[test]
fn the_window_closes_with_commands_under_way_and_opens_with_their_replies() {
    let mut wire = Wire::connected(Offer::default(), server(Offer::default(), 2));
    for itt in 1..=2 {
        let bhs = wire.read(itt, 1);
        wire.send(bhs, &[]).unwrap();
    }
    let pong = wire.send(ping(CmdSn(3), true, Itt(9)), b"").unwrap();
    assert_eq!(NopIn::from_bhs(&pong[0].bhs).max_cmd_sn, CmdSn(2));
    let early = wire.read(3, 1);
    assert!(wire.send(early, &[]).unwrap().is_empty());
    assert_eq!(wire.target.jobs.len(), 2);
    assert_eq!(DataIn::from_bhs(&wire.finish(0)[0].bhs).max_cmd_sn, CmdSn(3));
    wire.send(early, &[]).unwrap();
    assert_eq!(wire.target.jobs.len(), 2);
}

#[test]
fn immediate_commands_are_limited_beside_the_window() {
    let mut wire = Wire::default();
    let send = |wire: &mut Wire, itt| {
        let mut command = wire.write(itt, 1, true);
        wire.cmd_sn = CmdSn(1);
        (command.write, command.read, command.immediate, command.cmd_sn) = (false, true, true, CmdSn(1));
        wire.send(command.to_bhs(), &[]).unwrap()
    };
    for itt in 0..IMMEDIATE_TASKS_MAX {
        assert!(send(&mut wire, itt as u32).is_empty());
    }
    let rejected = send(&mut wire, 99);
    assert_eq!(Reject::from_bhs(&rejected[0].bhs).reason, RejectReason::TooManyImmediate);
    let bhs = wire.read(100, 1);
    wire.send(bhs, &[]).unwrap();
    assert_eq!(wire.target.jobs.len(), IMMEDIATE_TASKS_MAX + 1);
}

#[test]
fn data_that_came_whole_with_its_command_is_borrowed() {
    let mut wire = Wire::default();
    let bytes = bytes_of(wire.write(1, 1, true).to_bhs(), &[5; 512]);
    let mut out = Vec::new();
    let Event::Command(command) = wire.target.receiver.receive(&bytes, &wire.target.host, &mut out).unwrap() else { panic!() };
    let Cow::Borrowed(data) = command.data else { panic!("copied") };
    assert_eq!(data.as_ptr(), bytes[48..].as_ptr());
}

#[test]
fn unsolicited_data_comes_in_order_up_to_its_limit() {
    let offer = Offer { first_burst_bytes: 1024, ..Offer::default() };
    let open = |wire: &mut Wire| {
        let command = wire.write(1, 4, false);
        assert!(wire.send(command.to_bhs(), &[1; 512]).unwrap().is_empty());
    };
    let connected = || Wire::connected(Offer::default(), server(offer, 8));
    for (data_sn, offset, bytes, wrong) in [(0, 0, 512, "buffer offset"), (0, 512, 516, "unsolicited data")] {
        let mut wire = connected();
        open(&mut wire);
        assert_eq!(number_of(wire.send(data_out(1, Ttt::NONE, data_sn, offset, true), &vec![2; bytes])), wrong);
    }
    let mut wire = connected();
    open(&mut wire);
    assert!(wire.send(data_out(1, Ttt::NONE, 0, 512, false), &[2; 256]).unwrap().is_empty());
    let r2ts = wire.send(data_out(1, Ttt::NONE, 1, 768, true), &[3; 256]).unwrap();
    let r2t = R2t::from_bhs(&r2ts[0].bhs);
    assert_eq!((r2ts.len(), r2t.buffer_offset, r2t.desired_bytes, r2t.r2t_sn.0), (1, 1024, 1024, 0));
    wire.send(data_out(1, r2t.ttt, 0, 1024, true), &[4; 1024]).unwrap();
    assert_eq!(wire.target.jobs[0].data, [&[1; 512][..], &[2; 256], &[3; 256], &[4; 1024]].concat());
}

#[test]
fn unsolicited_data_that_was_not_agreed_on_ends_the_session() {
    let protocol = |result: Result<Vec<Reply>, Fault>| matches!(result, Err(Fault::Protocol(_)));
    let mut wire = Wire::connected(Offer { initial_r2t: true, ..Offer::default() }, server(Offer::default(), 8));
    let command = wire.write(1, 4, false);
    assert!(protocol(wire.send(command.to_bhs(), &[1; 512])));
    let mut wire = Wire::connected(Offer { immediate_data: false, ..Offer::default() }, server(Offer::default(), 8));
    let command = wire.write(1, 1, true);
    assert!(protocol(wire.send(command.to_bhs(), &[1; 512])));
    let mut wire = Wire::default();
    let bhs = wire.read(1, 1);
    assert!(protocol(wire.send(bhs, &[1; 512])));
    assert!(protocol(wire.send(data_out(7, Ttt::NONE, 0, 0, true), &[1; 512])));
}

/// A write of 8 blocks without data, and its R2Ts for 1024 bytes each.
fn solicited(outstanding: u32) -> (Wire, Vec<R2t>) {
    let offer = Offer { max_burst_bytes: 1024, outstanding_r2t_max: outstanding, ..Offer::default() };
    let mut wire = Wire::connected(Offer { outstanding_r2t_max: 16, ..Offer::default() }, server(offer, 8));
    let command = wire.write(1, 8, true);
    let r2ts = wire.send(command.to_bhs(), &[]).unwrap();
    let headers = r2ts.iter().map(|reply| R2t::from_bhs(&reply.bhs)).collect();
    (wire, headers)
}

#[test]
fn as_many_r2ts_as_were_agreed_on_are_outstanding_and_answered_in_order() {
    let (mut wire, r2ts) = solicited(3);
    assert_eq!(r2ts.iter().map(|r2t| (r2t.r2t_sn.0, r2t.buffer_offset)).collect::<Vec<_>>(), [(0, 0), (1, 1024), (2, 2048)]);
    let next = wire.send(data_out(1, r2ts[0].ttt, 0, 0, true), &[1; 1024]).unwrap();
    let next = R2t::from_bhs(&next[0].bhs);
    assert_eq!((next.r2t_sn.0, next.buffer_offset), (3, 3072));
    for (r2t, offset) in [(r2ts[1], 1024), (r2ts[2], 2048), (next, 3072)] {
        assert!(wire.send(data_out(1, r2t.ttt, 0, offset, true), &[1; 1024]).unwrap().is_empty());
    }
    assert_eq!(wire.target.jobs[0].data.len(), 4096);
    let response = wire.finish(0);
    assert_eq!(ScsiResponse::from_bhs(&response[0].bhs).exp_data_sn.0, 4);
}

#[test]
fn an_r2t_shows_the_number_of_the_next_response_and_takes_none() {
    let (mut wire, r2ts) = solicited(1);
    let pong = wire.send(ping(CmdSn(2), true, Itt(9)), b"").unwrap();
    assert_eq!(r2ts[0].stat_sn, NopIn::from_bhs(&pong[0].bhs).stat_sn);
}

#[test]
fn data_out_of_order_ends_its_command_and_nothing_else_once_all_of_it_has_come() {
    let ended = |replies: Vec<crate::wire::Reply>| {
        let response = ScsiResponse::from_bhs(&replies[0].bhs);
        (response.itt.0, response.status, replies[0].data[4] & 15, replies[0].data[14], replies[0].data[15])
    };
    // SPC-4: ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR, behind two bytes of length.
    let aborted = (1, 2, 0x0b, 0x47, 0x05);
    let (mut wire, r2ts) = solicited(1);
    assert_eq!(ended(wire.send(data_out(1, r2ts[0].ttt, 1, 0, true), &[1; 1024]).unwrap()), aborted);
    assert_eq!(wire.send(ping(CmdSn(2), true, Itt(9)), b"").unwrap().len(), 1, "the session goes on");
    let mut wire = Wire::connected(Offer::default(), server(Offer { first_burst_bytes: 2048, ..Offer::default() }, 8));
    let command = wire.write(1, 4, false);
    assert!(wire.send(command.to_bhs(), &[]).unwrap().is_empty());
    assert!(wire.send(data_out(1, Ttt::NONE, 1, 1024, false), &[2; 1024]).unwrap().is_empty(), "more is to come");
    assert_eq!(ended(wire.send(data_out(1, Ttt::NONE, 0, 0, true), &[2; 1024]).unwrap()), aborted);
    assert!(wire.target.jobs.is_empty(), "it was not carried out");
}

#[test]
fn wrong_answers_to_an_r2t_end_the_session() {
    let (mut wire, r2ts) = solicited(2);
    assert_eq!(number_of(wire.send(data_out(1, r2ts[1].ttt, 0, 0, true), &[1; 1024])), "target transfer tag");
    let (mut wire, r2ts) = solicited(1);
    assert_eq!(number_of(wire.send(data_out(1, r2ts[0].ttt, 0, 4, true), &[1; 1020])), "buffer offset");
    let (mut wire, r2ts) = solicited(1);
    assert_eq!(number_of(wire.send(data_out(1, r2ts[0].ttt, 0, 0, true), &[1; 1028])), "data of an R2T");
    let (mut wire, r2ts) = solicited(1);
    assert!(matches!(wire.send(data_out(1, r2ts[0].ttt, 0, 0, true), &[1; 512]), Err(Fault::Protocol(_))));
    let (mut wire, r2ts) = solicited(1);
    assert!(matches!(wire.send(data_out(1, r2ts[0].ttt, 0, 0, false), &[1; 1024]), Err(Fault::Protocol(_))));
}

#[test]
fn data_is_asked_for_as_far_as_memory_goes() {
    let mut wire = Wire::default();
    let blocks = 60_000; // 30 MB by its number, of which the CDB below takes less
    let bytes = (COMMAND_DATA_BYTES_MAX) as u32;
    let mut asked = Vec::new();
    for itt in 1..=4 {
        let mut command = wire.write(itt, blocks, true);
        command.expected_data_bytes = bytes;
        command.cdb[0] = WRITE_SHORT;
        command.cdb[2..6].copy_from_slice(&bytes.to_be_bytes());
        asked.push(!wire.send(command.to_bhs(), &[]).unwrap().is_empty());
    }
    assert_eq!(SOLICITED_BYTES_MAX / COMMAND_DATA_BYTES_MAX, 2);
    assert_eq!(asked, [true, true, false, false]);
    // The end of one lets the next one begin.
    let management = wire.management(50, TaskFunction::AbortTask, 1);
    let replies = wire.send(management, &[]).unwrap();
    let r2ts: Vec<Itt> = replies.iter().filter(|reply| reply.opcode() == Opcode::R2t).map(|reply| reply.bhs.itt()).collect();
    assert_eq!(r2ts, [Itt(3); 4]);
    assert!(wire.send(data_out(1, Ttt(0), 0, 0, true), &[1; 512]).unwrap().is_empty(), "late data of the aborted one");
}

#[test]
fn a_command_with_more_data_than_any_unit_takes_fails() {
    let mut wire = Wire::default();
    let mut command = wire.write(1, 1, true);
    command.expected_data_bytes = u32::MAX;
    command.cdb[0] = WRITE_SHORT;
    command.cdb[2..6].copy_from_slice(&u32::MAX.to_be_bytes());
    let replies = wire.send(command.to_bhs(), &[]).unwrap();
    assert_eq!(ScsiResponse::from_bhs(&replies[0].bhs).response, 1);
}

#[test]
fn no_more_is_asked_for_than_the_cdb_takes() {
    let mut wire = Wire::default();
    let mut command = wire.write(1, 2, true);
    command.expected_data_bytes = 4096;
    let replies = wire.send(command.to_bhs(), &[]).unwrap();
    assert_eq!(R2t::from_bhs(&replies[0].bhs).desired_bytes, 1024);
}

#[test]
fn what_a_target_does_not_do_is_rejected_with_its_header() {
    let mut wire = Wire::default();
    let reason = |replies: &[Reply]| Reject::from_bhs(&replies[0].bhs).reason;
    let mut unknown = Bhs::default();
    unknown.0[0] = 0x0a;
    let replies = wire.send(unknown, &[]).unwrap();
    assert_eq!((reason(&replies), &replies[0].data[..]), (RejectReason::NotSupported, &unknown.0[..]));
    let mut snack = Bhs::default();
    snack.0[0] = Opcode::SnackRequest as u8;
    assert_eq!(reason(&wire.send(snack, &[]).unwrap()), RejectReason::Snack);
    let mut command = wire.write(1, 1, true);
    command.read = true;
    assert_eq!(reason(&wire.send(command.to_bhs(), &[]).unwrap()), RejectReason::NotSupported);
    let first = wire.write(2, 4, true);
    wire.send(first.to_bhs(), &[]).unwrap();
    let same = wire.write(2, 4, true);
    assert_eq!(reason(&wire.send(same.to_bhs(), &[]).unwrap()), RejectReason::TaskInProgress);
}

#[test]
fn pdus_of_targets_and_logins_end_the_session() {
    for opcode in [Opcode::LoginRequest, Opcode::NopIn, Opcode::Reject] {
        let mut bhs = Bhs::default();
        bhs.0[0] = opcode as u8;
        assert!(matches!(Wire::default().send(bhs, &[]), Err(Fault::Misplaced { .. })), "{opcode:?}");
    }
}

#[test]
fn a_discovery_session_has_no_commands() {
    let mut wire = Wire::of(SessionType::Discovery, Offer::default(), server(Offer::default(), 8), TestHost::default());
    let bhs = wire.read(1, 1);
    let replies = wire.send(bhs, &[]).unwrap();
    assert_eq!(Reject::from_bhs(&replies[0].bhs).reason, RejectReason::ProtocolError);
    assert!(wire.target.jobs.is_empty());
}

#[test]
fn a_long_cdb_comes_whole() {
    let mut wire = Wire::default();
    let long: Vec<u8> = (0..32).map(|at| if at == 0 { 0x7f } else { at }).collect();
    let (first, ahs) = extended_cdb(&long);
    let mut bhs = Bhs(wire.read(1, 1).0);
    bhs.0[32..48].copy_from_slice(&first);
    bhs.0[4] = (ahs.len() / 4) as u8;
    let bytes = [&bhs.0[..], &ahs].concat();
    wire.target.receive(&bytes).unwrap();
    assert_eq!(wire.target.jobs[0].cdb, long);
}
