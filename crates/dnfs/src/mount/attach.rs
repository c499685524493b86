//! Attaching to the segment of an export, or making it.

use core::sync::atomic::Ordering::Relaxed;
use std::hash::Hasher;
use std::sync::Arc;

use super::keeper_process::be_user;
use super::served::{Served, Waiting, ask, replace};
use super::{Mount, MountSpec, mount_paths};
use crate::call_notes::CallNotes;
use crate::client::{Client, MountParts};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FILE_HANDLE_BYTES_MAX, FileHandle};
use crate::retention::Retention;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::{Segment, SegmentError, StoredParts, local};
use crate::slot_limiter::{KeptConnections, Members, SlotLimiter};
use crate::sys::file_lock::FileLock;
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
        let client = client_of(&segment, spec, who)?;
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
    Arc::new(Members::shared(segment.memory(), segment.members_path()))
}

/// Attaches to the segment, or mounts the export and makes one. Waits while the server of a segment does not answer or does not export
/// the volume: the programs of the mount wait too.
fn attach_or_create(
    directory: &RuntimeDir,
    identity: u64,
    spec: &MountSpec,
    who: &Credentials,
) -> Result<(Segment, Client), Error> {
    let (mut waiting, mut rounds): (Option<Waiting>, u32) = (None, 1);
    loop {
        let Some(segment) = Segment::attach(directory, identity)? else {
            let _lock = lock(directory)?;
            if Segment::attach(directory, identity)?.is_some() {
                continue; // made meanwhile
            }
            return create(directory, identity, spec, Client::mount(&spec.url, who)?);
        };
        let (error, is_refused) = match ask(&segment, spec, who, rounds)? {
            Served::Same(client) => {
                segment.export_state().note_served();
                waiting.iter().for_each(Waiting::end);
                return Ok((segment, *client));
            }
            Served::Another => match replace(directory, identity, spec, who)? {
                Some(made) => return Ok(made),
                None => continue,
            },
            Served::Refused(error) => (error, true),
            Served::Silent(error) => (error, false),
        };
        let waiting = match &mut waiting {
            Some(waiting) => waiting,
            None => waiting.insert(Waiting::begin(client_of(&segment, spec, who)?)),
        };
        rounds = waiting.go_on(&segment, error, is_refused)?;
    }
}

/// A client of the server that a segment names. Nothing is asked.
pub(super) fn client_of(segment: &Segment, spec: &MountSpec, who: &Credentials) -> Result<Client, Error> {
    let Some(parts) = segment.parts().and_then(|stored| parts_of(&stored)) else {
        return Err(SegmentError::Foreign("a segment without a server").into());
    };
    let mut client = Client::from_parts(parts, &spec.url, who)?;
    client.service.call_notes = Some(CallNotes::new(segment.memory(), members_of(segment)));
    client.service.share(segment);
    Ok(client)
}

/// Makes the segment of an export that was mounted. Call under the `create` lock.
pub(super) fn create(
    directory: &RuntimeDir,
    identity: u64,
    spec: &MountSpec,
    mounted: Client,
) -> Result<(Segment, Client), Error> {
    let first_generation = Segment::attach_any(directory, identity)?.map_or(0, |old| old.next_generation());
    let stored = stored_of(&mounted.offered());
    let segment = Segment::create(directory, identity, &stored, spec.url.options.retain_bytes, first_generation)?;
    Ok((segment, mounted))
}

pub(super) fn lock(directory: &RuntimeDir) -> Result<FileLock, SegmentError> {
    FileLock::wait_with_signals(&directory.lock_path("create")).map_err(local("take the lock"))
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
