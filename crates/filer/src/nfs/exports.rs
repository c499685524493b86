//! All exports with their rules, and how one client sees them.
//!
//! [`Exports`] never changes: new rules come as a new table, and a connection that finds the number of the table moved
//! judges its client anew. Between two such moments a call costs no lock and no look at a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_proto::mount3::MountStatus;
use volume::handle_tag;

use crate::limits::EXPORTS_MAX;
use crate::listener::ListenerRole;
use crate::nfs::channels::Attachment;
use crate::nfs::clients::Client;
use crate::nfs::export::Export;
use crate::nfs::policy::{Peer, Policy, Refusal, Rights};

/// What is served, and to whom.
pub struct Exports {
    entries: Vec<Entry>,
    by_tag: Box<[Tagged; 256]>,
    pub(crate) generation: u64, // counted by the filer
}

/// An export and its rules.
#[derive(Clone)]
pub struct Entry {
    /// The export; it stays when its rules change.
    pub export: Arc<Export>,
    /// Who may use it.
    pub policy: Policy,
}

/// The exports whose handles carry a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tagged {
    None,
    One(u16),
    Several,
}

/// Why exports cannot be served together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExportsError {
    /// There is none.
    #[error("serve volumes: none is configured")]
    Empty,
    /// There are too many.
    #[error("serve {count} volumes: a filer serves {EXPORTS_MAX} at most")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Two have one name.
    #[error("serve two volumes named {0:?}")]
    Name(String),
    /// Two have one path.
    #[error("serve two volumes under the path {0:?}")]
    Path(String),
}

impl Exports {
    /// A table of these.
    ///
    /// # Errors
    /// [`ExportsError`] when there is none, or two have one name or path.
    pub fn new(entries: Vec<Entry>) -> Result<Self, ExportsError> {
        if entries.is_empty() {
            return Err(ExportsError::Empty);
        }
        if entries.len() > EXPORTS_MAX {
            return Err(ExportsError::TooMany { count: entries.len() });
        }
        let mut by_tag = Box::new([Tagged::None; 256]);
        for (index, Entry { export, .. }) in entries.iter().enumerate() {
            let before = entries.get(..index).unwrap_or_default();
            if before.iter().any(|entry| entry.export.name() == export.name()) {
                return Err(ExportsError::Name(export.name().to_owned()));
            }
            if before.iter().any(|entry| names(entry.export.path().as_bytes()).eq(names(export.path().as_bytes()))) {
                return Err(ExportsError::Path(export.path().to_owned()));
            }
            if let Some(tagged) = by_tag.get_mut(usize::from(export.volume.tag())) {
                *tagged = if *tagged == Tagged::None { Tagged::One(index as u16) } else { Tagged::Several };
            }
        }
        Ok(Self { entries, by_tag, generation: 0 })
    }

    /// One export.
    #[must_use]
    pub fn one(export: Export, policy: Policy) -> Self {
        let mut by_tag = Box::new([Tagged::None; 256]);
        if let Some(tagged) = by_tag.get_mut(usize::from(export.volume.tag())) {
            *tagged = Tagged::One(0);
        }
        Self { entries: vec![Entry { export: Arc::new(export), policy }], by_tag, generation: 0 }
    }

    /// The exports in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The export of a volume's name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.export.name() == name)
    }

    /// The export whose volume made a handle, by its place in the table. The handle may still be forged: its tag is
    /// trusted as long as it leads to one volume, which will refuse it.
    pub(crate) fn of_handle(&self, handle: &[u8]) -> Option<usize> {
        if self.entries.len() == 1 {
            return Some(0);
        }
        match handle_tag(handle).and_then(|tag| self.by_tag.get(usize::from(tag))) {
            Some(Tagged::One(index)) => Some(usize::from(*index)),
            Some(Tagged::None) => None,
            Some(Tagged::Several) | None => self.entries.iter().position(|entry| entry.export.volume.made(handle)),
        }
    }

    /// The export that a path of MOUNT is in, the deepest if exports stand below each other, and the names below it.
    pub(crate) fn of_path<'p>(&self, path: &'p [u8]) -> Option<(usize, Vec<&'p [u8]>)> {
        let wanted: Vec<&[u8]> = names(path).collect();
        let depth = |entry: &Entry| {
            let own: Vec<&[u8]> = names(entry.export.path().as_bytes()).collect();
            wanted.starts_with(&own).then_some(own.len())
        };
        let found = self.entries.iter().enumerate().filter_map(|(index, entry)| Some((depth(entry)?, index)));
        let (depth, index) = found.max()?;
        Some((index, wanted.get(depth..).unwrap_or_default().to_vec()))
    }
}

/// The names of a path, without those that are empty.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// The exports as one connection sees them: what its client may do in each, judged once.
pub struct View {
    /// The client.
    pub(crate) peer: Peer,
    /// Where its calls are counted.
    pub(crate) client: Arc<Client>,
    exports: Arc<Exports>,
    judged: Vec<Judged>,      // one an export, in the order of the table
    mount_logged: AtomicBool, // a refused mount is in the log
    attachment: Option<Arc<Attachment>>,
}

/// What a client may in one export.
struct Judged {
    verdict: Result<Rights, Refusal>,
    logged: AtomicBool, // the refusal is in the log
}

impl View {
    pub(crate) fn new(exports: Arc<Exports>, peer: Peer, client: Arc<Client>, attachment: Option<Arc<Attachment>>) -> Self {
        let judge = |entry: &Entry| Judged { verdict: entry.policy.judge(&peer), logged: AtomicBool::new(false) };
        let judged = exports.entries.iter().map(judge).collect();
        Self { peer, client, exports, judged, mount_logged: AtomicBool::new(false), attachment }
    }

    /// Logs the first mount that the client was refused on its connection.
    pub(crate) fn log_refused_mount(&self, path: &[u8], status: MountStatus) {
        if !self.mount_logged.swap(true, Ordering::Relaxed) {
            // Any peer may send any path: escaped, it cannot forge a line of the log.
            let path = path.escape_ascii();
            tracing::info!(client = %self.peer.address, %path, ?status, "mount refused");
        }
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    /// Its connection as channels have it; none where there is no connection.
    pub(crate) const fn attachment(&self) -> Option<&Arc<Attachment>> {
        self.attachment.as_ref()
    }

    /// Whether its client has ended the connection: no call of it may be begun any more.
    pub(crate) fn is_fenced(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.is_fenced())
    }

    /// Whether the client may use any export through this listener.
    pub(crate) fn may_use_any_export(&self) -> bool {
        self.peer.role == ListenerRole::Nfs && self.judged.iter().any(|export| export.verdict.is_ok())
    }

    /// The export at a place of the table, and what the client may there. A refusal is logged once.
    ///
    /// # Panics
    /// When the table has no such place: places come from [`Exports::of_handle`] and [`Exports::of_path`], and no table
    /// is empty.
    pub(crate) fn at(&self, index: usize) -> (&Export, Result<Rights, Refusal>) {
        let (export, judged) = (&self.exports.entries[index].export, &self.judged[index]);
        if let Err(refusal) = &judged.verdict
            && !judged.logged.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(client = %self.peer.address, volume = export.name(), %refusal, "client refused");
        }
        (export, judged.verdict)
    }
}
