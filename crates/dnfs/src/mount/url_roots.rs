//! Finds the segment that a URL leads to if there is no note (segment/url_notes.rs): one of the same file system at the same
//! address.

use std::net::SocketAddr;
use std::path::Path;

use super::stored_parts::parts_of;
use crate::client::Client;
use crate::client_state::MountParts;
use crate::error::Error;
use crate::file::FileHandle;
use crate::segment::Segment;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::url_notes::{UrlRoot, fnv_of};

impl UrlRoot {
    /// Where the URL of `mounted` leads: to an existing segment, otherwise to one that must be created, in place of the
    /// `former` one if there was one.
    pub(super) fn of_mounted(runtime_root: &Path, owner: u32, mounted: &Client, former: Option<u64>) -> Self {
        let parts = mounted.parts();
        let url_root = |identity| Self { identity, root: parts.root, host: parts.host };
        let live: Vec<u64> = identities(runtime_root).filter(|identity| segment_at(runtime_root, *identity).is_some()).collect();
        if let Some(found) = live.iter().find(|identity| holds_volume_of(runtime_root, **identity, mounted)) {
            return url_root(*found);
        }
        // The segment of another server may have this name, if that server had this address before.
        let mut identity = former.unwrap_or_else(|| file_system_number(parts.server, parts.fsid, owner));
        while live.contains(&identity) {
            identity = identity.wrapping_add(1);
        }
        url_root(identity)
    }
}

/// Whether the server knows one of these handles.
///
/// # Errors
/// No answer.
pub(super) fn knows_any(client: &Client, roots: &[FileHandle]) -> Result<bool, Error> {
    for root in roots {
        if client.serves(root)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A number for a file system of a server, given its number there, and the owner of the mounts.
pub(super) fn file_system_number(server: SocketAddr, fsid: u64, owner: u32) -> u64 {
    fnv_of(&format!("{owner} {} {} {fsid:x}", server.ip().to_canonical(), server.port()))
}

fn identities(runtime_root: &Path) -> impl Iterator<Item = u64> {
    let directories = std::fs::read_dir(runtime_root).into_iter().flatten().flatten();
    directories.filter_map(|directory| {
        let name = directory.file_name();
        let name = name.to_str().filter(|name| name.len() == 16)?;
        u64::from_str_radix(name, 16).ok()
    })
}

fn segment_at(runtime_root: &Path, identity: u64) -> Option<Segment> {
    let directory = RuntimeDir::made_by_another(runtime_root, |_| identity)?;
    Segment::attach(&directory, identity).ok().flatten()
}

/// Whether the segment belongs to the file system that was just mounted: same server, same number, and the server knows one of
/// its roots.
fn holds_volume_of(runtime_root: &Path, identity: u64, mounted: &Client) -> bool {
    let Some(segment) = segment_at(runtime_root, identity) else { return false };
    let Some(known) = segment.parts().and_then(|stored| parts_of(&stored)) else { return false };
    let parts = mounted.parts();
    if known.fsid != parts.fsid || !share_an_address(&known, &parts) {
        return false;
    }
    let roots = segment.export_state().roots();
    roots.contains(&parts.root) || knows_any(mounted, &roots).unwrap_or(false)
}

fn share_an_address(one: &MountParts, other: &MountParts) -> bool {
    let addresses = |parts: &MountParts| -> Vec<(std::net::IpAddr, u16)> {
        let all = std::iter::once(parts.server).chain(parts.addresses.servers());
        all.map(|address| (address.ip().to_canonical(), address.port())).collect()
    };
    let others = addresses(other);
    addresses(one).iter().any(|address| others.contains(address))
}
