//! The results of EXTENDED COPY for RECEIVE COPY RESULTS (SPC-4 5.17.4).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::nexus::Nexus;
use crate::limits::SCSI_COPY_LISTS_MAX;

/// The copies whose results a nexus can still request.
#[derive(Default)]
pub(super) struct CopyResults(Mutex<VecDeque<CopyResult>>);

#[derive(Debug, Clone)]
pub(super) struct CopyResult {
    pub(super) nexus: Nexus,
    /// The list identifier.
    pub(super) list: u8,
    pub(super) failed: bool,
    /// Number of copied segments and bytes.
    pub(super) segments: u16,
    pub(super) bytes: u32,
}

impl CopyResults {
    pub(super) fn forget(&self, nexus: &Nexus) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|result| result.nexus != *nexus);
    }

    /// The result of a nexus with this list identifier.
    pub(super) fn of(&self, nexus: &Nexus, list: u8) -> Option<CopyResult> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().find(|result| result.nexus == *nexus && result.list == list).cloned()
    }

    /// Keeps a result. At the limit, the oldest result is dropped.
    pub(super) fn keep(&self, result: CopyResult) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|other| other.nexus != result.nexus || other.list != result.list);
        if results.len() >= SCSI_COPY_LISTS_MAX {
            results.pop_front();
        }
        results.push_back(result);
    }
}
