//! Which retained records a resend sends.

use super::Retention;
use super::block_locks::places_of;
use super::layout::{BLOCK_LOCK_COUNT, Record};
use super::record::{Extent, State};
use crate::segment::{EndpointSet, FileRef, Segment};

/// What a resend sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything that is retained.
    All,
    /// What these endpoints acknowledged and may have lost, what may have reached no endpoint, and newer data of the same blocks.
    Endpoints(EndpointSet),
    /// Everything of a file, so that one endpoint has all of it.
    File(FileRef),
}

/// Bytes of an [`Entry`].
pub(crate) const ENTRY_BYTES: usize = 16;
/// A record to send: its order number and its chunk, big-endian, so that sorting is by order.
pub(crate) type Entry = [u8; ENTRY_BYTES];

/// The chunk of an entry.
pub(crate) fn chunk_of(entry: &Entry) -> usize {
    u128::from_be_bytes(*entry) as u64 as usize
}

impl Retention {
    /// Fills `entries` from its start with the records of a scope, by order. Returns their number. The caller holds the gate.
    pub(crate) fn fill_entries(&self, segment: &Segment, scope: Scope, entries: &mut [Entry]) -> usize {
        let mut count = 0;
        for (chunk, record) in self.records().iter().enumerate() {
            let is_of_file = !matches!(scope, Scope::File(file) if record.file() != file);
            if is_of_file
                && self.is_to_be_sent(segment, record)
                && let (Some(extent), Some(entry)) = (record.extent(), entries.get_mut(count))
            {
                *entry = ((u128::from(extent.order) << 64) | chunk as u128).to_be_bytes();
                count += 1;
            }
        }
        let Some(found) = entries.get_mut(..count) else { return 0 };
        found.sort_unstable();
        match scope {
            Scope::All | Scope::File(_) => count,
            Scope::Endpoints(lost) => self.keep_lost(lost, found),
        }
    }

    /// Moves the entries that must be sent if these endpoints lost their data to the front. Returns their number. Newer data of a
    /// block that is sent must be sent as well, whichever endpoint has it: the older data would overwrite it.
    fn keep_lost(&self, lost: EndpointSet, entries: &mut [Entry]) -> usize {
        let mut sent = Blocks([0; BLOCK_LOCK_COUNT / 64]);
        let mut kept = 0;
        for place in 0..entries.len() {
            let entry = entries[place];
            let Some(record) = self.records().get(chunk_of(&entry)) else { continue };
            let Some(extent) = record.extent() else { continue };
            if is_lost(record, lost) || sent.contains_some(&extent) {
                sent.add(&extent);
                entries[kept] = entry;
                kept += 1;
            }
        }
        kept
    }
}

fn is_lost(record: &Record, lost: EndpointSet) -> bool {
    record.life().state() == State::Published || lost.contains(record.endpoint())
}

/// A set of blocks. Blocks with the same lock word count as one, which costs a WRITE, not correctness.
struct Blocks([u64; BLOCK_LOCK_COUNT / 64]);

impl Blocks {
    fn places(extent: &Extent) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = places_of(extent.file, extent.offset, extent.length as usize);
        (first..first + count).map(|place| place % BLOCK_LOCK_COUNT)
    }

    fn contains_some(&self, extent: &Extent) -> bool {
        Self::places(extent).any(|place| self.0[place / 64] >> (place % 64) & 1 == 1)
    }

    fn add(&mut self, extent: &Extent) {
        Self::places(extent).for_each(|place| self.0[place / 64] |= 1 << (place % 64));
    }
}

#[cfg(test)]
mod tests {
    use crate::sys::atomic::AtomicU64;
    use std::sync::Arc;

    use super::super::layout::CHUNK_BYTES;
    use super::*;
    use crate::address::EndpointIndex;
    use crate::segment::layout::SLOT_COUNT;
    use crate::segment::tests::{fresh_segment, new_file};

    const BLOCK: u64 = CHUNK_BYTES as u64;

    /// The offsets that a resend of `scope` sends of two files' records: (file, offset, endpoint), the first one written first.
    fn sent(scope: impl Fn([FileRef; 2]) -> Scope, written: &[(usize, u64, u32)]) -> Vec<(usize, u64)> {
        let (_place, segment) = fresh_segment();
        let retention = Retention::new(segment.directory(), 1, Arc::clone(segment.members()));
        assert!(retention.map(&AtomicU64::new(1 << 20)).unwrap());
        retention.reserve();
        let files = [new_file(&segment, 1), new_file(&segment, 2)];
        assert!(files.iter().all(|file| file.slot < SLOT_COUNT));
        // Claimed from the last chunk on: the order numbers decide, not the places.
        for ((place, endpoint, file, offset), record) in written
            .iter()
            .enumerate()
            .map(|(place, (file, offset, endpoint))| (place, *endpoint, files[*file], *offset))
            .zip(retention.records().iter().rev())
        {
            let life = record.claim(record.life(), 5).unwrap();
            let order = place as u64 + 1;
            record.publish(life, &Extent { file, offset, length: CHUNK_BYTES as u32, order, credentials: 0 });
            let slot = segment.slot(file).unwrap();
            slot.retained_write_starts();
            record.answered(life, slot.retained_write_answered(EndpointIndex::new(endpoint)));
        }
        let mut entries = vec![[0; ENTRY_BYTES]; retention.records().len()];
        let count = retention.fill_entries(&segment, scope(files), &mut entries);
        let extents = entries[..count].iter().map(|entry| retention.records()[chunk_of(entry)].extent().unwrap());
        extents.map(|extent| (usize::from(extent.file == files[1]), extent.offset)).collect()
    }

    fn lost(endpoint: u32) -> impl Fn([FileRef; 2]) -> Scope {
        move |_| Scope::Endpoints(EndpointSet::one(EndpointIndex::new(endpoint)))
    }

    #[test]
    fn restart_of_an_endpoint_resends_only_its_data() {
        let written = [(0, 0, 0), (1, 0, 1), (0, BLOCK, 0), (0, 9 * BLOCK, 1)];
        assert_eq!(sent(lost(1), &written), [(1, 0), (0, 9 * BLOCK)]);
        assert_eq!(sent(lost(0), &written), [(0, 0), (0, BLOCK)]);
        assert_eq!(sent(lost(2), &written), []);
    }

    #[test]
    fn newer_data_of_a_resent_block_is_resent_after_it_whichever_endpoint_has_it() {
        // The second record covers the end of the first one, and the third the end of the second one.
        let written = [(0, 0, 0), (0, 4096, 1), (0, BLOCK + 4096, 1), (0, 5 * BLOCK, 1)];
        assert_eq!(sent(lost(0), &written), [(0, 0), (0, 4096), (0, BLOCK + 4096)]);
        assert_eq!(sent(lost(1), &written), [(0, 4096), (0, BLOCK + 4096), (0, 5 * BLOCK)], "older data is not lost");
    }

    #[test]
    fn all_data_of_a_file_is_resent_in_order() {
        let written = [(0, BLOCK, 1), (1, 0, 0), (0, 0, 0)];
        assert_eq!(sent(|files| Scope::File(files[0]), &written), [(0, BLOCK), (0, 0)]);
        assert_eq!(sent(|_| Scope::All, &written), [(0, BLOCK), (1, 0), (0, 0)]);
    }
}
