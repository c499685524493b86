//! From the bytes of one call to the bytes of its reply.

use std::time::{Duration, Instant};

use nfs_proto::nfs3::{self, NfsStatus, Procedure, ReadArgs, StableHow, WriteArgs};
use nfs_proto::record;
use nfs_proto::rpc::{
    AUTH_NONE, AUTH_SYS, AUTH_TLS, AuthStat, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid,
};
use nfs_proto::xdr::{Decode, Reader, Writer, decode_all, encode_to};
use nfs_proto::{mount3, portmap2};
use volume::medium::{Kind, Operation};

use crate::limits::TRANSFER_MAX;
use crate::listener::ListenerRole;
use crate::nfs::access::Caller;
use crate::nfs::export::Export;
use crate::nfs::exports::View;
use crate::nfs::faults;
use crate::nfs::filer::Filer;
use crate::nfs::handlers;
use crate::nfs::policy::{Refusal, Rights};
use crate::nfs::reply_cache::{CallKey, Turn};
use crate::nfs::stats::{Answer, Stats};

/// What the driver has to do after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Served {
    /// A reply record was appended, or none is due.
    Answered,
    /// A reply record was appended that must not leave before this time: the modelled medium is not done.
    Due(Instant),
    /// Nothing was done nor appended: a READ that would have to wait for the store, of a call that may not. To be served
    /// again [`Call::waiting`].
    Cold,
    /// A fault wants the connection reset; nothing was appended.
    Reset,
    /// The bytes were no call: close the connection.
    Close,
}

/// Where a stable write leaves what is still to be [settled](volume::settle) before its reply may leave.
pub type Later = std::cell::RefCell<Option<volume::Unsettled>>;

/// A call whose header was read.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    header: CallHeader<'a>,
    arguments: &'a [u8],
    record: &'a [u8],
    may_wait: bool,
    later: Option<&'a Later>,
    came: Option<Instant>,
}

impl<'a> Call<'a> {
    /// Reads the header of a call record; none if it is no call.
    #[must_use]
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        let mut input = Reader::new(record);
        let header = CallHeader::decode(&mut input).ok()?;
        Some(Self { header, arguments: input.rest(), record, may_wait: true, later: None, came: None })
    }

    /// Header and arguments of a call of this program that may be carried out; none of others.
    #[must_use]
    pub fn of_program(&self, program: u32) -> Option<(&CallHeader<'a>, &'a [u8])> {
        let is_it = self.header.program == program && self.header.rpc_version == RPC_VERSION;
        is_it.then_some((&self.header, self.arguments))
    }

    /// The whole record.
    #[must_use]
    pub const fn record(&self) -> &'a [u8] {
        self.record
    }

    /// The same call, of which a READ is left undone when it would have to wait for the store: see [`Served::Cold`].
    #[must_use]
    pub const fn without_waiting(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// The same call, to be done however long it takes.
    #[must_use]
    pub const fn waiting(mut self) -> Self {
        self.may_wait = true;
        self
    }

    /// The same call, of which a stable WRITE is answered before its flush: the reply must not leave before what is in `later`
    /// is settled.
    #[must_use]
    pub const fn settled_later(mut self, later: &'a Later) -> Self {
        self.later = Some(later);
        self
    }

    /// Of a stable WRITE, a number that stands for its file, if writes of that file gain from sharing a flush.
    #[must_use]
    pub fn shares_flush(&self, view: &View) -> Option<u64> {
        if self.header.program != nfs3::PROGRAM || self.header.procedure != Procedure::Write.number() {
            return None;
        }
        let args = decode_all::<WriteArgs<'_>>(self.arguments).ok().filter(|args| args.stable != StableHow::Unstable)?;
        let (export, _) = view.at(view.exports().of_handle(args.file.as_bytes())?);
        // Two files of one number share a worker, no more.
        (goes_in_batches(export) && export.volume.shares_flushes()).then(|| {
            let mut hash = std::hash::DefaultHasher::new();
            std::hash::Hasher::write(&mut hash, args.file.as_bytes());
            std::hash::Hasher::finish(&hash)
        })
    }

    /// The same call, of which this is when it came: its latency counts from there, otherwise from when it is served.
    #[must_use]
    pub const fn since(mut self, came: Instant) -> Self {
        self.came = Some(came);
        self
    }

    /// Whether the call is slow on other volumes and over soon here, where nothing is flushed: sooner than another thread is
    /// awake to do it.
    #[must_use]
    pub fn is_brief(&self, view: &View) -> bool {
        let handle = Reader::new(self.arguments).opaque(nfs_proto::limits::HANDLE_BYTES_MAX);
        let Some(index) = handle.ok().and_then(|handle| view.exports().of_handle(handle)) else { return false };
        let (export, _) = view.at(index);
        goes_in_batches(export) && export.volume.options().durability == volume::Durability::Battery && self.is_slow()
    }

    /// Most bytes its reply can have, headers not counted: what a READ asks for, next to nothing for others that are handed
    /// to a worker.
    #[must_use]
    pub fn reply_bytes_max(&self) -> usize {
        match Procedure::from_number(self.header.procedure) {
            Some(Procedure::Read) if self.header.program == nfs3::PROGRAM => {
                decode_all::<ReadArgs>(self.arguments).map_or(0, |args| args.count.min(TRANSFER_MAX) as usize)
            }
            _ => 0,
        }
    }

    /// Pairs the reply with the call.
    #[must_use]
    pub const fn xid(&self) -> Xid {
        self.header.xid
    }

    /// Whether the call does nothing: procedure 0 of any program.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.header.procedure == 0
    }

    /// Whether the call is the question for TLS (RFC 9289 4.1).
    #[must_use]
    pub fn asks_for_tls(&self) -> bool {
        let CallHeader { rpc_version, program, credential, verifier, .. } = self.header;
        self.is_null()
            && credential.flavor == AUTH_TLS
            && credential.body.0.is_empty()
            && verifier == OpaqueAuth::NONE
            && rpc_version == RPC_VERSION
            && matches!(program, nfs3::PROGRAM | mount3::PROGRAM | portmap2::PROGRAM)
    }

    /// Whether the call will wait for the medium: stable writes, commits and changes of names and attributes.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        if self.header.program != nfs3::PROGRAM {
            return false;
        }
        match Procedure::from_number(self.header.procedure) {
            Some(Procedure::Write) => {
                decode_all::<WriteArgs<'_>>(self.arguments).is_ok_and(|args| args.stable != StableHow::Unstable)
            }
            Some(procedure) => procedure == Procedure::Commit || is_repeatable_only_once(procedure),
            None => false,
        }
    }
}

/// Whether several calls of an export may be carried out and answered together: a modelled medium holds each reply for its own
/// time, and faults strike a call and its answer, not those of a whole batch.
fn goes_in_batches(export: &Export) -> bool {
    export.medium().is_none() && !export.volume.faults().any(faults::WIRE)
}

/// Calls that give another answer when they are carried out twice (RFC 1813 4.4): their replies are stored.
const fn is_repeatable_only_once(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::SetAttr
            | Procedure::Create
            | Procedure::MkDir
            | Procedure::SymLink
            | Procedure::MkNod
            | Procedure::Remove
            | Procedure::RmDir
            | Procedure::Rename
            | Procedure::Link
    )
}

/// Serves one call record: appends its reply record, mark included, to `out`.
pub fn serve(filer: &Filer, view: &View, record: &[u8], out: &mut Vec<u8>) -> Served {
    let Some(call) = Call::parse(record) else { return Served::Close };
    serve_call(filer, view, &call, out)
}

/// The same of a call that came at this time and had to wait until now.
pub(crate) fn serve_since(came: Instant, filer: &Filer, view: &View, record: &[u8], out: &mut Vec<u8>) -> Served {
    let Some(call) = Call::parse(record) else { return Served::Close };
    serve_call(filer, view, &call.since(came), out)
}

/// Counts a WRITE that was left to be [settled later](Call::settled_later) and is now. Of one whose flush failed the reply is
/// appended that takes the place of the one it had.
pub(crate) fn settled(view: &View, call: &Call<'_>, came: Instant, result: &Result<(), volume::Error>, out: &mut Vec<u8>) {
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
        export.tell_poison();
    }
    Watch { view, procedure: Procedure::Write, came }.count(&export.stats, answer, bytes, None);
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
    let served_version = match program {
        nfs3::PROGRAM if view.peer.role == ListenerRole::Nfs => nfs3::VERSION,
        mount3::PROGRAM if view.peer.role == ListenerRole::Nfs => mount3::VERSION,
        portmap2::PROGRAM => portmap2::VERSION,
        _ => {
            refuse(xid, ReplyStatus::ProgramUnavailable, out);
            return Served::Answered;
        }
    };
    if version != served_version {
        refuse(xid, ReplyStatus::ProgramMismatch { low: served_version, high: served_version }, out);
        return Served::Answered;
    }
    match program {
        nfs3::PROGRAM => return serve_nfs(filer, view, identity, call, out),
        mount3::PROGRAM => {
            let came = Instant::now();
            let reply = Reply::begin(xid, out);
            let done = handlers::mount::serve(filer, view, procedure, call.arguments, out);
            let status = done.ok().and_then(|status| NfsStatus::from_number(status.number()));
            let took = came.elapsed();
            filer.stats.count_mount(status.map_or(Answer::Refused, Answer::Status), took);
            view.client.count(0, took);
            reply.end(done.map(|_| ()), out);
        }
        _ => {
            let reply = Reply::begin(xid, out);
            let done = handlers::portmap::serve(filer, procedure, call.arguments, out);
            reply.end(done, out);
        }
    }
    Served::Answered
}

fn serve_nfs(filer: &Filer, view: &View, identity: Option<&AuthSys<'_>>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let xid = call.header.xid;
    let Some(procedure) = Procedure::from_number(call.header.procedure) else {
        refuse(xid, ReplyStatus::ProcedureUnavailable, out);
        return Served::Answered;
    };
    let watch = Watch { view, procedure, came: call.came.unwrap_or_else(Instant::now) };
    if procedure == Procedure::Null {
        Reply::begin(xid, out).end(Ok(()), out);
        watch.count(&filer.stats, Answer::OK, 0, None);
        return Served::Answered;
    }
    // The arguments of all others begin with the handle of what they are about.
    let Ok(handle) = Reader::new(call.arguments).opaque(nfs_proto::limits::HANDLE_BYTES_MAX) else {
        refuse(xid, ReplyStatus::GarbageArguments, out);
        watch.count(&filer.stats, Answer::Refused, 0, None);
        return Served::Answered;
    };
    let context = match context(filer, view, identity, procedure, handle) {
        Ok(context) => handlers::Context { may_wait: call.may_wait, later: call.later, ..context },
        Err(stat) => {
            refuse(xid, ReplyStatus::AuthError(stat), out);
            watch.count(&filer.stats, Answer::Refused, 0, None);
            return Served::Answered;
        }
    };
    let set = context.export.volume.faults();
    if set.any(faults::WIRE) && context.verdict.is_ok() {
        // Struck once, however long the call then takes.
        let context = handlers::Context { may_wait: true, later: None, ..context };
        return faults::around(set, procedure, out, |out| carry_out(&context, &watch, call, out));
    }
    carry_out(&context, &watch, call, out)
}

/// Carries a call out, or repeats its reply.
fn carry_out(context: &handlers::Context<'_>, watch: &Watch<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> Served {
    let handlers::Context { filer, view, export, .. } = *context;
    let procedure = watch.procedure;
    let xid = call.header.xid;
    let stats = if context.verdict == Err(NfsStatus::BadHandle) { &filer.stats } else { &export.stats };
    let submitted = export.medium().map(|_| Instant::now());
    let mut claim = None;
    // What is refused is not carried out, so it takes no place among the stored replies.
    if is_repeatable_only_once(procedure) && context.verdict.is_ok() {
        match filer.replies.claim(CallKey::new(view.peer.address, xid, call.record)) {
            Turn::First(running) => claim = Some(running),
            Turn::Repeat(reply) => {
                out.extend_from_slice(&reply);
                watch.count(stats, Answer::OK, 0, None);
                return Served::Answered;
            }
            Turn::Drop => return Served::Answered,
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
        done.as_ref().map_or((Answer::Refused, false, 0), |done| (Answer::Status(done.status), done.again, done.bytes));
    if answer != Answer::OK {
        export.tell_poison();
    }
    let touched = done.as_ref().ok().and_then(|done| touched(procedure, done));
    let mark = reply.mark;
    let understood = done.is_ok();
    reply.end(done.map(|_| ()), out);
    // "Try again later" was carried out not at all, so the next try has to be.
    if let (Some(running), true, false, Some(record)) = (claim, understood, again, out.get(mark..)) {
        running.done(record);
    }
    let due = submitted.zip(touched).and_then(|(at, operation)| export.due(at, operation).filter(|due| *due > at));
    // What is left to be settled is not answered yet: see `settled`.
    if call.later.is_none_or(|later| later.borrow().is_none()) {
        watch.count(stats, answer, bytes, due);
    }
    due.map_or(Served::Answered, Served::Due)
}

/// A call being timed.
struct Watch<'a> {
    view: &'a View,
    procedure: Procedure,
    came: Instant,
}

impl Watch<'_> {
    /// Counts the call as answered, by what it is about and by client. On a modelled medium it takes as long as that says,
    /// unless the host was slower.
    fn count(&self, stats: &Stats, answer: Answer, bytes: u64, due: Option<Instant>) {
        let took = self.came.elapsed().max(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(self.came)));
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
    is_repeatable_only_once(procedure) || matches!(procedure, Procedure::Write | Procedure::Commit)
}

/// What an answered call asked of the medium.
fn touched(procedure: Procedure, done: &handlers::Done) -> Option<Operation> {
    let changed = done.ok && is_repeatable_only_once(procedure);
    done.touched.or_else(|| changed.then_some(Operation { kind: Kind::Metadata, file: 0, offset: 0, bytes: 0 }))
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
                record::seal(out, self.mark, bytes);
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
