//! The keeper: a process that does for all processes of a segment what no caller waits for (docs/design/011-keeper.md). It
//! commits old data and the data of processes that ended, resends, and removes files without a name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;

use super::apart::Announcement;
use super::export_watch::ExportWatch;
use super::keeper_namespaces::forget_ended_namespaces;
use super::keeper_process::{KeeperProgram, Place};
use super::keeper_runs::Ending;
use super::strays::Strays;
use super::{FileRef, Mount, MountSpec};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::FsError;
use crate::limits::{KEEPER_CALL_MS, KEEPER_LOOK_MS, KEEPER_UNUSED_LOOKS};
use crate::options::{ClosePolicy, GonePolicy};
use crate::segment::layout::Slot;
use crate::segment::local;
use crate::sys::clock::{monotonic_ms, monotonic_ns};
use crate::sys::fd::Fd;
use crate::sys::local_file::{open, stat};

/// The keeper of a segment: this process, until the value is dropped.
#[derive(Debug)]
pub struct Keeper {
    place: Option<Place>,
    mount: Arc<Mount>,
    export: ExportWatch,
    /// Its link count is 0 once the segment was removed or replaced.
    segment_file: Arc<Fd>,
    expire: Duration,
    dirty: HashMap<FileRef, Dirty>,
    /// When this process became the keeper of the segment, on the monotonic clock.
    since_ms: u64,
    /// When this process last wrote each mapped file to the server, on the monotonic clock.
    mapped: HashMap<FileRef, u64>,
    /// Consecutive checks that found nothing to do and no attached process.
    unused_looks: u32,
    /// A standby must be started if there is no standby.
    wants_standby: bool,
    /// Announces this mount to other mounts. `None` while the previous keeper still does.
    announcement: Option<Announcement>,
    strays: Strays,
    /// Taken at the end, so that no process attaches to a mount whose keeper has just ended.
    last: Option<Place>,
}

/// A file with uncommitted writes, as the last check found it.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    since_ms: u64,
    /// The slot's counter, which each COMMIT changes.
    clean: u64,
    /// The slot's counter when a COMMIT failed: the keeper does not retry until more is written.
    given_up: Option<u64>,
}

/// The result of a check: files to commit, files to remove, and mapped files to write back.
type Tasks<'t> = (&'t [FileRef], &'t [FileRef], &'t [FileRef]);

impl Keeper {
    /// Becomes the keeper of the mount, if necessary after the existing one has ended. `None` if another process already waits,
    /// or if no process mounted it.
    ///
    /// # Errors
    /// If the shared state cannot be used.
    pub fn enter(spec: &MountSpec, who: &Credentials, expire: Duration) -> Result<Option<Self>, Error> {
        let mut spec = spec.clone();
        let options = &mut spec.url.options;
        (options.soft, options.retries, options.gone) = (true, 0, GonePolicy::Report);
        options.resend_after = options.resend_after.min(Duration::from_millis(KEEPER_CALL_MS));
        let Some(directory) = Mount::directory_of(&spec)? else { return Ok(None) };
        let Some((place, replaced)) = Place::take(&directory).map_err(local("take the keeper's lock"))? else { return Ok(None) };
        let Some(mount) = Mount::attach_as_keeper(&spec, who)? else { return Ok(None) };
        forget_ended_namespaces(&directory);
        let segment_file = segment_file(&mount)?;
        Ok(Some(Self {
            place: Some(place),
            mount: Arc::new(mount),
            export: ExportWatch::new(spec, who.clone()),
            segment_file: Arc::new(segment_file),
            expire,
            dirty: HashMap::new(),
            since_ms: monotonic_ms(),
            mapped: HashMap::new(),
            unused_looks: 0,
            wants_standby: replaced,
            announcement: None,
            strays: Strays::default(),
            last: None,
        }))
    }

    /// Works until the mount is unused and stable, or its segment is gone. `another` starts the standby.
    pub fn run(mut self, another: &KeeperProgram) {
        while self.tend(another) {}
        // `place` is dropped before `last`: the next keeper waits for `last` and then takes the lock of `place`.
        drop(self.place.take());
    }

    /// Serves one segment until it is unused and stable, or gone. True if another segment replaced it, which the keeper must
    /// serve next.
    fn tend(&mut self, another: &KeeperProgram) -> bool {
        let (mount, segment_file, ended) = (Arc::clone(&self.mount), Arc::clone(&self.segment_file), AtomicBool::new(false));
        let since_ms = self.since_ms;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| mount.send_runs_in_time(&ended, since_ms, || is_orphan(&mount, &segment_file)));
            let _ending = Ending { mount: &mount, ended: &ended, thread: sender.thread().clone() };
            while self.look(another) {
                self.wants_standby = true; // not for a program that runs briefly only
                self.serve_writers(Duration::from_millis(KEEPER_LOOK_MS));
            }
        });
        self.follow()
    }

    /// Sends COMMITs, until `pause` has passed, for writers that would otherwise wait for them.
    fn serve_writers(&mut self, pause: Duration) {
        let end = monotonic_ns() + pause.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(end.saturating_sub(monotonic_ns()));
            let Some(retention) = self.mount.retention_within(left, self.since_ms, &AtomicBool::new(false)) else { return };
            let Some(file) = retention.asked_commit(left) else { return };
            if self.may_call() {
                let done = self.mount.client.check_volume().and_then(|()| self.commit(file)); // if this fails, the writer commits
                self.export.note(&done);
            }
            if let Ok(Some(retention)) = self.mount.retention_if_there() {
                retention.commit_is_done();
            }
            if left.is_zero() {
                return; // continuous requests do not delay the next check
            }
        }
    }

    /// Does what is due. Returns false if the segment needs no keeper any more.
    fn look(&mut self, another: &KeeperProgram) -> bool {
        self.export.look(&self.mount);
        if self.is_orphan() {
            return false;
        }
        if self.announcement.is_none() {
            let root = Path::new(OsStr::from_bytes(self.mount.segment.directory().root()));
            self.announcement = Announcement::make(&self.mount.client.parts(), root, self.mount.who.uid, &self.mount.segment);
        }
        self.strays.look(self.mount.segment.directory());
        let due = self.due();
        let hidden = self.hidden_and_closed();
        let mapped = self.mapped_and_due();
        let unsent = self.is_unsent();
        let dead = !self.dirty.is_empty() && self.has_unfinished_records();
        let is_due = !due.is_empty() || !hidden.is_empty() || !mapped.is_empty() || unsent || dead;
        if is_due && self.may_call() {
            let done = self.work((&due, &hidden, &mapped), unsent || dead, dead);
            self.export.note(&done); // if the server is away, this is tried again a second later
        }
        if unsent || !self.is_idle() {
            self.unused_looks = 0;
        } else if self.may_end() {
            return false;
        }
        if self.unused_looks == 0 {
            self.ensure_standby(another);
        }
        true
    }

    fn is_orphan(&self) -> bool {
        is_orphan(&self.mount, &self.segment_file)
    }

    /// Switches to the segment of the volume that the server exports now. Returns false if there is no such segment.
    fn follow(&mut self) -> bool {
        if !self.mount.segment.is_retired() {
            return false;
        }
        let Some(mount) = self.export.successor(&self.mount) else { return false };
        let Ok(segment_file) = segment_file(&mount) else { return false };
        (self.mount, self.segment_file) = (Arc::new(mount), Arc::new(segment_file));
        self.since_ms = monotonic_ms();
        self.announcement = None; // it names the old file system and answers for its locks
        self.dirty.clear();
        self.mapped.clear();
        true
    }

    /// Whether a call may succeed.
    fn may_call(&self) -> bool {
        !self.is_orphan() && !self.export.is_away()
    }

    /// Whether no data, error or hidden name is kept.
    fn is_idle(&self) -> bool {
        let segment = &self.mount.segment;
        !segment.has_silly_files()
            && self.mount.mapped_files().next().is_none()
            && !segment.live_files().any(|(file, slot)| slot.has_unsaved() && !self.is_given_up(file, slot))
    }

    fn is_given_up(&self, file: FileRef, slot: &Slot) -> bool {
        self.dirty.get(&file).is_some_and(|dirty| dirty.given_up == Some(slot.dirty.load(Acquire)))
    }

    /// Whether the mount was idle and unused for enough checks. If so, no process attaches until this one has ended.
    fn may_end(&mut self) -> bool {
        let Some(alone) = Place::without_users(self.mount.segment.directory()) else {
            self.unused_looks = 0;
            return false;
        };
        self.unused_looks += 1;
        // Checked again: a process may have written before it ended.
        if self.unused_looks < KEEPER_UNUSED_LOOKS || !self.is_idle() {
            return false;
        }
        self.mount.note_settled();
        self.last = Some(alone);
        true
    }

    fn ensure_standby(&self, another: &KeeperProgram) {
        if self.wants_standby && !Place::has_standby(self.mount.segment.directory()) {
            let _ = another.start(); // if that fails, the next check tries again
        }
    }

    /// Notes which files are dirty, and since when. Returns those whose COMMIT is due.
    fn due(&mut self) -> Vec<FileRef> {
        let now_ms = monotonic_ms();
        let expire_ms = self.expire.as_millis() as u64;
        let mut seen = HashMap::new();
        let mut due = Vec::new();
        // Whether no program is left that would sync the file.
        let asked = std::cell::OnceCell::new();
        let unused = || *asked.get_or_init(|| Place::without_users(self.mount.segment.directory()).is_some());
        for (file, slot) in self.mount.segment.live_files().filter(|(_, slot)| slot.has_unsaved()) {
            let (clean, dirty) = (slot.clean.load(Acquire), slot.dirty.load(Acquire));
            let known = self.dirty.get(&file).copied().filter(|known| known.clean == clean);
            let state = known.unwrap_or(Dirty { since_ms: now_ms, clean, given_up: None });
            seen.insert(file, state);
            if state.given_up == Some(dirty) {
                continue;
            }
            let left = (self.mount.close == ClosePolicy::Commit || unused()) && self.is_closed(file);
            if left || now_ms.saturating_sub(state.since_ms) >= expire_ms {
                due.push(file);
            }
        }
        self.dirty = seen;
        due
    }

    /// Mapped files that no process maps any more, or into which programs may have stored a while ago.
    fn mapped_and_due(&mut self) -> Vec<FileRef> {
        let now_ms = monotonic_ms();
        let expire_ms = self.expire.as_millis() as u64;
        let mut seen = HashMap::new();
        let mut due = Vec::new();
        for (file, slot) in self.mount.mapped_files() {
            let written_ms = self.mapped.get(&file).copied().unwrap_or(now_ms);
            let is_old = slot.has_stores() && now_ms.saturating_sub(written_ms) >= expire_ms;
            seen.insert(file, if is_old { now_ms } else { written_ms });
            if is_old || self.mount.is_left(file, slot) {
                due.push(file);
            }
        }
        self.mapped = seen;
        due
    }

    /// Files without a name that no process has open.
    fn hidden_and_closed(&self) -> Vec<FileRef> {
        if !self.mount.segment.has_silly_files() {
            return Vec::new();
        }
        self.mount.segment.silly_files().into_iter().filter(|file| self.is_closed(*file)).collect()
    }

    /// Whether no process has the file open. The lock that this takes is released at once: a removal meanwhile would leave
    /// a hidden name.
    fn is_closed(&self, file: FileRef) -> bool {
        matches!(self.mount.segment.if_unopened(file), Ok(Some(_)))
    }

    /// Whether an endpoint has sent a newer verifier than the one under which it has all retained data that it acknowledged.
    fn is_unsent(&self) -> bool {
        let segment = &self.mount.segment;
        segment.header().retain_bytes.load(Relaxed) != 0 && !segment.verifiers().restarted_with_data().is_empty()
    }

    /// Whether a writer was killed between a WRITE of retained data and its reply.
    fn has_unfinished_records(&self) -> bool {
        matches!(self.mount.retention_if_there(), Ok(Some(retention)) if retention.has_left_records())
    }

    fn work(&mut self, (due, hidden, mapped): Tasks<'_>, resend: bool, force: bool) -> Result<(), Error> {
        // Checks that the server answers and exports the volume of these files.
        self.mount.client.check_volume()?;
        if resend {
            self.mount.settle(force)?;
        }
        for file in hidden {
            self.mount.remove_if_unopened(*file);
        }
        for file in mapped {
            if self.is_orphan() {
                return Ok(());
            }
            let _ = self.mount.tend_mapped(*file, true); // after a refusal it is tried again: no other copy of the bytes exists
        }
        for file in due {
            if self.is_orphan() {
                return Ok(());
            }
            self.commit(*file)?;
        }
        Ok(())
    }

    fn commit(&mut self, file: FileRef) -> Result<(), Error> {
        let Some(slot) = self.mount.segment.slot(file) else { return Ok(()) };
        match self.mount.commit_as_writer(file, slot) {
            Ok(()) => Ok(()),
            Err(Error::Fs(refused)) => {
                if matches!(refused, FsError::Stale | FsError::BadHandle)
                    && let Some(unopened) = self.mount.segment.if_unopened(file)?
                {
                    // Another host removed the file, so nothing of it is needed.
                    self.mount.segment.release(file, &unopened)?;
                } else if let Some(dirty) = self.dirty.get_mut(&file) {
                    dirty.given_up = Some(slot.dirty.load(Acquire));
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether the segment was removed, replaced or retired.
fn is_orphan(mount: &Mount, segment_file: &Fd) -> bool {
    mount.segment.is_retired() || !stat(segment_file).is_ok_and(|found| found.is_named)
}

fn segment_file(mount: &Mount) -> Result<Fd, Error> {
    let file = open(&mount.segment.directory().segment_path(), libc::O_RDONLY, 0);
    Ok(file.map_err(local("open the file"))?)
}

impl Mount {
    /// Commits a file that other processes wrote. The file's next fsync reports a refusal. If the server does not answer, that
    /// says nothing about the data.
    fn commit_as_writer(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        self.commit_as_allowed(file, slot, |error| match error {
            Error::Fs(FsError::Stale | FsError::BadHandle) => false,
            Error::Fs(_) => self.segment.slot(file).is_some(),
            _ => false,
        })
    }
}
