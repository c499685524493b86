//! Appends and changes of the size wait for each other, as an inode's lock makes them do in a kernel. Who was killed is waited
//! for once, [`SIZE_WAIT_MS`]: its call may still be on its way.

use super::{FileRef, Mount};
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::limits::{APPEND_ROUNDS_MAX, SIZE_WAIT_MS};
use crate::segment::Appending;
use crate::segment::layout::Slot;
use crate::sys::clock::{monotonic_ns, sleep};
use std::time::Duration;

/// Pause between looks: a SETATTR or an append takes about that long.
const PAUSE: Duration = Duration::from_micros(200);
/// Looks that one who sets the size gives to appends that wait for the one before it.
const LOOKS_FIRST: u32 = 50;

impl Mount {
    /// Begins an append once nobody sets the size; none when that never ends, and the server has to be asked.
    pub(super) fn start_append<'s>(&self, file: FileRef, slot: &'s Slot) -> Option<Appending<'s>> {
        if let Some(appending) = slot.append_starts() {
            return Some(appending);
        }
        slot.appends_waiting.fetch_add(1, AcqRel);
        let begun = (0..APPEND_ROUNDS_MAX).find_map(|_| {
            if let Some(killed) = await_none(|| slot.size_setters()) {
                self.refresh_size(file, slot);
                slot.forget_setters(killed);
            }
            slot.append_starts()
        });
        let _ = slot.appends_waiting.fetch_update(AcqRel, Acquire, |waiting| waiting.checked_sub(1));
        begun
    }
}

/// Says that the size is being set, and waits until no append is in flight.
pub(super) fn start_size_set(slot: &Slot) {
    for _ in 0..LOOKS_FIRST {
        if slot.appends_waiting.load(Acquire) == 0 {
            break;
        }
        sleep(PAUSE);
    }
    slot.size_set_starts();
    if let Some(killed) = await_none(|| slot.appends_in_flight()) {
        slot.forget_appends(killed);
    }
}

/// Waits until there are none, or for so long that the fewest that were there at any look must be dead: how many.
///
/// Those alive come and go, and one that sets the size again and again gives way to appends in between.
fn await_none(look: impl Fn() -> u32) -> Option<u32> {
    let begun = monotonic_ns();
    let mut least = look();
    while least != 0 {
        if monotonic_ns() - begun > SIZE_WAIT_MS * 1_000_000 {
            return Some(least);
        }
        sleep(PAUSE);
        least = least.min(look());
    }
    None
}
