//! All exports with their rules, and how one client sees them.
//!
//! [`Exports`] never changes. New rules make a new table with another number, and each connection a new [`View`] of it. So a call evaluates
//! no rule. A call that has waited for a worker compares the number and takes the new rules.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use host::Unpoisoned;
use nfs_proto::mount3::MountStatus;
use volume::handle_tag;

use crate::limits::EXPORTS_MAX;
use crate::listener::ListenerRole;
use crate::nfs::channels::Attachment;
use crate::nfs::clients::Client;
use crate::nfs::export::Export;
use crate::nfs::policy::{Peer, Policy, Refusal, Rights, Security};

/// The exports, with the rules about their clients.
pub struct Exports {
    entries: Vec<Entry>,
    families: Vec<Arc<[u16]>>, // by index: the volume and the file systems inside it; empty without such file systems
    by_tag: Vec<Vec<u16>>,     // indexes of entries by the tag in their handles
    pub(crate) generation: u64, // counted by the filer
    judged: Mutex<HashMap<Traits, Weak<[Judged]>>>,
}

/// The properties of a client that rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Traits {
    address: IpAddr,
    is_privileged: bool,
    role: ListenerRole,
    security: Security,
}

/// An export and its rules.
#[derive(Clone)]
pub struct Entry {
    /// The export. It stays when its rules change.
    pub export: Arc<Export>,
    /// Who may use it.
    pub policy: Policy,
}

/// Why these exports cannot be served together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExportsError {
    /// There is no export.
    #[error("serve volumes: none is configured")]
    Empty,
    /// There are too many exports.
    #[error("serve {count} volumes: a filer serves {EXPORTS_MAX} at most")]
    TooMany {
        /// The number of exports.
        count: usize,
    },
    /// Two exports have the same name.
    #[error("serve two volumes named {0:?}")]
    Name(String),
    /// Two exports have the same path.
    #[error("serve two volumes under the path {0:?}")]
    Path(String),
}

impl Exports {
    /// A table of these exports.
    ///
    /// # Errors
    /// [`ExportsError`] if there is no export, or two have the same name or path.
    pub fn new(entries: Vec<Entry>) -> Result<Self, ExportsError> {
        if entries.is_empty() {
            return Err(ExportsError::Empty);
        }
        if entries.len() > EXPORTS_MAX {
            return Err(ExportsError::TooMany { count: entries.len() });
        }
        let (mut known_names, mut known_paths) = (HashSet::new(), HashSet::new());
        for Entry { export, .. } in &entries {
            if !known_names.insert(export.name()) {
                return Err(ExportsError::Name(export.name().to_owned()));
            }
            if !known_paths.insert(names(export.path().as_bytes()).collect::<Vec<_>>()) {
                return Err(ExportsError::Path(export.path().to_owned()));
            }
        }
        Ok(Self::of(entries))
    }

    /// A table with one export.
    #[must_use]
    pub fn one(export: Export, policy: Policy) -> Self {
        Self::of(vec![Entry { export: Arc::new(export), policy }])
    }

    fn of(entries: Vec<Entry>) -> Self {
        let mut by_tag = vec![Vec::new(); 256];
        for (index, entry) in entries.iter().enumerate() {
            if let Some(tagged) = by_tag.get_mut(usize::from(entry.export.volume.tag())) {
                tagged.push(index as u16);
            }
        }
        let families = families(&entries);
        Self { entries, families, by_tag, generation: 0, judged: Mutex::default() }
    }

    /// The rights of a client in each export. Its connections share the result.
    fn judged_for(&self, peer: &Peer) -> Arc<[Judged]> {
        let Peer { address, role, security, .. } = *peer;
        let traits = Traits { address, is_privileged: peer.is_privileged(), role, security };
        let mut known = self.judged.lock().unpoisoned();
        if let Some(judged) = known.get(&traits).and_then(Weak::upgrade) {
            return judged;
        }
        known.retain(|_, judged| judged.strong_count() > 0);
        let judge = |entry: &Entry| Judged { verdict: entry.policy.judge(peer), logged: AtomicBool::new(false) };
        let judged: Arc<[Judged]> = self.entries.iter().map(judge).collect();
        known.insert(traits, Arc::downgrade(&judged));
        judged
    }

    /// The exports in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The volume of an export and the served file systems inside it. Empty if it has no such file systems.
    pub(crate) fn family(&self, index: usize) -> impl Iterator<Item = &Entry> {
        let places = self.families.get(index).map(|places| &**places).unwrap_or_default();
        places.iter().filter_map(|place| self.entries.get(usize::from(*place)))
    }

    /// The write verifier of an export. A client keeps one verifier for its mount (RFC 1813 3.3.7), and a mount includes the file systems
    /// inside the volume. So a loss in any of them changes the verifier of all.
    pub(crate) fn verifier(&self, index: usize) -> [u8; 8] {
        let number = |entry: &Entry| u64::from_ne_bytes(entry.export.volume.verifier());
        match self.family(index).map(number).reduce(|one, other| one ^ other) {
            Some(all) => all.to_ne_bytes(),
            None => self.entries.get(index).map(|entry| entry.export.volume.verifier()).unwrap_or_default(),
        }
    }

    /// The export with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.export.name() == name)
    }

    /// The index of the export whose volume made a handle. If only one volume has the handle's tag, the handle is not verified here,
    /// because the volume refuses a forged one.
    pub(crate) fn of_handle(&self, handle: &[u8]) -> Option<usize> {
        if self.entries.len() == 1 {
            return Some(0);
        }
        let made = |index: &usize| self.entries.get(*index).is_some_and(|entry| entry.export.volume.made(handle));
        // Handles of earlier versions have no tag.
        let Some(tag) = handle_tag(handle) else { return (0..self.entries.len()).find(made) };
        match self.by_tag.get(usize::from(tag)).map(Vec::as_slice)? {
            [index] => Some(usize::from(*index)),
            several => several.iter().map(|index| usize::from(*index)).find(made),
        }
    }

    /// The export of a MOUNT path, and the names below the export. If one export is inside another, the inner one.
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

/// For each export the indexes of its family. Empty if the export is its only member.
fn families(entries: &[Entry]) -> Vec<Arc<[u16]>> {
    let mut by_name: HashMap<&str, Vec<u16>> = HashMap::new();
    for (place, entry) in entries.iter().enumerate() {
        by_name.entry(entry.export.outermost()).or_default().push(place as u16);
    }
    let by_name: HashMap<&str, Arc<[u16]>> = by_name.into_iter().map(|(name, places)| (name, places.into())).collect();
    let family = |entry: &Entry| by_name.get(entry.export.outermost()).filter(|places| places.len() > 1);
    entries.iter().map(|entry| family(entry).cloned().unwrap_or_default()).collect()
}

/// The names of a path, without those that are empty.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// One connection's view of the exports: the rights of its client in each, evaluated once.
pub struct View {
    /// The client.
    pub(crate) peer: Peer,
    /// Where its calls are counted.
    pub(crate) client: Arc<Client>,
    exports: Arc<Exports>,
    judged: Arc<[Judged]>,       // one per export, in the order of the table
    mount_logged: AtomicBool,    // a refused mount was logged
    crossing_logged: AtomicBool, // a refused name in another file system was logged
    attachment: Option<Arc<Attachment>>,
}

/// The rights of a client in one export.
struct Judged {
    verdict: Result<Rights, Refusal>,
    logged: AtomicBool, // the refusal was logged
}

impl View {
    pub(crate) fn new(exports: Arc<Exports>, peer: Peer, client: Arc<Client>, attachment: Option<Arc<Attachment>>) -> Self {
        let judged = exports.judged_for(&peer);
        Self {
            peer,
            client,
            exports,
            judged,
            mount_logged: AtomicBool::new(false),
            crossing_logged: AtomicBool::new(false),
            attachment,
        }
    }

    /// Logs the first refused mount of the connection.
    pub(crate) fn log_refused_mount(&self, path: &[u8], status: MountStatus) {
        if !self.mount_logged.swap(true, Ordering::Relaxed) {
            // Any peer may send any path. It is escaped so that it cannot forge a log line.
            let path = path.escape_ascii();
            tracing::info!(client = %self.peer.address, %path, ?status, "mount refused");
        }
    }

    /// Logs the first name on this connection that leads into another file system.
    pub(crate) fn log_crossing(&self, export: &Export, name: &[u8]) {
        if !self.crossing_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                client = %self.peer.address,
                volume = export.name(),
                name = %name.escape_ascii(),
                "name refused: it leads into another file system (a mount or a btrfs subvolume inside the volume) or to the place of one that is not mounted; crossmnt = true serves those that are mounted at the start or at a reload"
            );
        }
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    /// The connection's state for channels. `None` if there is no connection.
    pub(crate) const fn attachment(&self) -> Option<&Arc<Attachment>> {
        self.attachment.as_ref()
    }

    /// Whether the client has fenced the connection: no further call of it may begin.
    pub(crate) fn is_fenced(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.is_fenced())
    }

    /// Whether the client may use any export through this listener.
    pub(crate) fn may_use_any_export(&self) -> bool {
        self.peer.role == ListenerRole::Nfs && self.judged.iter().any(|export| export.verdict.is_ok())
    }

    /// The export at an index of the table, and the rights of the client there. A refusal is logged once.
    ///
    /// # Panics
    /// If the table has no such index. Indexes come from [`Exports::of_handle`] and [`Exports::of_path`], and no table is empty.
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
