//! The keeper asks for the export while programs wait. It finds a new address of the server, and another volume under the path
//! (docs/design/026-away.md). Each program finds by itself that the same volume is back.

use super::attach::make_successor;
use super::served::{Served, ask, forget_removed, retire_if_replaced};
use super::stored_parts::lock;
use super::{Mount, MountSpec};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::limits::GONE_ASK_MS;
use crate::sys::clock::monotonic_ms;
use std::sync::Arc;
use std::time::Duration;

/// The state of the keeper's check for the export.
#[derive(Debug)]
pub(super) struct ExportWatch {
    spec: MountSpec,
    who: Credentials,
    /// The server gave no answer, or no longer exported the volume, when it was last asked for anything.
    is_away: bool,
    /// When the server was last asked for the export, on the monotonic clock.
    asked_ms: u64,
}

impl ExportWatch {
    pub(super) const fn new(spec: MountSpec, who: Credentials) -> Self {
        Self { spec, who, is_away: false, asked_ms: 0 }
    }

    /// Whether calls of the keeper would only time out.
    pub(super) const fn is_away(&self) -> bool {
        self.is_away
    }

    /// Notes the outcome of a call of the keeper.
    pub(super) fn note(&mut self, outcome: &Result<(), Error>) {
        self.is_away |= matches!(outcome, Err(Error::TimedOut { .. } | Error::ExportGone { .. }));
    }

    /// Asks for the export if a program waits for it, at most once in [`GONE_ASK_MS`].
    pub(super) fn look(&mut self, mount: &Mount) {
        let state = mount.segment.export_state();
        let now_ms = monotonic_ms();
        if !self.is_away && !state.is_gone() && !somebody_waits(mount) || now_ms.saturating_sub(self.asked_ms) < GONE_ASK_MS {
            return;
        }
        self.asked_ms = now_ms;
        let is_missed = state.is_gone();
        let url_root = mount.url_root();
        let served = ask(&mount.segment, &url_root, &self.spec, &self.who, 1, &Arc::default());
        let has_volume = match served {
            Ok(Served::Same(_) | Served::OtherRoot) => true,
            Ok(Served::Refused(_)) => mount.client.check_volume().is_ok(), // the server may export the directory of another URL
            _ => false,
        };
        self.is_away = !has_volume;
        if is_missed && has_volume {
            forget_removed(&mount.segment, &mount.client, &self.spec, &self.who);
        }
        match served {
            Ok(Served::Same(_) | Served::OtherRoot) => state.note_served(),
            Ok(Served::Another) => {
                // If that fails, the next check tries again.
                if matches!(retire_if_replaced(mount.segment.directory(), &url_root, &self.spec, &self.who), Ok(true)) {
                    let _ = make_successor(&self.spec, &self.who, url_root.identity);
                }
            }
            Ok(Served::Refused(_) | Served::Silent(_)) | Err(_) => {}
        }
    }

    /// The mount that replaced this one. `None` if no process made a segment for it.
    pub(super) fn successor(&mut self, mount: &Mount) -> Option<Mount> {
        let directory = mount.segment.directory();
        let _lock = lock(directory).ok()?; // the process that retired the old segment makes the new one under it
        self.is_away = false;
        Mount::attach_as_keeper(&self.spec, &self.who).ok().flatten()
    }
}

/// Whether a call of any process has waited for so long that the server may be gone.
fn somebody_waits(mount: &Mount) -> bool {
    let notes = mount.client.state().route.membership.call_notes();
    notes.is_some_and(|notes| notes.list().iter().any(|call| call.waited >= Duration::from_millis(GONE_ASK_MS)))
}
