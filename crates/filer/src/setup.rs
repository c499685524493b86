//! Makes a configuration take effect: at the start, and again while clients are connected.

mod edit;
mod inside;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub(crate) use edit::ChangeError;
use host::Unpoisoned;
use results::sizes::{about_text, size_text};
use rpc_tls::ServerTls;
use volume::medium::{Medium, Profile};
use volume::{Mounts, Tree, Volume};

use crate::config::{ConfigError, Settings, VolumeSettings};
use crate::limits::{OPENING_THREADS, TRANSFER_MAX};
use crate::nfs::export::Export;
use crate::nfs::exports::{Entry, Exports};
use crate::nfs::filer::Filer;
use crate::tls::TlsFiles;

/// The configuration in force.
pub struct Setup {
    settings: Settings,
    default_state: PathBuf,
    tls: Option<ServerTls>,
    /// Volumes that are no longer served. An idle connection may still keep one open.
    retired: Vec<(volume::Config, Weak<Export>)>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reloaded {
    /// Names of the volumes that were added.
    pub added: Vec<String>,
    /// Names of the volumes that were removed.
    pub removed: Vec<String>,
    /// Names of the volumes whose rules or quota changed.
    pub changed: Vec<String>,
    /// Changes in the file that take effect only at the next start.
    pub at_next_start: Vec<String>,
}

/// Which quotas are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotas {
    /// All: the file has the quota, or the user forces it.
    Any,
    /// Quotas under which a client can still write.
    OfUse,
}

impl Setup {
    /// Opens the volumes of a configuration. `default_state` is the directory for records if the file names none.
    ///
    /// # Errors
    /// The volume that cannot be served, and the reason.
    pub fn open(mut settings: Settings, default_state: PathBuf) -> Result<(Self, Exports), ConfigError> {
        let served = check_apart(&settings, None)?;
        inside::add_mounted(&mut settings, served);
        let tls = load_tls(&settings)?;
        let entries = open_all(&settings)?;
        let exports = Exports::new(entries)?;
        inside::guard(&settings, &exports);
        Ok((Self { settings, default_state, tls, retired: Vec::new() }, exports))
    }

    /// The configuration in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Certificates and key. `None` if TLS is off.
    #[must_use]
    pub fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    /// Reads the file again and makes the filer serve by it. Connections stay open.
    ///
    /// # Errors
    /// The fault in the file, or the volume that cannot be served. In that case nothing has changed.
    pub(crate) fn reload(&mut self, filer: &Filer) -> Result<Reloaded, ConfigError> {
        let new = Settings::read(&self.settings.file, &self.default_state)?;
        self.apply(new, filer, Quotas::Any)
    }

    fn apply(&mut self, mut new: Settings, filer: &Filer, quotas: Quotas) -> Result<Reloaded, ConfigError> {
        check_apart(&new, None)?;
        let tls = load_tls(&new)?;
        let current = filer.exports();
        let mut done = Reloaded { at_next_start: self.keep_fixed(&mut new), ..Reloaded::default() };
        // These are added last, because a file system inside a volume has the volume's options.
        let served = check_apart(&new, Some(&current))?;
        inside::add_mounted(&mut new, served);
        let mut entries = Vec::new();
        for volume in &new.volumes {
            let before = self.settings.volumes.iter().find(|before| before.name == volume.name);
            // A file system that replaced another one at the same place is a new volume.
            let before = before.filter(|before| volume.inside_of.is_none() || before.volume == volume.volume);
            let (Some(_), Some(entry)) = (before, current.named(&volume.name)) else {
                if let Some(entry) = open_or_leave_out(&self.settings, volume, self.retired(volume), quotas)? {
                    done.added.push(volume.name.clone());
                    entries.push(entry);
                }
                continue;
            };
            if entry.policy != volume.policy {
                done.changed.push(volume.name.clone());
            }
            entries.push(Entry { export: Arc::clone(&entry.export), policy: volume.policy.clone() });
        }
        let exports = Exports::new(entries)?;
        for name in self.set_quotas(&new, &exports, quotas)? {
            if !done.changed.contains(&name) {
                done.changed.push(name);
            }
        }
        let stays = |entry: &Entry| exports.entries().iter().any(|other| Arc::ptr_eq(&other.export, &entry.export));
        let gone = |entry: &&Entry| !stays(entry);
        let removed: Vec<&Entry> = current.entries().iter().filter(gone).collect();
        filer.set_tls(tls.clone());
        self.tls = tls;
        let is_new = |entry: &&Entry| done.added.iter().any(|name| name == entry.export.name());
        exports.entries().iter().filter(is_new).for_each(|entry| log_served(&entry.export));
        inside::guard(&new, &exports);
        filer.replace_exports(exports);
        self.retired.retain(|(_, export)| export.strong_count() > 0);
        for entry in removed {
            done.removed.push(entry.export.name().to_owned());
            self.retire(filer, &entry.export);
        }
        self.settings = new;
        let (added, removed, changed) = (done.added.join(", "), done.removed.join(", "), done.changed.join(", "));
        tracing::info!(added, removed, changed, "configuration loaded");
        if !done.at_next_start.is_empty() {
            tracing::warn!(changes = done.at_next_start.join(", "), "changes that take effect at the next start");
        }
        Ok(done)
    }

    /// Sets the quotas that have changed and returns the names of their volumes. If one quota cannot be set, restores the others.
    fn set_quotas(&self, new: &Settings, exports: &Exports, quotas: Quotas) -> Result<Vec<String>, ConfigError> {
        let mut set: Vec<(&VolumeSettings, Option<u64>)> = Vec::new();
        for volume in &new.volumes {
            let Some(before) = self.settings.volumes.iter().find(|before| before.name == volume.name) else { continue };
            let Some(entry) = exports.named(&volume.name).filter(|_| before.quota != volume.quota) else { continue };
            set.push((volume, before.quota));
            if let Err(error) = set_quota(new, volume, &entry.export.volume, quotas) {
                for (volume, before) in set {
                    let _ = exports.named(&volume.name).map(|entry| entry.export.volume.set_quota(before));
                }
                return Err(error);
            }
        }
        Ok(set.into_iter().map(|(volume, _)| volume.name.clone()).collect())
    }

    /// Restores settings that cannot change while the filer runs. Returns the ones that the file changes.
    fn keep_fixed(&self, new: &mut Settings) -> Vec<String> {
        let old = &self.settings;
        let mut other = Vec::new();
        for (key, differs) in [
            ("listen", new.listen != old.listen),
            ("portmap", new.portmap != old.portmap),
            ("state", new.state != old.state),
            ("admin", new.admin != old.admin),
            ("metrics", new.metrics != old.metrics),
        ] {
            if differs {
                other.push(format!("{key} of [filer]"));
            }
        }
        if (&new.iscsi.portals, &new.iscsi.base_name) != (&old.iscsi.portals, &old.iscsi.base_name) {
            other.push("listen, portals or iqn of [iscsi]".to_owned());
        }
        for volume in &mut new.volumes {
            let Some(before) = old.volumes.iter().find(|before| before.name == volume.name) else { continue };
            let changed = keep_opened(volume, before);
            if !changed.is_empty() {
                other.push(format!("{} of volume {:?}", changed.join(", "), volume.name));
            }
        }
        new.iscsi.portals.clone_from(&old.iscsi.portals);
        new.iscsi.base_name.clone_from(&old.iscsi.base_name);
        new.metrics = old.metrics;
        (new.listen, new.portmap) = (old.listen.clone(), old.portmap.clone());
        (new.state, new.admin) = (old.state.clone(), old.admin.clone());
        other
    }

    /// Stops serving a volume: flushes what was written, and adds its counters to the totals of volumes no longer served.
    fn retire(&mut self, filer: &Filer, export: &Arc<Export>) {
        filer.gone.add_all(&export.stats);
        if let Err(error) = export.volume.flush_all() {
            tracing::error!(volume = export.name(), %error, "failed to flush a volume that is no longer served");
        }
        export.volume.close_when_unused(true);
        if let Some(volume) = self.settings.volumes.iter().find(|volume| volume.name == export.name()) {
            self.retired.push((volume.volume.clone(), Arc::downgrade(export)));
        }
    }

    /// The open volume of this configuration, if it was served before.
    fn retired(&self, wanted: &VolumeSettings) -> Option<Volume> {
        let found = self.retired.iter().find(|(config, export)| *config == wanted.volume && export.strong_count() > 0)?;
        let volume = found.1.upgrade()?.volume.clone();
        volume.close_when_unused(false);
        Some(volume)
    }
}

/// Reads the certificates and keys again. Files that were renewed under the same name count too.
fn load_tls(settings: &Settings) -> Result<Option<ServerTls>, ConfigError> {
    let loaded = settings.tls.as_ref().map(TlsFiles::load).transpose();
    loaded.map_err(|error| {
        let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
        ConfigError::Tls { file: settings.file.clone(), reason: with_causes(&error) + &hint }
    })
}

/// Restores the options with which a volume was opened. Returns the keys that the file changes.
fn keep_opened(new: &mut VolumeSettings, before: &VolumeSettings) -> Vec<&'static str> {
    let (to, from) = (&new.volume, &before.volume);
    let changed: Vec<_> = [
        ("path", new.path != before.path),
        ("dir", to.dir != from.dir),
        ("state", to.state_dir != from.state_dir),
        ("medium", new.medium != before.medium),
        ("durability", to.options.durability != from.options.durability),
        ("cache", to.options.cache != from.options.cache),
        ("read_ahead", to.options.read_ahead != from.options.read_ahead),
        ("exclusive", to.options.exclusive != from.options.exclusive),
        ("faults", new.faults != before.faults),
        ("loss_layer", to.loss.is_some() != from.loss.is_some()),
        ("loss_seed", to.loss.is_some() == from.loss.is_some() && to.loss != from.loss),
    ]
    .into_iter()
    .filter_map(|(key, differs)| differs.then_some(key))
    .collect();
    new.volume = before.volume.clone();
    new.medium.clone_from(&before.medium);
    new.path.clone_from(&before.path);
    new.faults.clone_from(&before.faults);
    changed
}

/// Opens all volumes of the settings. If one fails, no volume stays open. Each open waits for flushes of its state. The disk can combine
/// the flushes of concurrent opens.
fn open_all(settings: &Settings) -> Result<Vec<Entry>, ConfigError> {
    let (next, opened) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((nth, volume)) = settings.volumes.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let entry = open_or_leave_out(settings, volume, None, Quotas::Any);
            if entry.is_err() {
                next.store(settings.volumes.len(), Ordering::Relaxed);
            }
            opened.lock().unpoisoned().insert(nth, entry);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..OPENING_THREADS.min(settings.volumes.len()) {
            scope.spawn(work);
        }
        work();
    });
    let opened = opened.into_inner().unpoisoned();
    let (opened, mut failed): (Vec<_>, Vec<_>) = opened.into_values().partition(Result::is_ok);
    let entries: Vec<Entry> = opened.into_iter().flatten().flatten().collect();
    match failed.drain(..).find_map(Result::err) {
        None => Ok(entries),
        Some(error) => {
            entries.iter().for_each(|entry| entry.export.volume.discard_new_state());
            Err(error)
        }
    }
}

/// Opens a volume. If a file system inside another volume cannot be served, this logs the reason and returns `None`.
fn open_or_leave_out(
    settings: &Settings,
    wanted: &VolumeSettings,
    opened: Option<Volume>,
    quotas: Quotas,
) -> Result<Option<Entry>, ConfigError> {
    match open(settings, wanted, opened, quotas) {
        Err(error) if wanted.inside_of.is_some() => {
            tracing::warn!(%error, "a file system inside a volume is not served");
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Opens a volume, unless it is open already.
fn open(settings: &Settings, wanted: &VolumeSettings, opened: Option<Volume>, quotas: Quotas) -> Result<Entry, ConfigError> {
    let refused = |reason| refused(settings, wanted, reason);
    // A volume that was still open keeps the faults that were set.
    let fresh = opened.is_none();
    let volume = match opened {
        Some(volume) => volume,
        None => Volume::open(wanted.volume.clone()).map_err(|error| refused(with_causes(&error)).with_hint(error.hint()))?,
    };
    // A volume that is refused leaves nothing on the host.
    set_quota(settings, wanted, &volume, quotas).inspect_err(|_| {
        if fresh {
            volume.discard_new_state()
        }
    })?;
    let export = Export::new(&wanted.name, &wanted.path, volume).inside_of(wanted.inside_of.clone());
    let export = match &wanted.medium {
        Some(medium) => {
            let profile = Profile::parse(medium).map_err(|error| refused(error.to_string()))?;
            export.on_medium(Medium::new(profile))
        }
        None => export,
    };
    for fault in wanted.faults.iter().filter(|_| fresh) {
        export.set_fault(fault.clone()).map_err(|error| refused(format!("fault {fault}: {error}")))?;
    }
    Ok(Entry { export: Arc::new(export), policy: wanted.policy.clone() })
}

/// Logs that clients can use an export. Called when nothing can refuse the export any more.
pub fn log_served(export: &Export) {
    let verifier = format!("{:016x}", u64::from_be_bytes(export.volume.verifier()));
    let (volume, path, dir) = (export.name(), export.path(), export.volume.dir().display());
    let identity = export.volume.identity().as_str();
    tracing::info!(%dir, volume, path, %verifier, identity, "serving a volume");
    if let Err(error) = rustix::fs::access(export.volume.dir(), rustix::fs::Access::WRITE_OK) {
        tracing::warn!(%dir, volume, %error, "this process cannot write to the directory: clients cannot create files there");
    }
}

/// Sets the quota of a volume. If nothing could be written under it, returns an error, unless all quotas are accepted ([`Quotas::Any`]).
/// The quota is set in both cases.
fn set_quota(settings: &Settings, wanted: &VolumeSettings, volume: &Volume, quotas: Quotas) -> Result<(), ConfigError> {
    let counted = volume.set_quota(wanted.quota);
    counted.map_err(|error| refused(settings, wanted, format!("its files cannot be counted for the quota: {error}")))?;
    match volume.quota().and_then(|quota| too_small(quota.limit_bytes, quota.used_bytes)) {
        Some(reason) if quotas == Quotas::OfUse => {
            Err(refused(settings, wanted, reason).with_hint(Some("choose a larger quota, or --force to set this one".into())))
        }
        Some(reason) => {
            tracing::warn!(volume = wanted.name, reason, "the quota refuses writes");
            Ok(())
        }
        None => Ok(()),
    }
}

/// The reason why nothing can be written under a quota. `None` if something can.
fn too_small(limit: u64, used: u64) -> Option<String> {
    let (quota, write) = (size_text(limit), u64::from(TRANSFER_MAX));
    if limit < used {
        return Some(format!("{} are in use: with a quota of {quota} every write that allocates would fail", about_text(used)));
    }
    (limit < write).then(|| format!("a quota of {quota} is less than one WRITE of a client ({})", size_text(write)))
}

fn refused(settings: &Settings, volume: &VolumeSettings, reason: String) -> ConfigError {
    ConfigError::Volume { name: volume.name.clone(), file: settings.file.clone(), line: volume.line, reason, hint: None }
}

/// The error for a directory that cannot be opened.
fn no_directory(settings: &Settings, volume: &VolumeSettings, error: &io::Error) -> ConfigError {
    let dir = volume.volume.dir.display();
    let is_missing = error.kind() == ErrorKind::NotFound;
    ConfigError::Volume {
        name: volume.name.clone(),
        file: settings.file.clone(),
        line: volume.line,
        reason: if is_missing { format!("{dir} does not exist") } else { format!("{dir}: {error}") },
        hint: match error.kind() {
            ErrorKind::NotFound => Some(format!("create it: mkdir -p {dir}")),
            ErrorKind::PermissionDenied => Some("run the filer as a user who may enter it, or as root".to_owned()),
            _ => None,
        },
    }
}

/// An error and its causes in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Refuses volume directories that are inside each other, also through bind mounts, because one file would have two sets of rules.
/// Refuses a state directory inside a volume, because the keys of file handles would be served. `current`: the exports before a reload,
/// which keep their directories. Returns the directories.
fn check_apart(settings: &Settings, current: Option<&Exports>) -> Result<Vec<Tree>, ConfigError> {
    let mounts = Mounts::read().map_err(|source| ConfigError::Read { file: "/proc/self/mountinfo".into(), source })?;
    let mut known: Vec<(&str, PathBuf, Tree)> = Vec::new();
    for volume in settings.volumes.iter().filter(|volume| volume.inside_of.is_none()) {
        let kept = current.and_then(|exports| exports.named(&volume.name)).map(|entry| &entry.export.volume);
        let (dir, tree) = match kept {
            Some(kept) => (kept.dir().to_path_buf(), kept.tree(&mounts)),
            None => directory(&mounts, &volume.volume.dir).map_err(|error| no_directory(settings, volume, &error))?,
        };
        let nested = |other: &Path| dir.starts_with(other) || other.starts_with(&dir);
        if let Some((other, at, _)) = known.iter().find(|(_, at, other)| nested(at) || other.overlaps(&tree)) {
            let how = if nested(at) { "" } else { " (through a bind mount)" };
            let reason =
                format!("{} and the directory of volume {other:?} are the same{how}, or one is in the other", dir.display());
            let hint = "give each volume a separate directory that is not inside another volume's";
            return Err(refused(settings, volume, reason).with_hint(Some(hint.to_owned())));
        }
        if std::path::absolute(&settings.state).is_ok_and(|state| state.starts_with(&dir)) {
            let reason = format!("the filer's records in {} lie in {}", settings.state.display(), dir.display());
            let hint = "name a directory elsewhere: state = in [filer]";
            return Err(refused(settings, volume, reason).with_hint(Some(hint.to_owned())));
        }
        known.push((&volume.name, dir, tree));
    }
    Ok(known.into_iter().map(|(.., tree)| tree).collect())
}

fn directory(mounts: &Mounts, dir: &Path) -> io::Result<(PathBuf, Tree)> {
    let dir = dir.canonicalize()?;
    let tree = mounts.tree(&dir)?;
    Ok((dir, tree))
}
