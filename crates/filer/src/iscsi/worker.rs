//! Commands on a worker: one alone, or durable writes of one LUN, which share a flush.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use iscsi_proto::scsi::Completion;

use super::command::{Command, not_flushed};
use super::faults::{self, Fate};
use crate::connections::connection::{Connection, Reservation};
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::queue::Job;
use crate::luns::deferring_flushes;

/// A command that waits for a worker.
pub(crate) struct Request {
    pub(super) command: Command,
    pub(super) data: Vec<u8>,
}

/// A write that was executed and is not flushed yet.
struct Begun {
    connection: Arc<Connection>,
    command: Command,
    reservation: Reservation,
    completion: Completion,
    flushes: std::ops::Range<usize>, // in the list of all flushes
}

/// Executes commands and sends their responses.
///
/// **Durability**: as each command requires. No response leaves before its flush.
pub(super) fn carry_out(mut jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
    if jobs.len() > 1 {
        return together(jobs);
    }
    if let Some(job) = jobs.pop() {
        alone(job, delayed, out);
    }
}

fn alone(job: Job<Request>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
    let Job { connection, request: Request { command, data }, reservation, .. } = job;
    match catch_unwind(AssertUnwindSafe(|| answer(command, &data, out))) {
        Ok(Fate::Goes) => {
            drop(data);
            connection.queue(out, vec![reservation]);
        }
        Ok(Fate::Late(due)) => delayed.delay(&connection, due, std::mem::take(out), Default::default()),
        Ok(Fate::Lost) => {
            out.clear();
            connection.queue(out, vec![reservation]);
        }
        Ok(Fate::Reset) => connection.reset(),
        Err(_) => connection.drop_after_panic(),
    }
}

/// Executes a command, with the injected faults, and appends its reply to `out`. A command that was aborted meanwhile is not executed.
pub(super) fn answer(mut command: Command, data: &[u8], out: &mut Vec<u8>) -> Fate {
    let export = Arc::clone(&command.sender.export);
    let (set, operation) = (export.volume().faults(), command.kind.operation);
    let has_faults = set.any(faults::WIRE) && !command.task.is_aborted();
    let fate = if has_faults { faults::before(set, operation) } else { Fate::Goes };
    if !matches!(fate, Fate::Goes) || !command.begin() {
        return fate;
    }
    if has_faults {
        return command.answer_unless_lost(data, out, |due| faults::after(set, operation, due));
    }
    command.answer(data, out).map_or(Fate::Goes, Fate::Late)
}

/// Executes all commands, flushes once, and sends all responses.
fn together(jobs: Vec<Job<Request>>) {
    let lun = jobs.first().and_then(|job| job.request.command.attached.as_ref()).map(|attached| Arc::clone(&attached.lun));
    let _executing = lun.as_ref().map(|lun| lun.executing());
    let mut flushes = Vec::new();
    let mut begun = Vec::with_capacity(jobs.len());
    for Job { connection, request: Request { mut command, data }, reservation, .. } in jobs {
        if !command.begin() {
            drop(command);
            connection.queue(&mut Vec::new(), vec![reservation]);
            continue;
        }
        let executed = catch_unwind(AssertUnwindSafe(|| deferring_flushes(|| command.execute(&data, &mut []))));
        let Ok((completion, own)) = executed else {
            connection.drop_after_panic();
            continue;
        };
        let start = flushes.len();
        flushes.extend(own);
        begun.push(Begun { connection, command, reservation, completion, flushes: start..flushes.len() });
    }
    let Ok(flushed) = catch_unwind(AssertUnwindSafe(|| volume::flush_deferred(&flushes))) else {
        begun.iter().for_each(|begun| begun.connection.drop_after_panic());
        return;
    };
    for begun in &mut begun {
        if flushed.get(begun.flushes.clone()).unwrap_or_default().iter().any(Result::is_err) {
            begun.completion = not_flushed();
        }
    }
    answer_all(begun);
}

/// Sends the responses. Successive responses of one connection leave in one send.
fn answer_all(begun: Vec<Begun>) {
    let mut begun = begun.into_iter().peekable();
    while let Some(Begun { connection, command, reservation, completion, .. }) = begun.next() {
        let (mut out, mut reservations) = (Vec::new(), vec![reservation]);
        command.answer_executed(completion, &mut out);
        while let Some(next) = begun.next_if(|next| Arc::ptr_eq(&next.connection, &connection)) {
            next.command.answer_executed(next.completion, &mut out);
            reservations.push(next.reservation);
        }
        connection.queue(&mut out, reservations);
    }
}
