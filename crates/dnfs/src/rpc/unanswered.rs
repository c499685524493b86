//! A call that a server leaves unanswered while it answers others (docs/design/027-unanswered-calls.md).
//!
//! The client names it in the log. If the call is idempotent, the client closes the connection and sends the call under another
//! xid: the server's reply cache may regard the old xid as in progress without a time limit. Millrace's filer drops no call, so
//! calls to it keep their xids.

use super::call_table::{CallTable, Overdue};
use super::calls::Calls;
use super::endpoints::Liveness;
use super::events::{Event, UnansweredCall};
use super::fault::Fault;
use super::program::Procedures;
use super::route::{RetryPolicy, Route};
use crate::process::this_process;
use nfs_proto::xdr::Writer;

/// The result of one send or receive. If it transferred nothing within the socket's timeout, first checks the calls in
/// flight.
///
/// # Errors
/// As [`look`].
#[inline]
pub(super) fn checked<C: Calls>(
    moved: Result<Option<usize>, Fault>,
    table: &mut CallTable,
    calls: &C,
    route: &Route,
) -> Result<Option<usize>, Fault> {
    if matches!(moved, Ok(None) | Err(Fault::Unresponsive)) {
        look(table, calls, route)?;
    }
    moved
}

/// Checks whether a call in flight is overdue although the server answers others. If the server was silent meanwhile, the time
/// starts again: the server may have the call, or TCP may still resend it.
///
/// # Errors
/// [`Fault::Unanswered`] if the calls must be sent under other xids.
#[cold]
pub(super) fn look<C: Calls>(table: &mut CallTable, calls: &C, route: &Route) -> Result<(), Fault> {
    let Some(procedures) = route.program.procedures.filter(|_| route.retry_policy != RetryPolicy::Mounting) else {
        return Ok(());
    };
    let Some(overdue) = table.overdue(route.resend_after) else { return Ok(()) };
    match route.liveness() {
        Liveness::Answers => {}
        Liveness::Silent => {
            table.restart_waits();
            return Ok(());
        }
        Liveness::Unknown => return Ok(()),
    }
    let is_idempotent = (procedures.is_idempotent)(calls.procedure());
    let renewed = is_idempotent && !route.endpoints.channel_support.is_present();
    this_process().reports.report(Event::Unanswered {
        server: route.server(),
        call: named(table, calls, &overdue, procedures),
        renewed,
    });
    table.wait_longer(overdue.xid);
    if renewed { Err(Fault::Unanswered) } else { Ok(()) }
}

/// Names the call by its arguments.
fn named<C: Calls>(table: &mut CallTable, calls: &C, overdue: &Overdue, procedures: &Procedures) -> UnansweredCall {
    let procedure = calls.procedure();
    let scratch = table.scratch();
    scratch.clear();
    calls.encode(overdue.call, &mut Writer::new(scratch));
    let (file, offset) = (procedures.object_of)(procedure, scratch);
    UnansweredCall { procedure, file, offset, age: overdue.age }
}
