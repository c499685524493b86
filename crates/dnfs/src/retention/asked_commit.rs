//! COMMITs that the keeper sends for writers, so that the writers continue meanwhile.

use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use super::Retention;
use super::layout::AreaHeader;
use crate::limits::KEEPER_SILENT_MS;
use crate::segment::FileRef;
use crate::sys::clock::monotonic_ms;

impl Retention {
    /// Asks the keeper for the COMMIT of a file. False if there is no keeper, or if it was silent lately: the writer then sends
    /// it.
    pub(crate) fn ask_for_commit(&self, file: FileRef) -> bool {
        let header = self.header();
        if !header.has_keeper() {
            return false;
        }
        // One at a time: the COMMIT for another writer frees chunks as well.
        if header.commit_file.compare_exchange(0, file.word(), SeqCst, SeqCst).is_ok() {
            header.commit_asked.notify(1);
        }
        true
    }

    /// For a writer without a free chunk: waits for the COMMIT that the keeper is sending. Returns false if it sends no COMMIT,
    /// or takes too long.
    pub(crate) fn wait_for_commit(&self) -> bool {
        let header = self.header();
        if header.commit_file.load(SeqCst) == 0 || !header.has_keeper() {
            return false;
        }
        header.commit_done.wait_until(|overdue| match header.commit_file.load(SeqCst) {
            0 => Some(true),
            _ => overdue.then_some(false),
        })
    }

    /// Waits for the COMMIT of this file if the keeper was asked for it.
    pub(crate) fn wait_for_commit_of(&self, file: FileRef) {
        let header = self.header();
        header.commit_done.wait_until(|_| {
            let is_asked = header.commit_file.load(SeqCst) == file.word() && header.has_keeper();
            (!is_asked).then_some(())
        });
    }

    /// Whether a keeper has reported lately.
    pub(crate) fn has_keeper(&self) -> bool {
        self.header().has_keeper()
    }

    /// For the keeper: reports that it is alive, and waits, `longest` at most, for a request for a COMMIT.
    pub(crate) fn asked_commit(&self, longest: Duration) -> Option<FileRef> {
        let header = self.header();
        header.keeper_ms.store(monotonic_ms(), SeqCst);
        let asked = || match header.commit_file.load(SeqCst) {
            0 => None,
            word => Some(FileRef::of_word(word)),
        };
        header.commit_asked.wait_at_most(longest, asked)
    }

    /// For the keeper: notes that the requested COMMIT was answered, or is not possible now.
    pub(crate) fn commit_is_done(&self) {
        let header = self.header();
        header.keeper_ms.store(monotonic_ms(), SeqCst);
        header.commit_file.store(0, SeqCst);
        header.commit_done.notify(u32::MAX);
    }
}

impl AreaHeader {
    fn has_keeper(&self) -> bool {
        monotonic_ms().saturating_sub(self.keeper_ms.load(SeqCst)) < KEEPER_SILENT_MS
    }
}
