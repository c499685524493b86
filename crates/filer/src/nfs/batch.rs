//! Several calls that a worker carries out one after the other and answers together: stable writes of one file, which share
//! a flush, or calls of one connection that flush nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::connections::connection::{Charge, Connection};
use crate::connections::workers::Job;
use crate::nfs::dispatch::{self, Call, Later, Served};
use crate::nfs::exports::View;
use crate::nfs::filer::Filer;

/// A call that is carried out, a stable write but for its flush.
struct Begun {
    connection: Arc<Connection>,
    view: Arc<View>,
    record: Vec<u8>,
    charge: Charge,
    came: Instant,
    reply: std::ops::Range<usize>,        // in the buffer of all replies
    unsettled: Option<volume::Unsettled>, // none: durable already, refused, or no write
}

/// Carries all out, flushes once, answers all. `out` holds the replies meanwhile.
///
/// **Durability**: as each call asks; no reply leaves before its flush.
pub(crate) fn run(filer: &Filer, jobs: Vec<Job>, out: &mut Vec<u8>) {
    let mut begun: Vec<Begun> = jobs.into_iter().filter_map(|job| begin(filer, job, out)).collect();
    let (owners, unsettled): (Vec<usize>, Vec<_>) =
        begun.iter_mut().enumerate().filter_map(|(n, write)| Some((n, write.unsettled.take()?))).unzip();
    let settled = catch_unwind(AssertUnwindSafe(|| volume::settle(&unsettled)));
    let Ok(settled) = settled else {
        begun.iter().for_each(|write| write.connection.drop_after_panic());
        return;
    };
    for (owner, result) in owners.into_iter().zip(settled) {
        let Some(write) = begun.get_mut(owner) else { continue };
        let start = out.len();
        if let Some(call) = Call::parse(&write.record) {
            dispatch::settled(&write.view, &call, write.came, &result, out);
        }
        if result.is_err() {
            write.reply = start..out.len();
        }
    }
    answer(begun, out);
}

/// Carries one call out, a write as far as to its flush; none if there is nothing to answer.
fn begin(filer: &Filer, job: Job, out: &mut Vec<u8>) -> Option<Begun> {
    let Job { connection, mut view, record, charge, came, .. } = job;
    if connection.is_fenced() {
        return None;
    }
    filer.renew(&mut view);
    let start = out.len();
    let later = Later::default();
    let served = catch_unwind(AssertUnwindSafe(|| {
        let Some(call) = Call::parse(&record) else { return Served::Close };
        dispatch::serve_call(filer, &view, &call.since(came).settled_later(&later), out)
    }));
    match served {
        Ok(Served::Answered | Served::Due(_) | Served::Cold) => {
            let (reply, unsettled) = (start..out.len(), later.into_inner());
            Some(Begun { connection, view, record, charge, came, reply, unsettled })
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

/// Sends the replies, those of one connection together where they stand side by side.
fn answer(begun: Vec<Begun>, out: &[u8]) {
    let mut begun = begun.into_iter().peekable();
    let mut bytes = Vec::new();
    while let Some(first) = begun.next() {
        bytes.clear();
        bytes.extend_from_slice(out.get(first.reply).unwrap_or_default());
        let mut charges = vec![first.charge];
        while let Some(next) = begun.next_if(|next| Arc::ptr_eq(&next.connection, &first.connection)) {
            bytes.extend_from_slice(out.get(next.reply).unwrap_or_default());
            charges.push(next.charge);
        }
        first.connection.queue(&bytes, charges);
    }
}
