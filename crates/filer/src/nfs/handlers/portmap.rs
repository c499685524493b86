//! Portmap version 2 (RFC 1833 3), on the port of NFS: NULL, GETPORT and DUMP. Nothing can be registered here.

use nfs_proto::portmap2::{self, IPPROTO_TCP, Mapping, Procedure};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::{Writer, encode_to};
use nfs_proto::{mount3, nfs3, nlm4};

use super::{Program, ProgramCall, Serve, arguments};
use crate::nfs::call::Served;

pub(super) const PROGRAM: Program = Program {
    number: portmap2::PROGRAM,
    version: portmap2::VERSION,
    is_served: |_| true,
    waits_for_others: false,
    serve: Serve::Results(serve),
};

/// Serves one call.
fn serve(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<Served, ReplyStatus> {
    let port = u32::from(call.filer.port);
    let mappings = [
        (portmap2::PROGRAM, portmap2::VERSION),
        (nfs3::PROGRAM, nfs3::VERSION),
        (mount3::PROGRAM, mount3::VERSION),
        (nlm4::PROGRAM, nlm4::VERSION),
    ]
    .map(|(program, version)| Mapping { program, version, protocol: IPPROTO_TCP, port });
    match Procedure::from_number(call.procedure).ok_or(ReplyStatus::ProcedureUnavailable)? {
        Procedure::Null => {}
        Procedure::GetPort => {
            let wanted: Mapping = arguments(call.arguments)?;
            let known = mappings.iter().any(|mapping| Mapping { port: wanted.port, ..*mapping } == wanted);
            encode_to(&if known { port } else { 0u32 }, out);
        }
        Procedure::Dump => portmap2::encode_mappings(&mappings, &mut Writer::new(out)),
        Procedure::Set | Procedure::Unset | Procedure::CallIt => return Err(ReplyStatus::ProcedureUnavailable),
    }
    Ok(Served::Answered)
}
