//! Attaching to the segment of an export, or making it.

use core::sync::atomic::Ordering::Relaxed;
use std::hash::Hasher;
use std::sync::Arc;

use super::keeper_process::be_user;
use super::{Mount, MountSpec, mount_paths};
use crate::call_notes::CallNotes;
use crate::client::{Client, MountParts};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FILE_HANDLE_BYTES_MAX, FileHandle, FsError};
use crate::retention::Retention;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::{Segment, SegmentError, StoredParts, local};
use crate::slot_limiter::{KeptConnections, Members, SlotLimiter};
use crate::sys::file_lock::FileLock;
use crate::sys::local_file::{Errno, unlink};
use crate::url::{NfsUrl, host_key};

impl Mount {
    /// Attaches to the export's shared segment in the runtime directory, or mounts the export and makes it.
    ///
    /// # Errors
    /// What keeps it from being mounted; [`Error::Segment`] when the shared state can't be used.
    pub fn attach(spec: &MountSpec, who: &Credentials) -> Result<Self, Error> {
        let directory = RuntimeDir::of_process(|owner| identity_of(&spec.url, owner))?;
        let identity = identity_of(&spec.url, directory.sharing().owner);
        let user = be_user(&directory)?;
        mount_paths::note(&directory, spec);
        let (segment, client) = attach_or_create(&directory, identity, spec, who)?;
        let mount = Self { _user: Some(Arc::new(user)), ..Self::new(spec, who, client, segment)? };
        mount.finish_left_writes()?;
        mount.sweep();
        Ok(mount)
    }

    /// The mount as its keeper sees it, who is no user of it; none when there is no segment. Asks the server nothing.
    pub(super) fn attach_as_keeper(spec: &MountSpec, who: &Credentials, directory: &RuntimeDir) -> Result<Option<Self>, Error> {
        let identity = identity_of(&spec.url, directory.sharing().owner);
        let Some(segment) = Segment::attach(directory, identity)? else { return Ok(None) };
        let Some(parts) = segment.parts().and_then(|stored| parts_of(&stored)) else { return Ok(None) };
        let client = Client::from_parts(parts, &spec.url, who)?;
        let mount = Self::new(spec, who, client, segment)?;
        mount.retention.members().join_as_keeper();
        Ok(Some(mount))
    }

    /// Where the segment is, if somebody made it.
    pub(super) fn directory_of(spec: &MountSpec) -> Result<Option<RuntimeDir>, SegmentError> {
        RuntimeDir::of_program(|owner| identity_of(&spec.url, owner))
    }

    fn new(spec: &MountSpec, who: &Credentials, mut client: Client, segment: Segment) -> Result<Self, Error> {
        let options = &spec.url.options;
        let members = members_of(&segment);
        client.service.call_notes = Some(CallNotes::new(segment.memory(), Arc::clone(&members)));
        client.service.share(&segment);
        if options.slot_count.is_some() || options.one_writer {
            // A limit that cannot be kept is an error here, not a mount without it.
            members.join().map_err(local("take one of the 1,020 places for processes, which slots= and writers=one need,"))?;
        }
        // From here on all processes' calls count; those that mounted were this process' alone.
        client.pool.keep_by(KeptConnections::new(Arc::clone(&members)));
        client.slot_limiter = options.slot_count.map(|count| SlotLimiter::new(Arc::clone(&members), count));
        let instance = segment.header().instance.load(Relaxed);
        Ok(Self {
            retention: Arc::new(Retention::new(segment.directory(), instance, Arc::clone(&members))),
            url: spec.url.clone(),
            local_path: spec.local_path.clone(),
            who: who.for_url(&spec.url),
            client,
            others: super::users::Others::default(),
            read_ahead: super::read_ahead::ReadAhead::new(),
            segment,
            directories: super::Directories::default(),
            writers: options.one_writer.then_some(members),
            stable: options.stable,
            close: options.close,
            shared_use: options.no_attribute_cache,
            single_owner: options.single_owner,
            credentials_place: core::sync::atomic::AtomicU32::new(0),
            _user: None,
            keeps_access_times: super::create::KeepsAccessTimes::default(),
            last_set: super::latest::Latest::default(),
            last_made: super::latest::Latest::default(),
            log_writes: super::log_writes::LogWrites::default(),
            gather: options.gather,
            keeper_expected_ms: core::sync::atomic::AtomicU64::new(0),
            sequences: super::sequences::Sequences::default(),
            swept_ms: core::sync::atomic::AtomicU64::new(0),
        })
    }
}

/// The processes of a segment.
pub(super) fn members_of(segment: &Segment) -> Arc<Members> {
    Arc::new(Members::shared(segment.memory(), segment.directory().lock_path("members")))
}

fn attach_or_create(
    directory: &RuntimeDir,
    identity: u64,
    spec: &MountSpec,
    who: &Credentials,
) -> Result<(Segment, Client), Error> {
    if let Some(found) = attach_existing(directory, identity, spec, who)? {
        return Ok(found);
    }
    let _lock = FileLock::wait_with_signals(&directory.lock_path("create")).map_err(local("take the lock"))?;
    match attach_existing(directory, identity, spec, who)? {
        Some(made_meanwhile) => Ok(made_meanwhile),
        None => create(directory, identity, spec, who),
    }
}

/// The segment that is there, and a client; none when there is none, or its volume is no longer what the server serves.
fn attach_existing(
    directory: &RuntimeDir,
    identity: u64,
    spec: &MountSpec,
    who: &Credentials,
) -> Result<Option<(Segment, Client)>, Error> {
    let Some(segment) = Segment::attach(directory, identity)? else { return Ok(None) };
    let Some(parts) = segment.parts().and_then(|stored| parts_of(&stored)) else {
        return Err(SegmentError::Foreign("a segment without a server").into());
    };
    let mut client = Client::from_parts(parts, &spec.url, who)?;
    client.service.call_notes = Some(CallNotes::new(segment.memory(), members_of(&segment)));
    client.service.share(&segment);
    match client.getattr(&parts.root) {
        Ok(_) => Ok(Some((segment, client))),
        Err(Error::Fs(FsError::Stale | FsError::BadHandle)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn create(directory: &RuntimeDir, identity: u64, spec: &MountSpec, who: &Credentials) -> Result<(Segment, Client), Error> {
    if let Some(old) = Segment::attach(directory, identity)? {
        // The server now serves another volume there. Programs that have files of the old one open must not be told
        // that they are files of the new one.
        for (file, _) in old.live_files() {
            if old.if_unopened(file)?.is_none() {
                return Err(SegmentError::VolumeReplaced.into());
            }
        }
        old.retire();
        match unlink(&directory.retained_path(old.header().instance.load(Relaxed))) {
            Ok(()) | Err(Errno(libc::ENOENT)) => {}
            Err(errno) => return Err(local("remove the retained data")(errno).into()),
        }
        // The new segment gives the same names to other files, which must find no placeholder of the old ones.
        for (file, _) in old.live_files() {
            directory.remove_mapped(file);
            directory.remove_placeholder(file)?;
        }
    }
    let client = Client::mount(&spec.url, who)?;
    let segment = Segment::create(directory, identity, &stored_of(&client.offered()), spec.url.options.retain_bytes)?;
    Ok((segment, client))
}

/// What tells segments apart: owner of the runtime directory, set of server addresses and export as the URL spells them, plain variants of spelling
/// removed. Two sets that share an address are two segments.
pub(super) fn identity_of(url: &NfsUrl, uid: u32) -> u64 {
    let servers: Vec<String> = url.server_set().into_iter().map(host_key).collect();
    let export = url.export_path.trim_end_matches('/');
    let text = format!("{uid} {} {} {export}", servers.join(","), url.nfs_port());
    // FNV-1a, in every version: processes of two versions must find the same segment, or learn that it has another layout.
    let mut hash = fnv::FnvHasher::default();
    hash.write(text.as_bytes());
    hash.finish()
}

fn stored_of(parts: &MountParts) -> StoredParts {
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

fn parts_of(stored: &StoredParts) -> Option<MountParts> {
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

    #[test]
    fn spellings_of_one_export_share_a_segment() {
        let identity = |url: &str| identity_of(&url.parse().unwrap(), 1000);
        assert_eq!(identity("nfs://localhost/vol"), identity("nfs://127.0.0.1:2049/vol?rsize=8192"));
        assert_eq!(identity("nfs://a,B/vol"), identity("nfs://b,a/vol"));
        assert_ne!(identity("nfs://a/vol"), identity("nfs://a,b/vol"));
        assert_ne!(identity("nfs://127.0.0.1/vol"), identity("nfs://127.0.0.1:2050/vol"));
        assert_ne!(identity("nfs://127.0.0.1/vol"), identity("nfs://127.0.0.1/vol2"));
    }
}
