//! The procedures: each decodes its arguments and appends its results to the reply.
//!
//! The match in [`serve`] lists the 22 procedures of NFS version 3. Each other program, and each other version of one, is a file or folder
//! that defines a [`Program`], and a line in [`PROGRAMS`]. A new procedure of such a program is a new case in its file.
#![expect(
    clippy::result_large_err,
    reason = "a refusal carries attributes as RFC 1813 wants; boxing them would cost an allocation"
)]

mod attributes;
mod channel;
mod create;
mod crossing;
mod data;
mod directory;
mod file_system;
mod mount;
mod names;
mod nlm;
mod portmap;

use nfs_proto::nfs3::{self, Failure, FileHandle, NfsStatus, Outcome, PostOpAttr, Procedure, WccData};
use nfs_proto::rpc::{CallHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Encode, decode_all, encode_to};
use volume::medium::{Kind, Operation};
use volume::{Attr, Error, Node, Subject, Wcc};

use crate::listener::ListenerRole;
use crate::nfs::call::{Call, Later, Served};
use crate::nfs::convert;
use crate::nfs::export::Export;
use crate::nfs::exports::View;
use crate::nfs::filer::Filer;
use crate::operations::Operator;
use crate::operations::access::Caller;

/// A version of an RPC program.
pub(crate) struct Program {
    pub(crate) number: u32,
    pub(crate) version: u32,
    /// Whether it is served on this connection. If no version is, the reply is PROG_UNAVAIL.
    pub(crate) is_served: fn(&View) -> bool,
    /// Its calls may wait for those of other connections, so the coalesced replies are sent before each.
    pub(crate) waits_for_others: bool,
    pub(crate) serve: Serve,
}

/// How the calls of a program are served.
pub(crate) enum Serve {
    /// By dispatch, which counts each call, executes it once and delays its reply.
    Nfs3,
    /// By a function that appends the results of one call. After an error its caller discards what was appended.
    Results(fn(&ProgramCall<'_>, &mut Vec<u8>) -> Result<Served, ReplyStatus>),
}

/// A call of a program other than NFS version 3.
#[derive(Clone, Copy)]
pub(crate) struct ProgramCall<'a> {
    pub(crate) filer: &'a Filer,
    /// The client of the call, and its rights.
    pub(crate) view: &'a View,
    pub(crate) procedure: u32,
    pub(crate) arguments: &'a [u8],
}

const NFS3: Program = Program {
    number: nfs3::PROGRAM,
    version: nfs3::VERSION,
    is_served: |view| view.peer.role == ListenerRole::Nfs,
    waits_for_others: false,
    serve: Serve::Nfs3,
};

/// The programs, NFS version 3 first.
const PROGRAMS: &[Program] = &[NFS3, mount::PROGRAM, portmap::PROGRAM, nlm::PROGRAM, channel::PROGRAM];

/// The program of a call.
///
/// # Errors
/// The status of the reply, if the connection does not serve this program or this version of it.
pub(crate) fn program(header: &CallHeader<'_>, view: &View) -> Result<&'static Program, ReplyStatus> {
    let served = || PROGRAMS.iter().filter(|program| program.number == header.program && (program.is_served)(view));
    if let Some(program) = served().find(|program| program.version == header.version) {
        return Ok(program);
    }
    let versions = || served().map(|program| program.version);
    let range = versions().min().zip(versions().max());
    Err(range.map_or(ReplyStatus::ProgramUnavailable, |(low, high)| ReplyStatus::ProgramMismatch { low, high }))
}

/// Whether a call may wait for calls of other connections.
pub(crate) fn waits_for_others(call: &Call<'_>) -> bool {
    let CallHeader { program: number, version, .. } = call.header;
    PROGRAMS.iter().any(|program| (program.number, program.version) == (number, version) && program.waits_for_others)
}

/// What an NFS call needs besides its arguments.
pub(crate) struct Context<'a> {
    pub(crate) filer: &'a Filer,
    pub(crate) view: &'a View,
    /// Index of the export in the table.
    pub(crate) index: usize,
    /// The export whose volume made the handle of the call.
    pub(crate) export: &'a Export,
    pub(crate) caller: Caller,
    /// Whether the call may take long. If not, a READ that would wait for the store and a listing of a large directory are not executed.
    pub(crate) may_wait: bool,
    /// Where a stable WRITE may leave its flush to the caller.
    pub(crate) later: Option<&'a Later>,
    /// Whether the rules of the export allow the call. If not, the status of its reply.
    pub(crate) verdict: Result<(), NfsStatus>,
    pub(crate) read_only: bool,
}

/// How an answered call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// The status was NFS3_OK.
    pub(crate) ok: bool,
    /// The status.
    pub(crate) status: NfsStatus,
    /// The status was NFS3ERR_JUKEBOX, "try again later": nothing was done.
    pub(crate) retry_later: bool,
    /// Nothing was done or appended, because the call would take long and may not.
    pub(crate) cold: bool,
    /// Payload of READ and WRITE, in bytes.
    pub(crate) bytes: u64,
    /// What READ, WRITE and COMMIT require of the modelled medium. `None` without a modelled medium.
    pub(crate) operation: Option<Operation>,
}

impl Done {
    pub(crate) const OK: Self =
        Self { ok: true, status: NfsStatus::Ok, retry_later: false, cold: false, bytes: 0, operation: None };

    /// See [`Self::cold`].
    pub(crate) const COLD: Self = Self { ok: false, status: NfsStatus::JukeBox, retry_later: true, cold: true, ..Self::OK };

    pub(crate) fn of(status: NfsStatus) -> Self {
        Self { ok: status == NfsStatus::Ok, status, retry_later: status == NfsStatus::JukeBox, ..Self::OK }
    }
}

/// Executes a call and appends its results to `out`.
///
/// # Errors
/// The RPC status of the reply, if the arguments could not be decoded. The caller then discards what was appended.
pub(crate) fn serve(
    context: &Context<'_>,
    procedure: Procedure,
    arguments: &[u8],
    out: &mut Vec<u8>,
) -> Result<Done, ReplyStatus> {
    match procedure {
        Procedure::Null => Ok(Done::OK),
        Procedure::GetAttr => answer(arguments, out, |args| attributes::get_attr(context, &args)),
        Procedure::SetAttr => answer(arguments, out, |args| attributes::set_attr(context, &args)),
        Procedure::Access => answer(arguments, out, |args| attributes::access(context, &args)),
        Procedure::Lookup => answer(arguments, out, |args| names::lookup(context, &args)),
        Procedure::ReadLink => names::read_link(context, arguments, out),
        Procedure::Remove => answer(arguments, out, |args| names::remove(context, &args, false)),
        Procedure::RmDir => answer(arguments, out, |args| names::remove(context, &args, true)),
        Procedure::Rename => answer(arguments, out, |args| names::rename(context, &args)),
        Procedure::Link => answer(arguments, out, |args| names::link(context, &args)),
        Procedure::Read => data::read(context, arguments, out),
        Procedure::Write => data::write(context, arguments, out),
        Procedure::Commit => data::commit_call(context, arguments, out),
        Procedure::Create => answer(arguments, out, |args| create::create(context, &args)),
        Procedure::MkDir => answer(arguments, out, |args| create::mkdir(context, &args)),
        Procedure::SymLink => answer(arguments, out, |args| create::symlink(context, &args)),
        Procedure::MkNod => answer(arguments, out, |args| create::mknod(context, &args)),
        Procedure::ReadDir => directory::read_dir(context, arguments, out),
        Procedure::ReadDirPlus => directory::read_dir_plus(context, arguments, out),
        Procedure::FsStat => answer(arguments, out, |args| file_system::fs_stat(context, &args)),
        Procedure::FsInfo => answer(arguments, out, |args| file_system::fs_info(context, &args)),
        Procedure::PathConf => answer(arguments, out, |args| file_system::path_conf(context, &args)),
    }
}

/// Appends the results of a WRITE on this volume whose flush failed.
pub(crate) fn refuse_write(error: &Error, volume: &str, out: &mut Vec<u8>) -> NfsStatus {
    fail(convert::status(error, volume), &WccData::default(), out).status
}

/// Decodes the arguments, which must end where the call ends.
pub(crate) fn arguments<'a, A: Decode<'a>>(bytes: &'a [u8]) -> Result<A, ReplyStatus> {
    decode_all(bytes).map_err(|_| ReplyStatus::GarbageArguments)
}

/// Decodes the arguments, runs the procedure, and appends its result.
fn answer<'a, A: Decode<'a>, O: Encode, F: Encode>(
    bytes: &'a [u8],
    out: &mut Vec<u8>,
    procedure: impl FnOnce(A) -> Outcome<O, F>,
) -> Result<Done, ReplyStatus> {
    let outcome = procedure(arguments(bytes)?);
    encode_to(&outcome, out);
    Ok(Done::of(outcome.as_ref().err().map_or(NfsStatus::Ok, |failure| failure.status)))
}

/// Appends an error result.
fn fail<F: Encode>(status: NfsStatus, body: &F, out: &mut Vec<u8>) -> Done {
    encode_to(&status, out);
    encode_to(body, out);
    Done::of(status)
}

/// An error result with its attributes.
fn refused<O, F>(status: NfsStatus, body: F) -> Outcome<O, F> {
    Err(Failure { status, body })
}

impl Context<'_> {
    /// The status for an error of the volume.
    fn status(&self, error: &Error) -> NfsStatus {
        convert::status(error, self.export.name())
    }

    /// The object of a handle, for a caller that this filer can serve.
    fn node(&self, handle: &FileHandle) -> Result<Node, NfsStatus> {
        self.admitted()?;
        self.any_node(handle)
    }

    /// The object of the second handle of a call, which must be in the same export.
    fn second_node(&self, handle: &FileHandle) -> Result<Node, NfsStatus> {
        match self.view.exports().of_handle(handle.as_bytes()) {
            Some(index) if index != self.index => Err(NfsStatus::XDev),
            _ => self.node(handle),
        }
    }

    /// The object of a handle, for any caller that the rules allow. Its attributes are not secret (RFC 1813 3.3.1, 3.3.18 to 3.3.20),
    /// and the kernel of a client asks for them as root when it mounts.
    fn any_node(&self, handle: &FileHandle) -> Result<Node, NfsStatus> {
        self.verdict?;
        self.export.volume.resolve(handle.as_bytes()).map_err(|error| self.status(&error))
    }

    /// An unprivileged filer acts as its own user. It can neither create files for other users nor check their access correctly.
    fn admitted(&self) -> Result<(), NfsStatus> {
        match self.filer.only {
            Some((own, _)) if self.caller.uid != own => {
                self.filer.refused(self.caller.uid, own);
                Err(NfsStatus::Acces)
            }
            _ => Ok(()),
        }
    }

    /// Acts on the export's volume for the caller.
    fn operator(&self) -> Operator<'_> {
        Operator { volume: &self.export.volume, caller: &self.caller, own_group: self.filer.only.map(|(_, gid)| gid) }
    }

    fn attr(&self, node: &Node) -> Result<Attr, NfsStatus> {
        self.export.volume.attr(node).map_err(|error| self.status(&error))
    }

    /// An object with its attributes and its ACL, for access checks.
    fn subject<'s>(&'s self, node: &'s Node) -> Result<Subject<'s>, NfsStatus> {
        Ok(self.export.volume.subject(node, self.attr(node)?))
    }

    /// Attributes after the operation, if they are available.
    fn post(&self, node: &Node) -> PostOpAttr {
        self.export.volume.attr(node).ok().map(|attr| convert::fattr(&attr))
    }

    /// As `wcc_data`, without attributes from before the change, because these were not read under its lock.
    fn wcc(&self, node: &Node) -> WccData {
        WccData { before: None, after: self.post(node) }
    }

    /// The attributes before and after a change, if the volume has read them. Otherwise the current ones.
    fn wcc_around(&self, node: &Node, around: Option<Wcc>) -> WccData {
        around.map_or_else(|| self.wcc(node), |around| convert::wcc_data(&around))
    }

    /// The attributes after a write. A stable write leaves them out while they would cost a system call and clients do not request
    /// them.
    fn wcc_after_write(&self, node: &Node, stable: bool) -> WccData {
        if !stable {
            return self.wcc(node);
        }
        let after = self.export.volume.attr_after_stable_write(node);
        WccData { before: None, after: after.map(|attr| convert::fattr(&attr)) }
    }

    /// What a call on a file requires of the modelled medium, if there is one.
    fn operation(&self, kind: Kind, file: &FileHandle, offset: u64, bytes: u64) -> Option<Operation> {
        self.export.medium()?;
        let node = self.export.volume.resolve(file.as_bytes()).ok()?;
        Some(Operation { kind, file: node.fileid(), offset, bytes })
    }

    fn handle(&self, node: &Node) -> Option<FileHandle> {
        convert::handle(&self.export.volume.handle(node))
    }
}
