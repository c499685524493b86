//! Task management: which tasks end, what is still sent for them, and when the answer comes.

use crate::wire::*;
use iscsi_proto::login::Offer;
use iscsi_proto::pdu::*;
use iscsi_proto::target;

fn answer(reply: &Reply) -> (u32, u8) {
    assert_eq!(reply.opcode(), Opcode::TaskResponse);
    (reply.bhs.itt().0, TaskResponse::from_bhs(&reply.bhs).response)
}

/// Reads of these tags, taken and not carried out.
fn with_reads(tags: &[u32]) -> Wire {
    let mut wire = Wire::default();
    for itt in tags {
        let bhs = wire.read(*itt, 1);
        wire.send(bhs, &[]).unwrap();
    }
    wire
}

/// As above, but the tasks have begun as commands that may change data.
fn with_begun(tags: &[u32]) -> Wire {
    let mut wire = with_reads(tags);
    begin_all(&mut wire);
    wire
}

fn begin_all(wire: &mut Wire) {
    assert!(wire.target.jobs.iter_mut().all(|job| job.task.begin()));
}

#[test]
fn the_answer_to_an_abort_does_not_wait_for_a_task_that_changes_no_data() {
    let mut wire = with_reads(&[1]);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert_eq!(answer(&wire.send(abort, &[]).unwrap()[0]), (10, 0));
    assert!(!wire.target.jobs[0].task.begin(), "an aborted task cannot begin");
    assert_eq!(wire.target.receiver.tasks().executing(), 0);
    assert!(wire.finish(0).is_empty());
    assert_eq!(wire.target.receiver.tasks().active(), 0);
}

#[test]
fn a_reset_waits_for_tasks_that_were_begun_until_their_reply_is_written() {
    let mut wire = with_reads(&[1, 2]);
    assert!(wire.target.jobs[1].task.begin());
    let tasks = wire.target.receiver.tasks();
    assert_eq!(tasks.abort(Some(Lun::default())), 2);
    assert!(tasks.is_ending(Lun::default()) && !tasks.is_ending(Lun([0, 1, 0, 0, 0, 0, 0, 0])));
    let job = wire.target.jobs.remove(1);
    wire.target.execute(job, &mut Vec::new());
    assert!(!tasks.is_ending(Lun::default()), "the reply may still have to leave");
}

#[test]
fn the_answer_to_an_abort_waits_for_the_task_whose_reply_is_not_sent() {
    let mut wire = with_begun(&[1, 2]);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert!(wire.send(abort, &[]).unwrap().is_empty());
    assert_eq!((wire.target.management[0].aborted, wire.target.management[0].referenced), (1, Itt(1)));
    assert!(wire.target.jobs[0].task.is_aborted() && !wire.target.jobs[1].task.is_aborted());
    // The other task's reply passes.
    assert_eq!(wire.finish(1)[0].bhs.itt(), Itt(2));
    let replies = wire.finish(0);
    assert_eq!(replies.iter().map(answer).collect::<Vec<_>>(), [(10, 0)]);
}

#[test]
fn a_reply_that_was_written_before_the_abort_is_not_sent_behind_it() {
    let mut wire = with_reads(&[1]);
    let job = wire.target.jobs.remove(0);
    let mut late = Vec::new();
    wire.target.execute(job, &mut late);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert_eq!(answer(&wire.send(abort, &[]).unwrap()[0]), (10, 0));
    wire.target.sender.stamp(&mut late);
    assert!(late.is_empty());
}

#[test]
fn an_abort_behind_the_reply_finds_no_task() {
    let mut wire = with_reads(&[1]);
    wire.finish(0);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert_eq!(answer(&wire.send(abort, &[]).unwrap()[0]), (10, 1));
}

#[test]
fn a_reset_ends_the_tasks_of_its_unit_alone() {
    let mut wire = Wire::default();
    for (itt, unit) in [(1, 0), (2, 1), (3, 0)] {
        let mut bhs = wire.read(itt, 1);
        bhs.0[9] = unit;
        wire.send(bhs, &[]).unwrap();
    }
    begin_all(&mut wire);
    let reset = wire.management(10, TaskFunction::LogicalUnitReset, 0);
    assert!(wire.send(reset, &[]).unwrap().is_empty());
    assert_eq!(wire.target.management[0].aborted, 2);
    assert_eq!(wire.finish(1)[0].bhs.itt(), Itt(2));
    assert!(wire.finish(1).is_empty());
    assert_eq!(answer(&wire.finish(0)[0]), (10, 0));
}

#[test]
fn a_reset_of_the_target_ends_them_all() {
    let mut wire = with_begun(&[1, 2]);
    let reset = wire.management(10, TaskFunction::TargetWarmReset, 0);
    assert!(wire.send(reset, &[]).unwrap().is_empty());
    assert!(wire.finish(0).is_empty());
    assert_eq!(answer(&wire.finish(0)[0]), (10, 0));
}

#[test]
fn a_task_that_waits_for_data_ends_at_once_and_its_late_data_is_passed_over() {
    let mut wire = Wire::connected(Offer::default(), server(Offer { first_burst_bytes: 512, ..Offer::default() }, 8));
    let command = wire.write(1, 4, true);
    let r2t = R2t::from_bhs(&wire.send(command.to_bhs(), &[1; 512]).unwrap()[0].bhs);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert_eq!(answer(&wire.send(abort, &[]).unwrap()[0]), (10, 0));
    assert!(wire.send(data_out(1, r2t.ttt, 0, 512, false), &[1; 512]).unwrap().is_empty());
    // The tag is free for a new command.
    let command = wire.write(1, 1, true);
    wire.send(command.to_bhs(), &[2; 512]).unwrap();
    assert_eq!(wire.target.jobs[0].data, [2; 512]);
}

#[test]
fn another_session_that_resets_a_unit_ends_tasks_here_without_a_word() {
    let mut wire = with_reads(&[1]);
    let mut command = wire.write(2, 4, false).to_bhs();
    command.0[9] = 1;
    wire.send(command, &[1; 512]).unwrap();
    assert_eq!(wire.target.receiver.tasks().abort(Some(Lun::default())), 1);
    assert!(wire.finish(0).is_empty());
    assert_eq!(wire.target.receiver.tasks().active(), 1);
    assert_eq!(wire.target.receiver.tasks().abort(None), 1);
    // What waits for data is dropped with the next PDU; its data is passed over.
    assert!(wire.send(data_out(2, Ttt::NONE, 0, 512, false), &[1; 512]).unwrap().is_empty());
    assert_eq!(wire.target.receiver.tasks().active(), 0);
    assert!(wire.send(data_out(2, Ttt::NONE, 1, 1024, true), &[1; 512]).unwrap().is_empty());
}

#[test]
fn a_task_dropped_without_a_reply_lets_the_answer_go_with_the_next_stamp() {
    let mut wire = with_begun(&[1]);
    let abort = wire.management(10, TaskFunction::AbortTask, 1);
    assert!(wire.send(abort, &[]).unwrap().is_empty());
    wire.target.jobs.clear();
    let mut out = Vec::new();
    wire.target.sender.stamp(&mut out);
    assert_eq!(answer(&replies_of(&out)[0]), (10, 0));
}

#[test]
fn functions_that_are_not_done_are_answered_alone() {
    let mut wire = with_reads(&[1]);
    for (function, response) in [(TaskFunction::ClearAca, 5), (TaskFunction::TaskReassign, 4), (TaskFunction(99), 5)] {
        let request = wire.management(10, function, 1);
        assert_eq!(answer(&wire.send(request, &[]).unwrap()[0]), (10, response));
    }
    assert!(wire.target.management.is_empty() && !wire.target.jobs[0].task.is_aborted());
}

#[test]
fn a_task_whose_reply_is_lost_with_the_connection_is_not_executing() {
    let mut wire = with_begun(&[1, 2]);
    let executing = |wire: &Wire| wire.target.receiver.tasks().executing();
    assert_eq!(executing(&wire), 2);
    let job = wire.target.jobs.remove(0);
    let mut never_sent = Vec::new();
    let begun = wire.target.replies.begin(&mut never_sent);
    let outcome = target::Outcome { status: 0, sense: &[], transfer_bytes: 512 };
    wire.target.replies.finish(&mut never_sent, begun, job.task, &outcome);
    assert_eq!((executing(&wire), wire.target.receiver.tasks().active()), (1, 2));
    drop(wire.target.jobs.remove(0));
    assert_eq!(executing(&wire), 0, "one that is given up without a reply");
}
