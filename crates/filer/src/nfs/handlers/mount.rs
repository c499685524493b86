//! MOUNT version 3 (RFC 1813 appendix I), on the port of NFS.

use std::time::Instant;

use nfs_proto::mount3::{self, DirPath, Flavors, HostName, MountArgs, MountOk, MountResult, MountStatus, Procedure};
use nfs_proto::nfs3::NfsStatus;
use nfs_proto::rpc::{AUTH_SYS, ReplyStatus};
use nfs_proto::xdr::{Writer, encode_to};
use volume::Kind;

use super::{Program, ProgramCall, Serve, arguments};
use crate::limits::MOUNT_DEPTH_MAX;
use crate::listener::ListenerRole;
use crate::nfs::call::Served;
use crate::nfs::convert;
use crate::nfs::exports::{Entry, View};
use crate::nfs::filer::Mount;
use crate::nfs::policy::Refusal;
use crate::nfs::stats::Answer;

pub(super) const PROGRAM: Program = Program {
    number: mount3::PROGRAM,
    version: mount3::VERSION,
    is_served: |view| view.peer.role == ListenerRole::Nfs,
    waits_for_others: false,
    serve: Serve::Results(serve),
};

/// Serves one call and counts it.
fn serve(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<Served, ReplyStatus> {
    let begin = Instant::now();
    let done = carry_out(call, out);
    let status = done.ok().and_then(|status| NfsStatus::from_number(status.number()));
    let took = begin.elapsed();
    call.filer.stats.count_mount(status.map_or(Answer::Refused, Answer::Status), took);
    call.view.client.count(0, took);
    done.map(|_| Served::Answered)
}

/// Executes one call. Returns the status of its reply.
fn carry_out(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<MountStatus, ReplyStatus> {
    let ProgramCall { filer, view, procedure, arguments: bytes } = *call;
    let client = view.peer.address;
    match Procedure::from_number(procedure).ok_or(ReplyStatus::ProcedureUnavailable)? {
        Procedure::Null => {}
        Procedure::Mnt => {
            let args: MountArgs<'_> = arguments(bytes)?;
            let result = mount(view, args.path.0);
            match &result {
                Ok(_) => filer.mounted(Mount { client, path: args.path.0.to_vec() }),
                Err(status) => view.log_refused_mount(args.path.0, *status),
            }
            encode_to(&result, out);
            return Ok(result.err().unwrap_or(MountStatus::Ok));
        }
        Procedure::Dump => {
            let mounts = filer.mounts();
            let hosts: Vec<String> = mounts.iter().map(|mount| mount.client.to_string()).collect();
            let lines: Vec<_> =
                hosts.iter().zip(mounts.iter()).map(|(host, mount)| (HostName(host.as_bytes()), DirPath(&mount.path))).collect();
            mount3::encode_mounts(&lines, &mut Writer::new(out));
        }
        Procedure::Umnt => {
            let args: MountArgs<'_> = arguments(bytes)?;
            filer.mounts().retain(|mount| mount.client != client || mount.path != args.path.0);
        }
        Procedure::UmntAll => filer.mounts().retain(|mount| mount.client != client),
        Procedure::Export => {
            let exports: Vec<_> = view.exports().entries().iter().filter(|entry| !entry.export.is_inside()).map(listed).collect();
            mount3::encode_exports(&exports, &mut Writer::new(out));
        }
    }
    Ok(MountStatus::Ok)
}

/// An entry of EXPORT: the path, and the clients as the rules name them.
fn listed(entry: &Entry) -> mount3::Export<'_> {
    let groups = entry.policy.written().map(|client| HostName(client.as_bytes())).collect();
    (DirPath(entry.export.path().as_bytes()), groups)
}

/// The handle of an export, or of a directory below it. Symbolic links are not followed, because their targets are paths
/// of the client.
fn mount(view: &View, path: &[u8]) -> MountResult {
    let (index, below) = view.exports().of_path(path).ok_or(MountStatus::NoEnt)?;
    let (export, verdict) = view.at(index);
    verdict.map_err(Refusal::mount_status)?;
    if below.len() > MOUNT_DEPTH_MAX {
        return Err(MountStatus::NameTooLong);
    }
    let volume = &export.volume;
    let mut node = volume.root();
    for name in below {
        if name == b".." {
            return Err(MountStatus::Inval);
        }
        let found = volume.lookup(&node, name).inspect_err(|error| {
            if *error == volume::Error::CrossDevice {
                view.log_crossing(export, name);
            }
        });
        node = found.map_err(|error| mount_status(&error))?.0;
    }
    if node.kind() != Kind::Directory {
        return Err(MountStatus::NotDir);
    }
    let root = convert::handle(&volume.handle(&node)).ok_or(MountStatus::ServerFault)?;
    Ok(MountOk { root, flavors: Flavors::new(&[AUTH_SYS]) })
}

const fn mount_status(error: &volume::Error) -> MountStatus {
    match error {
        volume::Error::NoEntry => MountStatus::NoEnt,
        volume::Error::NotDirectory => MountStatus::NotDir,
        volume::Error::NameTooLong => MountStatus::NameTooLong,
        volume::Error::Access | volume::Error::NotPermitted => MountStatus::Acces,
        // MNT3ERR_ACCES would make the user check the rules of the export.
        volume::Error::CrossDevice => MountStatus::NotSupp,
        volume::Error::Invalid => MountStatus::Inval,
        volume::Error::Io(_) | volume::Error::Poisoned => MountStatus::Io,
        _ => MountStatus::ServerFault,
    }
}
