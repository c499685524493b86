//! What a target sends for a command: data, status, residual counts, numbers.

use crate::pair::*;
use crate::wire::*;
use iscsi_proto::login::Offer;
use iscsi_proto::pdu::*;
use iscsi_proto::serial::CmdSn;
use iscsi_proto::target::Outcome;

#[test]
fn a_read_is_a_header_before_data_that_is_not_moved() {
    let mut wire = Wire::default();
    let bhs = wire.read(1, 16);
    wire.send(bhs, &[]).unwrap();
    let task = wire.target.jobs.pop().unwrap().task;
    let mut out = Vec::with_capacity(48 + 8192);
    let begun = wire.target.replies.begin(&mut out);
    assert_eq!(out.len(), 48);
    out.extend((0..8192).map(|at| at as u8));
    let data = out[48..].as_ptr();
    wire.target.replies.finish(&mut out, begun, task, &Outcome { status: 0, sense: &[], transfer_bytes: 8192 });
    wire.target.sender.stamp(&mut out);
    assert_eq!((out.len(), out[48..].as_ptr()), (48 + 8192, data));
    let replies = replies_of(&out);
    let header = DataIn::from_bhs(&replies[0].bhs);
    assert!(header.is_final && header.has_status && !header.underflow && !header.overflow);
    assert_eq!(replies[0].data, out[48..]);
    assert_eq!(wire.target.receiver.tasks().active(), 0);
}

#[test]
fn replies_gathered_in_one_buffer_are_numbered_in_its_order() {
    let mut wire = Wire::default();
    for itt in 1..=3 {
        let bhs = wire.read(itt, 1);
        wire.send(bhs, &[]).unwrap();
    }
    let mut out = Vec::new();
    for job in [2, 0, 0] {
        let job = wire.target.jobs.remove(job);
        wire.target.execute(job, &mut out);
    }
    wire.target.replies.ping(&mut out);
    wire.target.sender.stamp(&mut out);
    let replies = replies_of(&out);
    let numbers: Vec<(u32, u32)> = replies.iter().map(|reply| (reply.bhs.itt().0, reply.stat_sn())).collect();
    let first = numbers[0].1;
    assert_eq!(numbers, [(3, first), (1, first + 1), (2, first + 2), (u32::MAX, first + 3)]);
    let bhs = wire.read(4, 1);
    wire.send(bhs, &[]).unwrap();
    assert_eq!(wire.finish(0)[0].stat_sn(), first + 3, "a ping takes no number");
}

#[test]
fn long_data_is_cut_by_segment_and_burst_and_carries_the_status_at_its_end() {
    let client = Offer { receive_segment_bytes_max: 1000, max_burst_bytes: 2048, ..Offer::default() };
    let mut wire = Wire::connected(client, server(Offer::default(), 8));
    wire.target.disk.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 3) as u8);
    let bhs = wire.read(1, 9);
    wire.send(bhs, &[]).unwrap();
    let replies = wire.finish(0);
    let data: Vec<u8> = replies.iter().flat_map(|reply| reply.data.clone()).collect();
    assert!(data == wire.target.disk[..9 * BLOCK]);
    let headers: Vec<DataIn> = replies.iter().map(|reply| DataIn::from_bhs(&reply.bhs)).collect();
    let shape: Vec<_> = headers.iter().map(|header| (header.buffer_offset, header.is_final, header.has_status)).collect();
    let expected = [
        (0, false, false),
        (1000, false, false),
        (2000, true, false),
        (2048, false, false),
        (3048, false, false),
        (4048, true, false),
        (4096, true, true),
    ];
    assert_eq!(shape, expected);
    assert!(headers.iter().enumerate().all(|(number, header)| header.data_sn.0 == number as u32));
}

#[test]
fn a_bad_status_has_a_response_with_its_sense_behind_the_data() {
    let mut wire = Wire::default();
    let bhs = wire.read(1, 2);
    wire.send(bhs, &[]).unwrap();
    let task = wire.target.jobs.pop().unwrap().task;
    let mut out = Vec::new();
    let begun = wire.target.replies.begin(&mut out);
    out.extend([9; 512]);
    wire.target.replies.finish(&mut out, begun, task, &Outcome { status: 2, sense: &SENSE, transfer_bytes: 512 });
    wire.target.sender.stamp(&mut out);
    let replies = replies_of(&out);
    assert_eq!(replies.iter().map(Reply::opcode).collect::<Vec<_>>(), [Opcode::DataIn, Opcode::ScsiResponse]);
    assert!(!DataIn::from_bhs(&replies[0].bhs).has_status);
    let response = ScsiResponse::from_bhs(&replies[1].bhs);
    assert_eq!((response.status, response.underflow, response.residual_bytes, response.exp_data_sn.0), (2, true, 512, 1));
    assert_eq!(replies[1].data, [&[0, 18][..], &SENSE].concat());
}

/// Status, flags and residual count of a command for which the initiator expects `expected` bytes and the CDB moves `moved`.
fn residual(is_read: bool, expected: u32, moved: u64) -> (bool, bool, u32, usize) {
    let mut wire = Wire::default();
    let mut command = wire.write(1, 1, true);
    (command.read, command.write, command.expected_data_bytes) = (is_read, !is_read, expected);
    if !is_read {
        command.cdb = [0; 16];
        command.cdb[0] = WRITE_SHORT;
        command.cdb[2..6].copy_from_slice(&(moved as u32).to_be_bytes());
    }
    let data = if is_read { Vec::new() } else { vec![1; expected as usize] };
    wire.send(command.to_bhs(), &data).unwrap();
    let job = wire.target.jobs.pop().unwrap();
    assert!(is_read || job.data.len() as u64 == moved.min(u64::from(expected)));
    let mut out = Vec::new();
    let begun = wire.target.replies.begin(&mut out);
    if is_read {
        out.resize(out.len() + moved as usize, 7);
    }
    wire.target.replies.finish(&mut out, begun, job.task, &Outcome { status: 0, sense: &[], transfer_bytes: moved });
    wire.target.sender.stamp(&mut out);
    let reply = replies_of(&out).remove(0);
    let fields = (reply.bhs.0[1] & 4 != 0, reply.bhs.0[1] & 2 != 0, u32::from_be_bytes(reply.bhs.0[44..48].try_into().unwrap()));
    (fields.0, fields.1, fields.2, reply.data.len())
}

#[test]
fn residual_counts_tell_what_was_not_moved() {
    assert_eq!(residual(true, 1024, 1024), (false, false, 0, 1024));
    assert_eq!(residual(true, 1024, 512), (false, true, 512, 512));
    assert_eq!(residual(true, 512, 1024), (true, false, 512, 512));
    assert_eq!(residual(true, 1024, 0), (false, true, 1024, 0));
    assert_eq!(residual(false, 1024, 1024), (false, false, 0, 0));
    assert_eq!(residual(false, 1024, 512), (false, true, 512, 0));
    assert_eq!(residual(false, 512, 1024), (true, false, 512, 0));
}

#[test]
fn a_task_that_was_dropped_frees_its_place_in_the_window() {
    let mut wire = Wire::connected(Offer::default(), server(Offer::default(), 2));
    for itt in 1..=2 {
        let bhs = wire.read(itt, 1);
        wire.send(bhs, &[]).unwrap();
    }
    wire.target.jobs.clear();
    let mut out = Vec::new();
    wire.target.replies.window_update(&mut out);
    wire.target.sender.stamp(&mut out);
    let update = NopIn::from_bhs(&replies_of(&out)[0].bhs);
    assert_eq!((update.exp_cmd_sn, update.max_cmd_sn, update.ttt), (CmdSn(3), CmdSn(4), Ttt::NONE));
}
