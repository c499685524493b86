//! COMMITs that the keeper sends for writers, so that they go on writing meanwhile.

use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use super::Retention;
use super::layout::AreaHeader;
use crate::limits::KEEPER_SILENT_MS;
use crate::segment::FileRef;
use crate::sys::clock::monotonic_ms;

impl Retention {
    /// Asks the keeper for the COMMIT of a file. False when there is none, or it has not been heard of lately: then it is for the
    /// writer itself.
    pub(crate) fn ask_for_commit(&self, file: FileRef) -> bool {
        let header = self.header();
        if !header.has_keeper() {
            return false;
        }
        // One at a time: what another writer asked for frees chunks as well.
        if header.commit_file.compare_exchange(0, file.word(), SeqCst, SeqCst).is_ok() {
            header.commit_asked.notify(1);
        }
        true
    }

    /// Without a free chunk: waits for the COMMIT the keeper is sending. False when it sends none, or takes long.
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

    /// Waits for the COMMIT of this file that the keeper was asked for, if it was.
    pub(crate) fn wait_for_commit_of(&self, file: FileRef) {
        let header = self.header();
        header.commit_done.wait_until(|_| {
            let is_asked = header.commit_file.load(SeqCst) == file.word() && header.has_keeper();
            (!is_asked).then_some(())
        });
    }

    /// Whether there is a keeper that was heard of lately.
    pub(crate) fn has_keeper(&self) -> bool {
        self.header().has_keeper()
    }

    /// As the keeper: says that it is there, and waits so long at most for a file whose COMMIT somebody asks for.
    pub(crate) fn asked_commit(&self, longest: Duration) -> Option<FileRef> {
        let header = self.header();
        header.keeper_ms.store(monotonic_ms(), SeqCst);
        let asked = || match header.commit_file.load(SeqCst) {
            0 => None,
            word => Some(FileRef::of_word(word)),
        };
        header.commit_asked.wait_at_most(longest, asked)
    }

    /// As the keeper: the COMMIT asked for was answered, or cannot be had now.
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
