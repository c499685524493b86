//! Attaches to the segment of an export, or creates it.

use core::sync::atomic::Ordering::Relaxed;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::fence::FenceClient;
use super::keeper_process::be_user;
use super::served::{Served, Waiting, ask, retire_if_replaced};
use super::stored_parts::{client_of, lock, stored_of};
use super::{Mount, MountSpec, mount_paths, other_layout};
use crate::client::Client;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::FsError;
use crate::limits::FIND_ROUNDS_MAX;
use crate::retention::Retention;
use crate::rpc::silence::Silence;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::runtime_root::{runtime_root, sharing_of};
use crate::segment::url_notes::UrlRoot;
use crate::segment::{Segment, SegmentError, local};
use crate::slot_limiter::{KeptConnections, SlotLimiter};
use crate::sys::clock::learn_time_namespace;
use crate::sys::internal_fd::InternalFd;
use crate::sys::local_file::Errno;
use crate::sys::range_lock;

/// Attempts to enter a directory that other processes remove each time.
const ENTER_TRIES: u32 = 16;

impl Mount {
    /// Attaches to the shared segment of the file system to which the URL leads, or mounts the export and creates the segment.
    ///
    /// # Errors
    /// The reason why the export cannot be mounted; [`Error::Segment`] if the shared state cannot be used.
    pub fn attach(spec: &MountSpec, who: &Credentials) -> Result<Self, Error> {
        Self::attach_at(spec, who, |directory| mount_paths::note(directory, spec))
    }

    /// As [`Mount::attach`], but observers do not see the local path until [`Self::list_path`].
    ///
    /// # Errors
    /// As [`Mount::attach`].
    pub fn attach_unlisted(spec: &MountSpec, who: &Credentials) -> Result<Self, Error> {
        Self::attach_at(spec, who, |_| {})
    }

    /// Lists the local path among those of the export, for observers.
    pub fn list_path(&self) {
        mount_paths::note(self.segment.directory(), &MountSpec { local_path: self.local_path.clone(), url: self.url.clone() });
    }

    fn attach_at(spec: &MountSpec, who: &Credentials, entered: impl Fn(&RuntimeDir)) -> Result<Self, Error> {
        learn_time_namespace();
        let (root, mut former) = (runtime_root(), None);
        let silence = Arc::new(Silence::of_attachment());
        for _ in 0..FIND_ROUNDS_MAX {
            let (url_root, mounted) = find(spec, who, former, &silence)?;
            let (directory, user) = enter(url_root.identity)?;
            entered(&directory);
            let (segment, client) = match attach_or_create(&directory, &url_root, spec, who, mounted, &silence) {
                Ok(Some(attached)) => attached,
                Ok(None) => {
                    former = Some(url_root.identity);
                    continue;
                }
                Err(Error::Segment(SegmentError::Version { found })) => {
                    drop(user);
                    other_layout::clear(&directory, found)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            silence.end_attachment();
            url_root.note(&root, &spec.url)?;
            let mount = Self { _user: Some(Arc::new(user)), ..Self::new(spec, who, client, segment)? };
            mount.note_use();
            mount.finish_left_writes()?;
            mount.sweep();
            return Ok(mount);
        }
        Err(Error::Fs(FsError::Stale)) // the server exported another volume each time
    }

    /// Attaches as the keeper, which does not count as a user of the mount. `None` if there is no segment. Sends no call.
    pub(super) fn attach_as_keeper(spec: &MountSpec, who: &Credentials) -> Result<Option<Self>, Error> {
        let (Some(directory), Some(url_root)) = (Self::directory_of(spec)?, UrlRoot::noted(&runtime_root(), &spec.url)) else {
            return Ok(None);
        };
        learn_time_namespace();
        let Some(segment) = Segment::attach(&directory, url_root.identity)? else { return Ok(None) };
        let client = client_of(&segment, &url_root, spec, who)?;
        let mount = Self::new(spec, who, client, segment)?;
        mount.retention.members().join_as_keeper();
        Ok(Some(mount))
    }

    /// The directory of the segment. `None` if no process has attached by this URL.
    pub(super) fn directory_of(spec: &MountSpec) -> Result<Option<RuntimeDir>, SegmentError> {
        let noted = UrlRoot::noted(&runtime_root(), &spec.url);
        let directory = RuntimeDir::of_program(|_| noted.map_or(0, |url_root| url_root.identity))?;
        Ok(directory.filter(|_| noted.is_some()))
    }

    /// The mount of a simulated process: of this client, in a segment that exists.
    ///
    /// # Errors
    /// The segment's directory cannot be used.
    #[cfg(test)]
    pub(crate) fn simulated(spec: &MountSpec, client: Client, segment: Segment) -> Result<Self, Error> {
        let user = be_user(segment.directory())?.map(Arc::new);
        Ok(Self { _user: user, ..Self::new(spec, &Credentials::of_process(), client, segment)? })
    }

    fn new(spec: &MountSpec, who: &Credentials, mut client: Client, segment: Segment) -> Result<Self, Error> {
        let options = &spec.url.options;
        let members = Arc::clone(segment.members());
        client.state_mut().route.share(&segment);
        client.state_mut().route.membership.hold_leases(Arc::clone(&members));
        members.fence_by(Box::new(FenceClient::of(&client, &spec.url, who)));
        if options.slot_count.is_some() || options.one_writer {
            // If the limit cannot be enforced, attaching fails.
            members.join().map_err(local("take one of the 1,020 places for processes, which slots= and writers=one need,"))?;
        }
        // From here on, the limit of `slots=` counts the calls of all processes. It counted the calls that mounted the export
        // for this process only.
        client.state_mut().pool.keep_by(KeptConnections::new(Arc::clone(&members)));
        client.state_mut().slot_limiter = options.slot_count.map(|count| SlotLimiter::new(Arc::clone(&members), count));
        let (instance, codec) = (segment.header().instance.load(Relaxed), client.io_codec());
        Ok(Self {
            retention: Arc::new(Retention::new(segment.directory(), instance, Arc::clone(&members))),
            url: spec.url.clone(),
            local_path: spec.local_path.clone(),
            who: who.for_url(&spec.url),
            client,
            others: super::users::Others::default(),
            read_ahead: super::read_ahead::ReadAhead::new(codec),
            locks: super::Locks::new(&segment, options.one_writer),
            segment,
            directories: super::Directories::default(),
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

/// Where a URL leads: from its note, otherwise from the answer of the server, with the client that mounted it. Ignores the
/// note if there is a `former` segment, to which it led wrongly. A new segment takes the place of the former one.
fn find(
    spec: &MountSpec,
    who: &Credentials,
    former: Option<u64>,
    silence: &Arc<Silence>,
) -> Result<(UrlRoot, Option<Client>), Error> {
    let root = runtime_root();
    let owner = sharing_of(root.as_os_str().as_bytes())?.owner;
    if let Some(noted) = UrlRoot::noted(&root, &spec.url).filter(|_| former.is_none()) {
        return Ok((noted, None));
    }
    let mounted = Client::mount_reporting(&spec.url, who, silence)?;
    Ok((UrlRoot::of_mounted(&root, owner, &mounted, former), Some(mounted)))
}

/// Creates the segment of the volume that replaced the one of the segment `former`.
pub(super) fn make_successor(spec: &MountSpec, who: &Credentials, former: u64) -> Result<(), Error> {
    let root = runtime_root();
    let silence = Arc::default();
    let (url_root, mounted) = find(spec, who, Some(former), &silence)?;
    let directory = RuntimeDir::of_process(|_| url_root.identity)?;
    if attach_or_create(&directory, &url_root, spec, who, mounted, &silence)?.is_some() {
        url_root.note(&root, &spec.url)?;
    }
    Ok(())
}

/// Opens the export's directory and becomes a user of the mount. Begins again if the directory is removed meanwhile
/// (`millrace nfs give-up`).
fn enter(identity: u64) -> Result<(RuntimeDir, InternalFd), SegmentError> {
    let mut tried = 0;
    loop {
        let entered =
            RuntimeDir::of_process(|_| identity).and_then(|directory| Ok(be_user(&directory)?.map(|user| (directory, user))));
        tried += 1;
        match entered {
            Ok(Some((directory, user))) => {
                range_lock::check(&user).map_err(local("use locks of open file descriptions (F_OFD_SETLK)"))?;
                return Ok((directory, user));
            }
            Ok(None) | Err(SegmentError::Local { errno: libc::ENOENT, .. }) if tried < ENTER_TRIES => {}
            Ok(None) => return Err(local("enter the runtime directory")(Errno(libc::ENOENT))),
            Err(error) => return Err(error),
        }
    }
}

/// Attaches to the segment to which a URL leads, or creates it from `mounted`. Waits while the server does not answer or does
/// not export the volume, as the programs of the mount do. `None` if the URL leads to another segment or root now.
fn attach_or_create(
    directory: &RuntimeDir,
    url_root: &UrlRoot,
    spec: &MountSpec,
    who: &Credentials,
    mounted: Option<Client>,
    silence: &Arc<Silence>,
) -> Result<Option<(Segment, Client)>, Error> {
    let (mut waiting, mut rounds): (Option<Waiting>, u32) = (None, 1);
    loop {
        let Some(segment) = Segment::attach(directory, url_root.identity)? else {
            let Some(client) = &mounted else { return Ok(None) };
            match create(directory, url_root.identity, spec, client)? {
                Some(segment) => return Ok(mounted.map(|client| (segment, client))),
                None => continue, // another process created it meanwhile
            }
        };
        let (error, is_refused) = match ask(&segment, url_root, spec, who, rounds, silence)? {
            Served::Same(client) => {
                segment.export_state().note_served();
                waiting.iter().for_each(Waiting::end);
                return Ok(Some((segment, *client)));
            }
            Served::OtherRoot => return Ok(None),
            Served::Another => match retire_if_replaced(directory, url_root, spec, who)? {
                true => return Ok(None),
                false => (FsError::Stale.into(), false), // the next answer decides
            },
            Served::Refused(error) => (error, true),
            Served::Silent(error) => (error, false),
        };
        let waiting = match &mut waiting {
            Some(waiting) => waiting,
            None => waiting.insert(Waiting::begin(client_of(&segment, url_root, spec, who)?, silence)),
        };
        rounds = waiting.go_on(&segment, error, is_refused)?;
    }
}

/// Creates the segment of a file system that was mounted. `None` if another process was faster. A process that is stopped here
/// delays no other process, unless it replaces a retired segment.
fn create(directory: &RuntimeDir, identity: u64, spec: &MountSpec, mounted: &Client) -> Result<Option<Segment>, SegmentError> {
    let is_first = Segment::attach_any(directory, identity)?.is_none();
    let _lock = if is_first { None } else { Some(lock(directory)?) };
    let former = if is_first { None } else { Segment::attach_any(directory, identity)? };
    if former.as_ref().is_some_and(|former| !former.is_retired()) {
        return Ok(None);
    }
    let stored = stored_of(&mounted.state().offered());
    Segment::create(directory, identity, &stored, spec.url.options.retain_bytes, former.as_ref())
}
