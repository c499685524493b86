//! Calls on a worker: one alone, or several that the worker executes one after the other and answers together. These are stable writes
//! of one file, which share a flush, or calls of one connection that need no flush.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use nfs_proto::limits::HANDLE_BYTES_MAX;
use nfs_proto::xdr::Reader;

use super::call::{Call, Later, Marks, Served};
use super::dispatch;
use super::export::Export;
use super::exports::View;
use super::faults;
use super::filer::Filer;
use crate::connections::connection::{Connection, Reservation};
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::delivery::SentMarks;
use crate::connections::queue::Job;

/// A call that waits for a worker.
pub(crate) struct Request {
    /// The connection's view of the exports when the call was received. It is renewed when the call is executed.
    pub(super) view: Arc<View>,
    pub(super) record: Vec<u8>,
}

/// A call that was executed. If it is a stable write, its flush may still be missing.
struct Begun {
    connection: Arc<Connection>,
    request: Request,
    reservation: Reservation,
    received_at: Instant,
    reply: std::ops::Range<usize>, // in the buffer of all replies
    marks: SentMarks,
    unsettled: Option<volume::DeferredFlush>, // `None`: durable already, refused, or not a write
}

/// The number of the group that the call belongs to: stable writes of one file if they gain from sharing a flush, or calls of one
/// connection if nothing is flushed.
pub(super) fn group(call: &Call<'_>, view: &View, of_connection: u64) -> Option<u64> {
    shares_flush(call, view).or_else(|| is_brief(call, view).then_some(of_connection))
}

/// A number that identifies the volume of a call. 0 if the call is for no volume.
pub(super) fn volume(call: &Call<'_>, view: &View) -> usize {
    let handle = Reader::new(call.arguments).opaque(HANDLE_BYTES_MAX);
    let index = handle.ok().and_then(|handle| view.exports().of_handle(handle));
    index.and_then(|index| view.exports().entries().get(index)).map_or(0, |entry| Arc::as_ptr(&entry.export).addr())
}

/// A number that identifies the file of a stable WRITE, if writes of that file gain from sharing a flush.
fn shares_flush(call: &Call<'_>, view: &View) -> Option<u64> {
    let args = call.stable_write()?;
    let (export, _) = view.at(view.exports().of_handle(args.file.as_bytes())?);
    // If two files have the same number, their writes only share a worker.
    (goes_in_batches(export) && export.volume.shares_flushes()).then(|| {
        let mut hash = std::hash::DefaultHasher::new();
        std::hash::Hasher::write(&mut hash, args.file.as_bytes());
        std::hash::Hasher::finish(&hash)
    })
}

/// Whether the call is slow on other volumes but fast on this one, which flushes nothing: it takes less time than to wake another
/// thread.
fn is_brief(call: &Call<'_>, view: &View) -> bool {
    let handle = Reader::new(call.arguments).opaque(HANDLE_BYTES_MAX);
    let Some(index) = handle.ok().and_then(|handle| view.exports().of_handle(handle)) else { return false };
    let (export, _) = view.at(index);
    goes_in_batches(export) && export.volume.options().durability == volume::Durability::Battery && call.is_slow()
}

/// Whether several calls of an export may be executed and answered together. A modelled medium delays each reply by its own time, and an
/// injected fault affects a single call and its reply, so with these each call runs alone.
fn goes_in_batches(export: &Export) -> bool {
    export.medium().is_none() && !export.volume.faults().any(faults::WIRE)
}

/// Executes calls and answers them.
///
/// **Durability**: as each call requires. No reply leaves before its flush.
pub(super) fn carry_out(filer: &Filer, mut jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
    if jobs.len() > 1 {
        return together(filer, jobs, out);
    }
    if let Some(job) = jobs.pop() {
        alone(filer, job, delayed, out);
    }
}

fn alone(filer: &Filer, job: Job<Request>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
    let Job { connection, request: Request { mut view, record }, reservation, received_at, .. } = job;
    if view.is_fenced() {
        return;
    }
    filer.renew(&mut view);
    let marks = Marks::default();
    let served = catch_unwind(AssertUnwindSafe(|| {
        let Some(call) = Call::parse(&record) else { return Served::Close };
        dispatch::serve_call(filer, &view, &call.received_at(received_at).marking(&marks), out)
    }));
    match served {
        Ok(Served::Answered | Served::Cold | Served::Last) => {
            drop(record);
            if !out.is_empty() {
                connection.queue_marked(out, vec![reservation], marks.into_inner());
            }
        }
        Ok(Served::Due(due)) => delayed.delay(&connection, due, std::mem::take(out), marks.into_inner()),
        Ok(Served::Reset) => connection.reset(),
        Ok(Served::Close) => connection.drop_now(),
        Err(_) => connection.drop_after_panic(),
    }
}

/// Executes all calls, flushes once, and answers all. `out` holds the replies meanwhile.
fn together(filer: &Filer, jobs: Vec<Job<Request>>, out: &mut Vec<u8>) {
    let mut begun: Vec<Begun> = jobs.into_iter().filter_map(|job| begin(filer, job, out)).collect();
    let (owners, unsettled): (Vec<usize>, Vec<_>) =
        begun.iter_mut().enumerate().filter_map(|(n, write)| Some((n, write.unsettled.take()?))).unzip();
    let settled = catch_unwind(AssertUnwindSafe(|| volume::flush_deferred(&unsettled)));
    let Ok(settled) = settled else {
        begun.iter().for_each(|write| write.connection.drop_after_panic());
        return;
    };
    for (owner, result) in owners.into_iter().zip(settled) {
        let Some(write) = begun.get_mut(owner) else { continue };
        let start = out.len();
        if let Some(call) = Call::parse(&write.request.record) {
            dispatch::settled(&write.request.view, &call, write.received_at, &result, out);
        }
        if result.is_err() {
            write.reply = start..out.len();
        }
    }
    answer(begun, out);
}

/// Executes one call. The flush of a stable write is left to the caller. `None` if there is nothing to answer.
fn begin(filer: &Filer, job: Job<Request>, out: &mut Vec<u8>) -> Option<Begun> {
    let Job { connection, mut request, reservation, received_at, .. } = job;
    if request.view.is_fenced() {
        return None;
    }
    filer.renew(&mut request.view);
    let start = out.len();
    let (later, marks) = (Later::default(), Marks::default());
    let served = catch_unwind(AssertUnwindSafe(|| {
        let Some(call) = Call::parse(&request.record) else { return Served::Close };
        dispatch::serve_call(filer, &request.view, &call.received_at(received_at).settled_later(&later).marking(&marks), out)
    }));
    match served {
        Ok(Served::Answered | Served::Due(_) | Served::Cold | Served::Last) => {
            let (reply, unsettled) = (start..out.len(), later.into_inner());
            Some(Begun { connection, request, reservation, received_at, reply, marks: marks.into_inner(), unsettled })
        }
        Ok(Served::Reset) => {
            connection.reset();
            None
        }
        Ok(Served::Close) => {
            connection.drop_now();
            None
        }
        Err(_) => {
            out.truncate(start);
            connection.drop_after_panic();
            None
        }
    }
}

/// Sends the replies. Successive replies of one connection leave in one send.
fn answer(begun: Vec<Begun>, out: &[u8]) {
    let mut begun = begun.into_iter().peekable();
    let mut bytes = Vec::new();
    while let Some(first) = begun.next() {
        bytes.clear();
        bytes.extend_from_slice(out.get(first.reply).unwrap_or_default());
        let (mut reservations, mut marks) = (vec![first.reservation], first.marks);
        while let Some(next) = begun.next_if(|next| Arc::ptr_eq(&next.connection, &first.connection)) {
            bytes.extend_from_slice(out.get(next.reply).unwrap_or_default());
            reservations.push(next.reservation);
            marks.extend(next.marks);
        }
        first.connection.queue_marked(&mut bytes, reservations, marks);
    }
}
