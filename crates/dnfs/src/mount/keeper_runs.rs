//! The keeper sends coalesced writes before they are 50 ms old (docs/design/021-gathered-writes.md). It does so in a thread of
//! its own, since its other calls may wait for a disk of the server.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::SeqCst;
use std::thread::{Thread, park_timeout};
use std::time::Duration;

use super::{FileRef, Mount};
use crate::limits::{KEEPER_FIRST_LOOK_MS, KEEPER_FIRST_LOOKS_MS, KEEPER_LOOK_MS, RUN_AGE_MS, RUN_RETRY_MS, RUN_SENDERS_MAX};
use crate::retention::Retention;
use crate::sys::clock::{monotonic_ms, sleep};

/// Ends the thread when it is dropped.
pub(super) struct Ending<'m> {
    pub(super) mount: &'m Mount,
    pub(super) ended: &'m AtomicBool,
    pub(super) thread: Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        if let Ok(Some(retention)) = self.mount.retention_if_there() {
            retention.end_wait_for_run();
        }
        self.thread.unpark();
    }
}

impl Mount {
    /// Waits for the area of retained data, which a program makes, for `longest` at most. This process became the keeper at
    /// `since_ms` on the monotonic clock. Programs coalesce no writes before the keeper has reported, so a new keeper checks
    /// often. Returns `None` as soon as `ended` is true.
    pub(super) fn retention_within(&self, longest: Duration, since_ms: u64, ended: &AtomicBool) -> Option<&Retention> {
        let end_ms = monotonic_ms() + longest.as_millis() as u64;
        while !ended.load(SeqCst) {
            if let Ok(Some(retention)) = self.retention_if_there() {
                return Some(retention);
            }
            let now_ms = monotonic_ms();
            let is_new = now_ms < since_ms + KEEPER_FIRST_LOOKS_MS;
            let pause_ms = if is_new { KEEPER_FIRST_LOOK_MS } else { KEEPER_LOOK_MS };
            match end_ms.saturating_sub(now_ms) {
                0 => return None,
                left_ms => park_timeout(Duration::from_millis(left_ms.min(pause_ms))),
            }
        }
        None
    }

    /// Sends runs of the mount's files as they become old, until `ended`. Sends nothing while `is_orphan`.
    pub(super) fn send_runs_in_time(&self, ended: &AtomicBool, since_ms: u64, is_orphan: impl Fn() -> bool) {
        let longest = Duration::from_millis(KEEPER_LOOK_MS);
        while !ended.load(SeqCst) {
            let Some(retention) = self.retention_within(longest, since_ms, ended) else { continue };
            let Some(since_ms) = retention.wait_for_run(&self.segment, longest) else { continue };
            let due_ms = since_ms + RUN_AGE_MS;
            sleep(Duration::from_millis(due_ms.saturating_sub(monotonic_ms()).min(RUN_AGE_MS)));
            let now_ms = monotonic_ms();
            let due = retention.begun_runs(&self.segment).filter(|(_, since_ms)| since_ms + RUN_AGE_MS <= now_ms);
            let due: Vec<FileRef> = due.map(|(file, _)| file).collect();
            if !due.is_empty() && (is_orphan() || !self.send_runs(&due)) {
                park_timeout(Duration::from_millis(RUN_RETRY_MS));
            }
        }
    }

    /// Sends the runs of these files. Returns whether the server answered for all of them. A file's
    /// next fsync reports a refusal.
    fn send_runs(&self, files: &[FileRef]) -> bool {
        let send = |files: &[FileRef]| {
            files.iter().fold(true, |all, file| {
                // The file may be closed. Its slot must not be given to another file meanwhile.
                let Ok(Some(_pinned)) = self.segment.pin(*file) else { return false };
                self.send_written(*file).is_ok() && all
            })
        };
        let [first, rest @ ..] = files else { return true };
        if rest.is_empty() {
            return send(&[*first]);
        }
        std::thread::scope(|scope| {
            let share = files.len().div_ceil(RUN_SENDERS_MAX);
            let senders: Vec<_> = files.chunks(share).map(|files| scope.spawn(move || send(files))).collect();
            senders.into_iter().all(|sender| sender.join().unwrap_or(false)) // the scope waits for the others
        })
    }
}
