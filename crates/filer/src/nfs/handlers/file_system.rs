//! FSSTAT, FSINFO, PATHCONF (RFC 1813 3.3.18 to 3.3.20).

use nfs_proto::nfs3::{
    FSF_CANSETTIME, FSF_HOMOGENEOUS, FSF_LINK, FSF_SYMLINK, FsInfoOk, FsInfoResult, FsStatOk, FsStatResult, NfsTime, ObjectArgs,
    PathConfOk, PathConfResult,
};

use super::{Context, refused};
use crate::limits::{FILE_BYTES_MAX, LISTING_BYTES_PREFERRED, TRANSFER_MAX, WRITE_BYTES_PREFERRED};

/// READ and WRITE sizes should be multiples of a page.
const TRANSFER_MULTIPLE: u32 = 4096;

pub(super) fn fs_stat(context: &Context<'_>, args: &ObjectArgs) -> FsStatResult {
    let node = match context.any_node(&args.object) {
        Ok(node) => node,
        Err(status) => return refused(status, None),
    };
    let attributes = context.post(&node);
    match context.export.volume.fs_stat() {
        Ok(room) => Ok(FsStatOk {
            attributes,
            total_bytes: room.total_bytes,
            free_bytes: room.free_bytes,
            available_bytes: room.available_bytes,
            total_files: room.total_files,
            free_files: room.free_files,
            available_files: room.available_files,
            invariant_seconds: 0,
        }),
        Err(error) => refused(context.status(&error), attributes),
    }
}

pub(super) fn fs_info(context: &Context<'_>, args: &ObjectArgs) -> FsInfoResult {
    let node = match context.any_node(&args.object) {
        Ok(node) => node,
        Err(status) => return refused(status, None),
    };
    Ok(FsInfoOk {
        attributes: context.post(&node),
        read_max: TRANSFER_MAX,
        read_preferred: TRANSFER_MAX,
        read_multiple: TRANSFER_MULTIPLE,
        write_max: TRANSFER_MAX,
        write_preferred: WRITE_BYTES_PREFERRED,
        write_multiple: TRANSFER_MULTIPLE,
        dir_preferred: LISTING_BYTES_PREFERRED,
        file_size_max: FILE_BYTES_MAX,
        time_delta: NfsTime { seconds: 0, nseconds: 1 },
        properties: FSF_LINK | FSF_SYMLINK | FSF_HOMOGENEOUS | FSF_CANSETTIME,
    })
}

pub(super) fn path_conf(context: &Context<'_>, args: &ObjectArgs) -> PathConfResult {
    let node = match context.any_node(&args.object) {
        Ok(node) => node,
        Err(status) => return refused(status, None),
    };
    let attributes = context.post(&node);
    match context.export.volume.fs_stat() {
        Ok(room) => Ok(PathConfOk {
            attributes,
            link_max: room.links_max,
            name_max: room.name_bytes_max,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Err(error) => refused(context.status(&error), attributes),
    }
}
