//! The state that all NFS connections share: exports, counters, stored replies.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use host::Unpoisoned;
use results::filer_stats::ProcedureStats;
use rpc_tls::ServerTls;

use crate::limits::{MOUNTS_MAX, REFUSED_UIDS_LOGGED_MAX};
use crate::nfs::channels::{Attachment, Channels};
use crate::nfs::clients::Clients;
use crate::nfs::exactly_once::ExactlyOnce;
use crate::nfs::exactly_once::reply_cache::ReplyCache;
use crate::nfs::exports::{Exports, View};
use crate::nfs::policy::{Peer, Security};
use crate::nfs::stats::{CountedRow, Stats, row_names};
use crate::nfs::views::{OwnView, Views};

/// The exports, and who is served.
pub struct Config {
    /// The exports with their rules.
    pub exports: Exports,
    /// Uid and gid of an unprivileged filer, which serves only this user. `None`: the process can act as every user.
    pub only: Option<(u32, u32)>,
    /// The port that portmap returns.
    pub port: u16,
}

/// A filer. All connections share it. Each field synchronizes itself.
pub struct Filer {
    pub(crate) only: Option<(u32, u32)>,
    pub(crate) port: u16,
    /// Calls that belong to no export: MOUNT, NULL, and handles that no volume has made.
    pub(crate) stats: Stats,
    /// Calls of exports that are no longer served.
    pub(crate) gone: Stats,
    /// Recognises resends of non-idempotent calls of NFSv3.
    pub(crate) once: Box<dyn ExactlyOnce>,
    pub(crate) channels: Channels,
    pub(crate) clients: Clients,
    views: Views,
    /// Locked when a connection begins or rules change, not by calls.
    exports: Mutex<Arc<Exports>>,
    generation: AtomicU64, // of `exports`
    /// Locked when a connection begins or starts TLS.
    tls: Mutex<Option<ServerTls>>,
    mounts: Mutex<VecDeque<Mount>>,
    refused: Mutex<HashSet<u32>>,
}

/// One entry of MOUNT DUMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) client: IpAddr,
    pub(crate) path: Vec<u8>,
}

impl Filer {
    /// A filer that has served nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config { exports, only, port } = config;
        let generation = AtomicU64::new(exports.generation);
        Self {
            only,
            port,
            stats: Stats::default(),
            gone: Stats::default(),
            once: Box::<ReplyCache>::default(),
            channels: Channels::default(),
            clients: Clients::default(),
            views: Views::default(),
            exports: Mutex::new(Arc::new(exports)),
            generation,
            tls: Mutex::default(),
            mounts: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// The exports that are served now.
    #[must_use]
    pub fn exports(&self) -> Arc<Exports> {
        Arc::clone(&self.exports.lock().unpoisoned())
    }

    /// Whether a rule of any export names a client, whatever else it asks for.
    pub(crate) fn names(&self, client: IpAddr) -> bool {
        self.exports().entries().iter().any(|entry| entry.policy.names(client))
    }

    /// Replaces the exports. Evaluates the rules for each connection again. Calls in progress keep the former exports until their end.
    pub(crate) fn replace_exports(&self, mut exports: Exports) {
        let mut current = self.exports.lock().unpoisoned();
        exports.generation = current.generation + 1;
        let generation = exports.generation;
        let before = std::mem::replace(&mut *current, Arc::new(exports));
        self.generation.store(generation, Ordering::Release);
        drop(current);
        drop(before);
        self.views.replace_all(|view| self.view_with(view, view.peer.security));
    }

    /// Certificates for clients that start TLS. `None` if TLS is off.
    #[must_use]
    pub fn tls(&self) -> Option<ServerTls> {
        self.tls.lock().unpoisoned().clone()
    }

    /// Sets the certificates for connections that start TLS from now on. Other connections keep theirs.
    pub fn set_tls(&self, tls: Option<ServerTls>) {
        *self.tls.lock().unpoisoned() = tls;
    }

    /// The exports as this client sees them now.
    #[must_use]
    pub fn view(&self, peer: Peer) -> Arc<View> {
        self.view_of(peer, None)
    }

    /// The view of a new connection. Reloads replace it.
    pub(crate) fn own_view(&self, peer: Peer, attachment: Arc<Attachment>) -> Arc<OwnView> {
        self.views.add(|| self.view_of(peer, Some(attachment)))
    }

    /// The exports as this connection sees them now.
    fn view_of(&self, peer: Peer, attachment: Option<Arc<Attachment>>) -> Arc<View> {
        Arc::new(View::new(self.exports(), peer, self.clients.of(peer.address), attachment))
    }

    /// The view of the same connection with another security.
    pub(crate) fn view_with(&self, view: &View, security: Security) -> Arc<View> {
        self.view_of(Peer { security, ..view.peer }, view.attachment().cloned())
    }

    /// Replaces the view of a call that has waited, if the exports have been replaced since.
    pub(crate) fn renew(&self, view: &mut Arc<View>) {
        if view.exports().generation != self.generation.load(Ordering::Acquire) {
            *view = self.view_with(view, view.peer.security);
        }
    }

    /// The counters since the start by procedure, for all exports together.
    #[must_use]
    pub fn procedures(&self) -> BTreeMap<String, ProcedureStats> {
        let mut sums = self.stats.rows();
        let mut add = |stats: &Stats| sums.iter_mut().zip(stats.rows()).for_each(|(sum, more)| sum.merge(&more));
        add(&self.gone);
        self.exports().entries().iter().for_each(|entry| add(&entry.export.stats));
        row_names().map(str::to_owned).zip(sums.iter().map(CountedRow::stats)).collect()
    }

    /// Forgets what a reboot would forget: stored replies and the list of mounts.
    pub fn forget(&self) {
        self.once.forget();
        self.mounts().clear();
    }

    /// The mounts that clients have reported. The list is advisory.
    pub(crate) fn mounts(&self) -> MutexGuard<'_, VecDeque<Mount>> {
        self.mounts.lock().unpoisoned()
    }

    /// Remembers a mount, once.
    pub(crate) fn mounted(&self, mount: Mount) {
        let mut mounts = self.mounts();
        if mounts.contains(&mount) {
            return;
        }
        if mounts.len() == MOUNTS_MAX {
            mounts.pop_front();
        }
        mounts.push_back(mount);
    }

    /// Logs a uid that an unprivileged filer cannot serve, once.
    pub(crate) fn refused(&self, uid: u32, own: u32) {
        let mut refused = self.refused.lock().unpoisoned();
        if refused.len() < REFUSED_UIDS_LOGGED_MAX && refused.insert(uid) {
            tracing::warn!(uid, own, "uid refused: an unprivileged filer serves its own uid only");
        }
    }
}
