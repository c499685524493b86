//! What is called: an RPC program, what the engine has to know of its procedures, and the prepared header of its calls.

use crate::credentials::Credentials;
use crate::file::FileHandle;
use nfs_proto::rpc::RPC_VERSION;
use nfs_proto::xdr::{Encode, Writer};

/// Offsets of xid, program and procedure in a prepared header, after the record mark (RFC 5531 9).
const XID_AT: usize = 4;
const PROGRAM_AT: usize = 16;
const PROCEDURE_AT: usize = 24;

/// A program: number, version and the name used in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) version: u32,
    /// What the engine has to know of its procedures. `None` for programs whose calls are only sent while mounting: the engine
    /// neither attaches their connections nor sends their calls under other xids.
    pub(crate) procedures: Option<&'static Procedures>,
}

/// The file or directory of a call, and its offset if it has one.
pub(crate) type CallObject = (Option<FileHandle>, Option<u64>);

/// What the engine has to know of the procedures of a program that accesses files.
#[derive(Debug)]
pub(crate) struct Procedures {
    /// Whether this procedure writes data, which a server must not execute after its caller continues.
    pub(crate) is_write: fn(u32) -> bool,
    /// Whether a second execution does no harm, so that the call may be sent under another xid.
    pub(crate) is_idempotent: fn(u32) -> bool,
    /// The object of a call with these arguments.
    pub(crate) object_of: fn(u32, &[u8]) -> CallObject,
}

impl Program {
    /// Whether this procedure writes data.
    pub(crate) fn is_write(&self, procedure: u32) -> bool {
        self.procedures.is_some_and(|procedures| (procedures.is_write)(procedure))
    }
}

/// Record mark, call header, credential and verifier of every call of a program by one caller, in the form in which they are sent.
#[derive(Debug)]
pub(crate) struct CallHeader(Vec<u8>);

impl CallHeader {
    pub(crate) fn new(program: &Program, who: &Credentials) -> Self {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        // Mark, xid, CALL, RPC version, program, version, procedure.
        [0, 0, 0, RPC_VERSION, program.number, program.version, 0].iter().for_each(|word: &u32| word.encode(&mut out));
        who.encode(&mut out);
        Self(bytes)
    }

    /// Appends the header of a call. Its record mark is filled in later.
    pub(crate) fn append(&self, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + XID_AT, xid);
        writer.patch_u32(start + PROCEDURE_AT, procedure);
    }

    /// As [`Self::append`], for another program of the same server.
    pub(crate) fn append_of(&self, program: u32, version: u32, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        self.append(xid, procedure, out);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + PROGRAM_AT, program);
        writer.patch_u32(start + PROGRAM_AT + 4, version);
    }
}
