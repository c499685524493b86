//! What the RPC engine has to know of a procedure.

use nfs_proto::nfs3::{self, Procedure};
use nfs_proto::xdr::{Decode, Reader};
use std::fmt::Write as _;

use super::types::handle_of;
use crate::rpc::program::{CallObject, Procedures, Program};

/// NFS version 3.
pub(crate) const NFS: Program = Program {
    name: "NFS",
    number: nfs3::PROGRAM,
    version: nfs3::VERSION,
    procedures: Some(&Procedures { is_write, is_idempotent, object_of }),
};
/// The usual port of a server.
pub(crate) const PORT: u16 = nfs3::PORT;

/// Whether this is WRITE, which a server must not execute after its caller continues.
const fn is_write(procedure: u32) -> bool {
    procedure == Procedure::Write.number()
}

/// Whether a second execution of the call does no harm, so that it may be sent under another xid.
fn is_idempotent(procedure: u32) -> bool {
    Procedure::from_number(procedure).is_some_and(Procedure::is_idempotent)
}

/// The file or directory of a call, and its offset if it has one. The arguments of every procedure but NULL begin with a file handle
/// (RFC 1813 3.3).
fn object_of(procedure: u32, arguments: &[u8]) -> CallObject {
    let mut input = Reader::new(arguments);
    let file = nfs3::FileHandle::decode(&mut input).ok();
    let has_offset = matches!(Procedure::from_number(procedure), Some(Procedure::Read | Procedure::Write | Procedure::Commit));
    (file.as_ref().map(handle_of), if has_offset { u64::decode(&mut input).ok() } else { None })
}

/// The name of a procedure, as in RFC 1813. Displays without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcedureName(u32);

impl ProcedureName {
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }

    /// Whether NFSv3 has the procedure.
    pub(crate) fn is_known(self) -> bool {
        Procedure::from_number(self.0).is_some()
    }
}

impl std::fmt::Display for ProcedureName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// Writes text in capitals.
        struct Capitals<'a, 'f>(&'a mut std::fmt::Formatter<'f>);

        impl std::fmt::Write for Capitals<'_, '_> {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                text.chars().try_for_each(|letter| self.0.write_char(letter.to_ascii_uppercase()))
            }
        }

        match Procedure::from_number(self.0) {
            Some(procedure) => write!(Capitals(f), "{procedure:?}"),
            None => write!(f, "procedure {}", self.0),
        }
    }
}
