//! Finds out what the server exports under the path of a mount: the volume of the segment, another one, or nothing for now
//! (docs/design/026-away.md).
//!
//! An attaching process asks, and so does the keeper while programs wait. Only this file resolves the server's name
//! again.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stored_parts::{client_of, lock, parts_of};
use super::url_roots::knows_any;
use super::{MountSpec, mount_paths};
use crate::client::Client;
use crate::client_state::MountParts;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::FsError;
use crate::limits::{ASK_TIME_MS, GONE_ASK_MS, GONE_PAUSE_MS_MIN};
use crate::options::{GonePolicy, Options};
use crate::rpc::events::Cause;
use crate::rpc::route::RetryPolicy;
use crate::rpc::silence::Silence;
use crate::segment::runtime_root::runtime_root;
use crate::segment::url_notes::UrlRoot;
use crate::segment::{RuntimeDir, Segment, SegmentError, local};
use crate::sys::clock::sleep;
use crate::sys::local_file::{Errno, unlink};
use crate::url::NfsUrl;
use nfs_proto::mount3::MountStatus;

/// Timeout of one question. A server that takes longer counts as silent until the next question.
const ASK_TIME: Duration = Duration::from_millis(ASK_TIME_MS);
/// Upper limit of the factor by which an attaching process extends the timeout of its question, for slow servers.
const ROUNDS_MAX: u32 = 24;

/// The answer of a server.
#[derive(Debug)]
pub(super) enum Served {
    /// The volume of the segment. The client is connected, or will connect to the server's new address.
    Same(Box<Client>),
    /// The volume of the segment, but the directory of the URL was removed or replaced.
    OtherRoot,
    /// The server exports another volume under the same path.
    Another,
    /// The server exports nothing under this path.
    Refused(Error),
    /// No answer.
    Silent(Error),
}

/// Asks the server of a segment: first for the root at the known address, then by MNT at every address of its name. Stores a
/// new address in the segment. Each question may take [`ASK_TIME`] times `rounds`.
///
/// # Errors
/// Errors that a repeated question would return again.
pub(super) fn ask(
    segment: &Segment,
    url_root: &UrlRoot,
    spec: &MountSpec,
    who: &Credentials,
    rounds: u32,
    silence: &Arc<Silence>,
) -> Result<Served, Error> {
    let time = ASK_TIME.saturating_mul(rounds.max(1));
    let mut client = client_of(segment, url_root, spec, who)?;
    client.state_mut().route.endpoints.silence = Arc::clone(silence);
    let parts = client.parts();
    let is_refused = match knows_root(&mut client, &parts, time) {
        Ok(true) => return Ok(Served::Same(Box::new(client))),
        Ok(false) => true,
        Err(Error::TimedOut { .. }) => false,
        Err(error) => return Err(error),
    };
    match Client::mount_reporting(&at_host(&spec.url, parts.host), who, silence) {
        Ok(mut mounted) => match knows_root(&mut mounted, &parts, time) {
            Ok(true) => {
                let _lock = lock(segment.directory())?;
                if segment.export_state().server() != Some(mounted.server()) {
                    segment.export_state().move_to(mounted.server());
                }
                Ok(Served::Same(Box::new(client)))
            }
            Ok(false) if mounted.state().parts.root != parts.root => match knows_any(&mounted, &segment.export_state().roots()) {
                Ok(true) => Ok(Served::OtherRoot),
                Ok(false) => Ok(Served::Another),
                Err(error) => Ok(Served::Silent(error)),
            },
            Ok(false) => Ok(Served::Refused(FsError::Stale.into())),
            Err(error) => Ok(Served::Silent(error)),
        },
        Err(error) if is_refused && names_no_directory(&error) && knows_another(&client)? => Ok(Served::OtherRoot),
        Err(error @ Error::Mount { .. }) => Ok(Served::Refused(error)),
        Err(error) if is_refused => Ok(Served::Refused(error)),
        Err(error) => Ok(Served::Silent(error)),
    }
}

/// Whether the server of a client knows the root of the mount. No answer in time is an error.
fn knows_root(client: &mut Client, parts: &MountParts, time: Duration) -> Result<bool, Error> {
    match client.getattr_within(&parts.root, time) {
        Ok(_) => Ok(true),
        Err(Error::Fs(FsError::Stale | FsError::BadHandle)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The URL with only the host that is in use: under TLS its certificate has that name.
fn at_host(url: &NfsUrl, host: u32) -> NfsUrl {
    let name = url.server_set().get(host as usize).map_or_else(|| url.server(), |name| *name).to_owned();
    NfsUrl { servers: vec![name], ..url.clone() }
}

/// Whether an export could not be mounted because its path is not a directory, as MNT, or LOOKUP from an export above it,
/// answered.
const fn names_no_directory(error: &Error) -> bool {
    matches!(
        error,
        Error::Mount { status: MountStatus::NoEnt | MountStatus::NotDir, .. }
            | Error::Fs(FsError::NotFound | FsError::NotDirectory)
    )
}

/// Whether the server knows another root of the volume.
fn knows_another(client: &Client) -> Result<bool, Error> {
    match client.serves_another_root() {
        Err(Error::TimedOut { .. } | Error::ExportGone { .. }) => Ok(false),
        known => known,
    }
}

/// Removes the notes of the URLs whose directory was removed on the server, although the server has the volume. Programs that
/// wait for such a directory then get ESTALE.
pub(super) fn forget_removed(segment: &Segment, client: &Client, spec: &MountSpec, who: &Credentials) {
    let (runtime_root, identity) = (runtime_root(), segment.header().identity.load(Relaxed));
    for mounted in mount_paths::list(segment.directory().path()) {
        let Ok(named) = mounted.url.parse::<NfsUrl>() else { continue };
        let options = Options { nfs_port: named.options.nfs_port, ..spec.url.options.clone() };
        let url = NfsUrl { options, ..named };
        let Some(noted) = UrlRoot::noted(&runtime_root, &url).filter(|noted| noted.identity == identity) else { continue };
        if client.serves(&noted.root).unwrap_or(true) {
            continue;
        }
        let is_removed = match Client::mount(&at_host(&url, noted.host), who) {
            Ok(mounted) => mounted.state().parts.root != noted.root && matches!(mounted.serves(&noted.root), Ok(false)),
            Err(error) => names_no_directory(&error),
        };
        if is_removed {
            UrlRoot::forget(&runtime_root, &url);
        }
    }
}

/// Retires the segment of a volume if the server exports another one in its place. False if the server exports the old volume
/// after all. True also if another process retired the segment.
///
/// # Errors
/// Those of mounting the export: the segment then stays as it is.
pub(super) fn retire_if_replaced(
    directory: &RuntimeDir,
    url_root: &UrlRoot,
    spec: &MountSpec,
    who: &Credentials,
) -> Result<bool, Error> {
    let _lock = lock(directory)?;
    let Some(old) = Segment::attach(directory, url_root.identity)? else { return Ok(true) };
    let Some(mut parts) = old.parts().and_then(|stored| parts_of(&stored)) else { return Ok(true) };
    parts.root = url_root.root;
    let mut mounted = Client::mount(&at_host(&spec.url, url_root.host), who)?;
    if mounted.state().parts.root == parts.root || knows_root(&mut mounted, &parts, ASK_TIME)? {
        return Ok(false);
    }
    if !knows_any(&mounted, &old.export_state().roots())? {
        retire(&old)?;
    }
    Ok(true)
}

/// Prevents processes from attaching to a segment, and discards what is retained for its volume.
fn retire(old: &Segment) -> Result<(), SegmentError> {
    old.retire();
    let directory = old.directory();
    match unlink(&directory.retained_path(old.header().instance.load(Relaxed))) {
        Ok(()) | Err(Errno(libc::ENOENT)) => {}
        Err(errno) => return Err(local("remove the retained data")(errno)),
    }
    // Programs that have files of the old volume open keep their descriptors. No file of the new volume gets these names.
    for (file, _) in old.live_files() {
        directory.remove_mapped(file);
        directory.remove_placeholder(file)?;
    }
    Ok(())
}

/// A process that attaches while the server does not answer, or does not export the volume.
#[derive(Debug)]
pub(super) struct Waiting {
    client: Client,
    since: Instant,
    limit: Option<Duration>,
    rounds: u32,
}

impl Waiting {
    /// Begins to wait. `client` only reports the wait.
    pub(super) fn begin(mut client: Client, silence: &Arc<Silence>) -> Self {
        client.state_mut().route.endpoints.silence = Arc::clone(silence);
        let limit = match client.state().route.retry_policy {
            RetryPolicy::Soft(limit) => Some(limit),
            RetryPolicy::Hard | RetryPolicy::Mounting => None,
        };
        Self { client, since: Instant::now(), limit, rounds: 1 }
    }

    /// Waits until the next question is due. Returns the factor by which that question may exceed [`ASK_TIME`].
    ///
    /// # Errors
    /// `error`, the server's last answer, if the time of a soft mount is over; [`Error::ExportGone`] if the server
    /// exports nothing and `gone=error` is set.
    pub(super) fn go_on(&mut self, segment: &Segment, error: Error, is_refused: bool) -> Result<u32, Error> {
        let (route, waited) = (&self.client.state().route, self.since.elapsed());
        if is_refused && self.client.state().gone_policy != GonePolicy::Wait {
            return Err(Error::ExportGone { server: self.client.server() });
        }
        if self.limit.is_some_and(|limit| waited >= limit) {
            return Err(error);
        }
        if is_refused {
            segment.export_state().note_gone();
            self.client.state().gone.gone(self.client.server(), waited);
        } else {
            route.report_attachment(Cause::NoReply);
        }
        sleep(Duration::from_millis(GONE_ASK_MS.min(GONE_PAUSE_MS_MIN * u64::from(self.rounds) * u64::from(self.rounds))));
        self.rounds = (self.rounds * 2).min(ROUNDS_MAX);
        Ok(self.rounds)
    }

    /// Ends the wait: the server answered.
    pub(super) fn end(&self) {
        self.client.state().gone.served(self.client.server());
        self.client.state().route.note_answer();
    }
}
