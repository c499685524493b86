//! The server and the root of a mount, as its segment holds them.

use super::MountSpec;
use crate::client::Client;
use crate::client_state::MountParts;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FILE_HANDLE_BYTES_MAX, FileHandle};
use crate::segment::url_notes::UrlRoot;
use crate::segment::{RuntimeDir, Segment, SegmentError, StoredParts, local};
use crate::sys::file_lock::FileLock;

/// A client of the server that a segment names, with the root of a URL. Sends no call.
pub(super) fn client_of(segment: &Segment, url_root: &UrlRoot, spec: &MountSpec, who: &Credentials) -> Result<Client, Error> {
    let Some(of_segment) = segment.parts().and_then(|stored| parts_of(&stored)) else {
        return Err(SegmentError::Foreign("a segment without a server").into());
    };
    let parts = MountParts { root: url_root.root, host: url_root.host, ..of_segment };
    let mut client = Client::from_parts(parts, &spec.url, who)?;
    client.state_mut().route.share(segment);
    Ok(client)
}

/// The lock of the processes that replace the segment in this directory. It ends when this is dropped.
pub(super) fn lock(directory: &RuntimeDir) -> Result<FileLock, SegmentError> {
    FileLock::wait(&directory.lock_path("create")).map_err(local("take the lock"))
}

pub(super) fn stored_of(parts: &MountParts) -> StoredParts {
    let mut root = [0; FILE_HANDLE_BYTES_MAX];
    let bytes = parts.root.as_bytes();
    root[..bytes.len()].copy_from_slice(bytes);
    StoredParts {
        server: parts.server,
        addresses: parts.addresses,
        root,
        root_length: bytes.len(),
        limits: [parts.rtmax, parts.wtmax, parts.dtpref, parts.host, parts.wtpref, 0, 0, 0],
        limits_wide: [parts.fsid, 0, 0, 0],
    }
}

pub(super) fn parts_of(stored: &StoredParts) -> Option<MountParts> {
    let root = FileHandle::new(stored.root.get(..stored.root_length)?)?;
    let [rtmax, wtmax, dtpref, host, wtpref, ..] = stored.limits;
    let [fsid, ..] = stored.limits_wide;
    Some(MountParts { server: stored.server, addresses: stored.addresses, root, rtmax, wtmax, wtpref, dtpref, fsid, host })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::AddressSet;

    #[test]
    fn parts_come_back_from_the_segment_as_they_went_in() {
        let root = FileHandle::new(&[3; 28]).unwrap();
        let server: std::net::SocketAddr = "[::1]:2049".parse().unwrap();
        let addresses = AddressSet::new([server; 8], ["::1".parse().unwrap(); 8]);
        let parts = MountParts {
            server,
            addresses,
            root,
            rtmax: 1 << 20,
            wtmax: 1 << 19,
            wtpref: 1 << 17,
            dtpref: 65536,
            fsid: 99,
            host: 1,
        };
        assert_eq!(parts_of(&stored_of(&parts)), Some(parts));
    }
}
