//! CHANNEL version 2, a private program of Millrace (`nfs_proto::channel1`).

use nfs_proto::channel1::{self, AttachArgs, ChannelResult, ChannelStatus, Procedure};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::encode_to;

use super::{Program, ProgramCall, Serve, arguments};
use crate::nfs::call::Served;
use crate::nfs::exports::View;

pub(super) const PROGRAM: Program = Program {
    number: channel1::PROGRAM,
    version: channel1::VERSION,
    // The filer remembers a limited number of channels, so clients that may use no export get no channel.
    is_served: |view| view.may_use_any_export() && view.attachment().is_some(),
    waits_for_others: true,
    serve: Serve::Results(serve),
};

/// Serves one call. Waits while calls of fenced connections run.
fn serve(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<Served, ReplyStatus> {
    let channels = &call.filer.channels;
    let connection = call.view.attachment().ok_or(ReplyStatus::ProgramUnavailable)?;
    let status = match Procedure::from_number(call.procedure).ok_or(ReplyStatus::ProcedureUnavailable)? {
        Procedure::Null => return Ok(Served::Answered),
        Procedure::Attach => {
            let args: AttachArgs = arguments(call.arguments)?;
            match export(call.view, args.root.as_bytes()) {
                Some(export) => channels.attach(connection, export, &args),
                None => ChannelStatus::Denied,
            }
        }
        Procedure::Fence => channels.fence(connection, &arguments(call.arguments)?),
    };
    encode_to(&ChannelResult { status, instance: channels.instance() }, out);
    Ok(if status == ChannelStatus::Fenced { Served::Last } else { Served::Answered })
}

/// The name of the export that made a handle, if the client may use that export.
fn export<'v>(view: &'v View, handle: &[u8]) -> Option<&'v str> {
    let (export, verdict) = view.at(view.exports().of_handle(handle)?);
    (verdict.is_ok() && export.volume.made(handle)).then(|| export.name())
}
