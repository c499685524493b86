//! From the bytes of one call to the bytes of its reply.

use std::time::{Duration, Instant};

use nfs_proto::nfs3::{self, NfsStatus, Procedure, WriteArgs};
use nfs_proto::record;
use nfs_proto::rpc::{
    AUTH_NONE, AUTH_SYS, AuthStat, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid,
};
use nfs_proto::xdr::{Reader, Writer, decode_all, encode_to};
use volume::medium::{Kind, Operation};

use super::access::Caller;
pub use super::call::{Call, Later, Served};
use super::exports::View;
use super::faults;
use super::filer::Filer;
use super::handlers::{self, ProgramCall};
use super::policy::{Refusal, Rights};
use super::reply_cache::{CallKey, Claim};
use super::stats::{Answer, Stats};
use crate::listener::ListenerRole;

/// Serves one call record: appends its reply record, mark included, to `out`.
pub fn serve(filer: &Filer, view: &View, record: &[u8], out: &mut Vec<u8>) -> Served {
    let Some(call) = Call::parse(record) else { return Served::Close };
    serve_call(filer, view, &call, out)
}

/// The same of a call that was received at this time and had to wait until now.
pub(crate) fn serve_received(received_at: Instant, filer: &Filer, view: &View, record: &[u8], out: &mut Vec<u8>) -> Served {
    let Some(call) = Call::parse(record) else { return Served::Close };
    serve_call(filer, view, &call.received_at(received_at), out)
}

/// Counts a WRITE that was left to be [settled later](Call::settled_later) and is now. Of one whose flush failed the reply is
/// appended that takes the place of the one it had.
pub(crate) fn settled(view: &View, call: &Call<'_>, received_at: Instant, result: &Result<(), volume::Error>, out: &mut Vec<u8>) {
    let answer = match result {
        Ok(()) => Answer::OK,
        Err(error) => {
            let reply = Reply::begin(call.header.xid, out);
            let status = handlers::refuse_write(error, out);
            reply.end(Ok(()), out);
            Answer::Status(status)
        }
    };
    let Ok(args) = decode_all::<WriteArgs<'_>>(call.arguments) else { return };
    let Some(index) = view.exports().of_handle(args.file.as_bytes()) else { return };
    let bytes = if answer == Answer::OK { args.count.into() } else { 0 };
    let (export, _) = view.at(index);
    if answer != Answer::OK {
        export.log_poison();
    }
    Timing { view, procedure: Procedure::Write, since: received_at }.count(&export.stats, answer, bytes, None);
}

/// Serves one parsed call; see [`serve`].
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

/// Who the call says it is from; none if it does not say. RFC 5531 8.2 and appendix A.
fn identity<'a>(credential: &OpaqueAuth<'a>) -> Result<Option<AuthSys<'a>>, AuthStat> {
    match credential.flavor {
        AUTH_NONE => Ok(None),
        AUTH_SYS => decode_all(credential.body.0).map(Some).map_err(|_| AuthStat::BadCred),
        _ => Err(AuthStat::BadCred),
    }
}

fn serve_program(filer: &Filer, view: &View, identity: Option<&AuthSys<'_>>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let CallHeader { xid, program, version, procedure, .. } = call.header;
    let other = if program == nfs3::PROGRAM { None } else { handlers::program(program) };
    let (is_served, served_version) = match other {
        Some(other) => ((other.is_served)(view), other.version),
        None => (program == nfs3::PROGRAM && view.peer.role == ListenerRole::Nfs, nfs3::VERSION),
    };
    if !is_served {
        refuse(xid, ReplyStatus::ProgramUnavailable, out);
        return Served::Answered;
    }
    if version != served_version {
        refuse(xid, ReplyStatus::ProgramMismatch { low: served_version, high: served_version }, out);
        return Served::Answered;
    }
    let Some(other) = other else { return serve_nfs(filer, view, identity, call, out) };
    let reply = Reply::begin(xid, out);
    let done = (other.serve)(&ProgramCall { filer, view, procedure, arguments: call.arguments }, out);
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
    // The arguments of all others begin with the handle of what they are about.
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
        // Affected once, however long the call then takes.
        let context = handlers::Context { may_wait: true, later: None, ..context };
        return faults::around(set, procedure, out, |out| carry_out(&context, &timing, call, out));
    }
    carry_out(&context, &timing, call, out)
}

/// Carries a call out, or repeats its reply.
fn carry_out(context: &handlers::Context<'_>, timing: &Timing<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let handlers::Context { filer, view, export, .. } = *context;
    let procedure = timing.procedure;
    let xid = call.header.xid;
    let stats = if context.verdict == Err(NfsStatus::BadHandle) { &filer.stats } else { &export.stats };
    let submitted = export.medium().map(|_| Instant::now());
    let mut claim = None;
    // What is refused is not carried out, so it takes no place among the stored replies.
    if !procedure.is_idempotent() && context.verdict.is_ok() {
        match filer.replies.claim(CallKey::new(view.peer.address, xid, call.record)) {
            Claim::First(running) => claim = Some(running),
            Claim::Repeat(reply) => {
                out.extend_from_slice(&reply);
                timing.count(stats, Answer::OK, 0, None);
                return Served::Answered;
            }
            Claim::Drop => return Served::Answered,
        }
    }
    let reply = Reply::begin(xid, out);
    let done = handlers::serve(context, procedure, call.arguments, out);
    if done.as_ref().is_ok_and(|done| done.cold) {
        out.truncate(reply.mark);
        stats.count_cold_read();
        return Served::Cold;
    }
    let (answer, again, bytes) =
        done.as_ref().map_or((Answer::Refused, false, 0), |done| (Answer::Status(done.status), done.retry_later, done.bytes));
    if answer != Answer::OK {
        export.log_poison();
    }
    let operation = done.as_ref().ok().and_then(|done| medium_operation(procedure, done));
    let mark = reply.mark;
    let understood = done.is_ok();
    reply.end(done.map(|_| ()), out);
    // "Try again later" was carried out not at all, so the next try has to be.
    if let (Some(running), true, false, Some(record)) = (claim, understood, again, out.get(mark..)) {
        running.done(record);
    }
    let due = submitted.zip(operation).and_then(|(at, operation)| export.due(at, operation).filter(|due| *due > at));
    // What is left to be settled is not answered yet: see `settled`.
    if call.later.is_none_or(|later| later.borrow().is_none()) {
        timing.count(stats, answer, bytes, due);
    }
    due.map_or(Served::Answered, Served::Due)
}

/// A call being timed.
struct Timing<'a> {
    view: &'a View,
    procedure: Procedure,
    since: Instant,
}

impl Timing<'_> {
    /// Counts the call as answered, by what it is about and by client. On a modelled medium it takes as long as that says,
    /// unless the host was slower.
    fn count(&self, stats: &Stats, answer: Answer, bytes: u64, due: Option<Instant>) {
        let took = self.since.elapsed().max(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(self.since)));
        stats.count(self.procedure, answer, bytes, took);
        self.view.client.count(bytes, took);
    }
}

/// The export a call is about, as whom it is carried out there, and whether it may be at all. An error where the connection
/// is too weak for the export.
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

/// What an answered call asked of the medium.
fn medium_operation(procedure: Procedure, done: &handlers::Done) -> Option<Operation> {
    let changed = done.ok && !procedure.is_idempotent();
    done.operation.or_else(|| changed.then_some(Operation { kind: Kind::Metadata, file: 0, offset: 0, bytes: 0 }))
}

/// A reply under way: its mark and header are written, its results follow.
struct Reply {
    xid: Xid,
    mark: usize, // where the record mark stands in the buffer
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

    /// Closes the record, or replaces it by a refusal.
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
