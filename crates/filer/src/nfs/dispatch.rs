//! Serves one call: from the bytes of the call to the bytes of its reply.

use std::time::{Duration, Instant};

use nfs_proto::nfs3::{NfsStatus, Procedure, WriteArgs};
use nfs_proto::record;
use nfs_proto::rpc::{
    AUTH_NONE, AUTH_SYS, AuthStat, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid,
};
use nfs_proto::xdr::{Reader, Writer, decode_all, encode_to};
use volume::medium::{Kind, Operation};

pub use super::call::{Call, Later, Served};
use super::exactly_once::{Attempt, Claim, Sender};
use super::exports::View;
use super::faults;
use super::filer::Filer;
use super::handlers::{self, Program, ProgramCall, Serve};
use super::policy::{Refusal, Rights};
use super::stats::{Answer, Stats};
use crate::connections::delivery::SentMark;
use crate::operations::access::Caller;

/// Serves one call record: appends its reply record, with the record mark, to `out`.
pub fn serve(filer: &Filer, view: &View, record: &[u8], out: &mut Vec<u8>) -> Served {
    let Some(call) = Call::parse(record) else { return Served::Close };
    serve_call(filer, view, &call, out)
}

/// Counts a WRITE whose flush was [left for later](Call::settled_later) and is done now. If the flush failed, appends the reply that
/// replaces the earlier one.
pub(crate) fn settled(view: &View, call: &Call<'_>, received_at: Instant, result: &Result<(), volume::Error>, out: &mut Vec<u8>) {
    let args = decode_all::<WriteArgs<'_>>(call.arguments).ok();
    let index = args.as_ref().and_then(|args| view.exports().of_handle(args.file.as_bytes()));
    let export = index.map(|index| view.at(index).0);
    let answer = match result {
        Ok(()) => Answer::OK,
        Err(error) => {
            let reply = Reply::begin(call.header.xid, out);
            let status = handlers::refuse_write(error, export.map_or("", |export| export.name()), out);
            reply.end(Ok(()), out);
            Answer::Status(status)
        }
    };
    let (Some(args), Some(export)) = (args, export) else { return };
    let bytes = if answer == Answer::OK { args.count.into() } else { 0 };
    export.note_full(answer);
    Timing { view, procedure: Procedure::Write, since: received_at }.count(&export.stats, answer, bytes, None);
}

/// Serves one parsed call. See [`serve`].
pub fn serve_call(filer: &Filer, view: &View, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let xid = call.header.xid;
    let refusal = if call.header.rpc_version == RPC_VERSION {
        match identity(&call.header.credential) {
            Ok(identity) => return serve_program(filer, view, identity.as_ref(), call, out),
            Err(stat) => ReplyStatus::AuthError(stat),
        }
    } else {
        ReplyStatus::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION }
    };
    refuse(xid, refusal, out);
    Served::Answered
}

/// The credential of a call. `None` if it has none. RFC 5531 8.2 and appendix A.
fn identity<'a>(credential: &OpaqueAuth<'a>) -> Result<Option<AuthSys<'a>>, AuthStat> {
    match credential.flavor {
        AUTH_NONE => Ok(None),
        AUTH_SYS => decode_all(credential.body.0).map(Some).map_err(|_| AuthStat::BadCred),
        _ => Err(AuthStat::BadCred),
    }
}

fn serve_program(filer: &Filer, view: &View, identity: Option<&AuthSys<'_>>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let CallHeader { xid, procedure, .. } = call.header;
    let serve = match handlers::program(&call.header, view) {
        Ok(Program { serve: Serve::Nfs3, .. }) => return serve_nfs(filer, view, identity, call, out),
        Ok(Program { serve: Serve::Results(serve), .. }) => serve,
        Err(status) => {
            refuse(xid, status, out);
            return Served::Answered;
        }
    };
    let reply = Reply::begin(xid, out);
    let done = serve(&ProgramCall { filer, view, procedure, arguments: call.arguments }, out);
    reply.end(done.map(|_| ()), out);
    done.unwrap_or(Served::Answered)
}

fn serve_nfs(filer: &Filer, view: &View, identity: Option<&AuthSys<'_>>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let xid = call.header.xid;
    let Some(procedure) = Procedure::from_number(call.header.procedure) else {
        refuse(xid, ReplyStatus::ProcedureUnavailable, out);
        return Served::Answered;
    };
    let timing = Timing { view, procedure, since: call.received_at.unwrap_or_else(Instant::now) };
    if procedure == Procedure::Null {
        Reply::begin(xid, out).end(Ok(()), out);
        timing.count(&filer.stats, Answer::OK, 0, None);
        return Served::Answered;
    }
    // The arguments of all other procedures begin with a handle.
    let Ok(handle) = Reader::new(call.arguments).opaque(nfs_proto::limits::HANDLE_BYTES_MAX) else {
        refuse(xid, ReplyStatus::GarbageArguments, out);
        timing.count(&filer.stats, Answer::Refused, 0, None);
        return Served::Answered;
    };
    let context = match context(filer, view, identity, procedure, handle) {
        Ok(context) => handlers::Context { may_wait: call.may_wait, later: call.later, ..context },
        Err(stat) => {
            refuse(xid, ReplyStatus::AuthError(stat), out);
            timing.count(&filer.stats, Answer::Refused, 0, None);
            return Served::Answered;
        }
    };
    let set = context.export.volume.faults();
    if set.any(faults::WIRE) && context.verdict.is_ok() {
        // A fault applies once, however long the call takes.
        let context = handlers::Context { may_wait: true, later: None, ..context };
        return faults::around(set, procedure, out, |out| carry_out(&context, &timing, call, out));
    }
    carry_out(&context, &timing, call, out)
}

/// Executes a call, or repeats its stored reply.
fn carry_out(context: &handlers::Context<'_>, timing: &Timing<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let handlers::Context { filer, view, export, .. } = *context;
    let procedure = timing.procedure;
    let xid = call.header.xid;
    let stats = if context.verdict == Err(NfsStatus::BadHandle) { &filer.stats } else { &export.stats };
    let submitted = export.medium().map(|_| Instant::now());
    let mut claim = None;
    // A refused call is not executed, so its reply need not be stored.
    if !procedure.is_idempotent() && context.verdict.is_ok() {
        match filer.once.claim(&Attempt { xid, record: call.record, sender: sender(view) }) {
            Claim::New(execution) => claim = Some(execution),
            Claim::Answered(reply, mark) => {
                out.extend_from_slice(&reply);
                note_mark(call, mark);
                timing.count(stats, Answer::OK, 0, None);
                return Served::Answered;
            }
            Claim::InProgress => return Served::Answered,
        }
    }
    let reply = Reply::begin(xid, out);
    let done = handlers::serve(context, procedure, call.arguments, out);
    if done.as_ref().is_ok_and(|done| done.cold) {
        out.truncate(reply.mark);
        if procedure == Procedure::Read {
            stats.count_cold_read();
        }
        return Served::Cold;
    }
    let (answer, again, bytes) =
        done.as_ref().map_or((Answer::Refused, false, 0), |done| (Answer::Status(done.status), done.retry_later, done.bytes));
    export.note_full(answer);
    let operation = done.as_ref().ok().and_then(|done| medium_operation(procedure, done));
    let mark = reply.mark;
    let understood = done.is_ok();
    reply.end(done.map(|_| ()), out);
    if let (Some(execution), Some(record)) = (claim, out.get(mark..)) {
        // After NFS3ERR_JUKEBOX the client's next try must be executed.
        note_mark(call, execution.answered(record, understood && !again));
    }
    let due = submitted.zip(operation).and_then(|(at, operation)| export.due(at, operation).filter(|due| *due > at));
    // A call whose flush is left for later is not answered yet: see `settled`.
    if call.later.is_none_or(|later| later.borrow().is_none()) {
        timing.count(stats, answer, bytes, due);
    }
    due.map_or(Served::Answered, Served::Due)
}

/// The sender of a call.
fn sender(view: &View) -> Sender {
    let (connection, channel) = view.attachment().map_or_else(Default::default, |attachment| attachment.sender());
    Sender { client: view.peer.address, connection, channel }
}

fn note_mark(call: &Call<'_>, mark: Option<SentMark>) {
    if let Some(marks) = call.marks {
        marks.borrow_mut().extend(mark);
    }
}

/// A call being timed.
struct Timing<'a> {
    view: &'a View,
    procedure: Procedure,
    since: Instant,
}

impl Timing<'_> {
    /// Counts the call as answered, by procedure and by client. On a modelled medium its latency is that of the model, unless the host was
    /// slower.
    fn count(&self, stats: &Stats, answer: Answer, bytes: u64, due: Option<Instant>) {
        let took = self.since.elapsed().max(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(self.since)));
        stats.count(self.procedure, answer, bytes, took);
        self.view.client.count(bytes, took);
    }
}

/// The export of a call, the identity under which it is executed there, and whether it is allowed. An error if the export requires a
/// stronger security than the connection has.
fn context<'a>(
    filer: &'a Filer,
    view: &'a View,
    identity: Option<&AuthSys<'_>>,
    procedure: Procedure,
    handle: &[u8],
) -> Result<handlers::Context<'a>, AuthStat> {
    let found = view.exports().of_handle(handle);
    let index = found.unwrap_or(0);
    let (export, verdict) = view.at(index);
    let rights = verdict.unwrap_or_default();
    let too_weak = verdict.err().filter(|_| found.is_some()).and_then(Refusal::auth_stat);
    if let Some(stat) = too_weak {
        return Err(stat);
    }
    let verdict = match (found, verdict) {
        (None, _) => Err(NfsStatus::BadHandle),
        (_, Err(refusal)) => Err(refusal.nfs_status()),
        (_, Ok(Rights { read_only: true, .. })) if changes(procedure) => Err(NfsStatus::RoFs),
        (_, Ok(_)) => Ok(()),
    };
    let caller = Caller::of(identity, &rights);
    Ok(handlers::Context {
        filer,
        view,
        index,
        export,
        caller,
        verdict,
        read_only: rights.read_only,
        may_wait: true,
        later: None,
    })
}

/// Calls that a read-only export refuses.
const fn changes(procedure: Procedure) -> bool {
    !procedure.is_idempotent() || matches!(procedure, Procedure::Write | Procedure::Commit)
}

/// The medium operation of an answered call.
fn medium_operation(procedure: Procedure, done: &handlers::Done) -> Option<Operation> {
    let changed = done.ok && !procedure.is_idempotent();
    done.operation.or_else(|| changed.then_some(Operation { kind: Kind::Metadata, file: 0, offset: 0, bytes: 0 }))
}

/// A reply that is being written: its mark and header are written, its results follow.
struct Reply {
    xid: Xid,
    mark: usize, // position of the record mark in the buffer
}

impl Reply {
    /// Appends room for the mark and the header of a success.
    fn begin(xid: Xid, out: &mut Vec<u8>) -> Self {
        let mark = out.len();
        let mut writer = Writer::new(out);
        writer.raw(&[0; record::MARK_BYTES]);
        encode_to(&ReplyHeader { xid, status: ReplyStatus::Success }, out);
        Self { xid, mark }
    }

    /// Completes the record, or replaces it with a refusal.
    fn end(self, done: Result<(), ReplyStatus>, out: &mut Vec<u8>) {
        match done {
            Ok(()) => {
                let bytes = out.len() - self.mark - record::MARK_BYTES;
                record::write_mark(out, self.mark, bytes);
            }
            Err(status) => {
                out.truncate(self.mark);
                refuse(self.xid, status, out);
            }
        }
    }
}

/// Appends a reply without results.
fn refuse(xid: Xid, status: ReplyStatus, out: &mut Vec<u8>) {
    nfs_proto::rpc::encode_reply(&ReplyHeader { xid, status }, &(), out);
}
