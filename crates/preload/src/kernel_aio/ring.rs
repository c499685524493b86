//! The events of a context, in a ring with the kernel's layout at the address that is the context's number (`struct aio_ring`,
//! Linux fs/aio.c). QEMU, Seastar and `fio --userspace_reap` take events from it without a system call.

use super::request::Event;
use crate::outcome::Errno;
use crate::raw;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number by which programs recognise the ring.
const MAGIC: u32 = 0xa10a_10a1;
/// The version of the layout.
const COMPATIBLE: u32 = 1;

/// `struct aio_ring`, before its events.
#[repr(C)]
struct Head {
    id: u32,
    /// Number of places for events.
    count: u32,
    /// The place of the next event to take. This library and the program advance it.
    head: AtomicU32,
    /// The place for the next event.
    tail: AtomicU32,
    magic: u32,
    compatible: u32,
    incompatible: u32,
    header_bytes: u32,
}
const _: () = assert!(size_of::<Head>() == 32);

/// The ring of one context. The context for POSIX AIO has no ring, because its requests have no events.
#[derive(Default)]
pub(super) struct Ring(Option<Memory>);

struct Memory {
    at: *mut Head,
    count: u32,
    /// `head` when the places of taken events were last counted.
    counted: u32,
}

// SAFETY: only this ring uses the memory, apart from the program, which changes only an atomic in it.
unsafe impl Send for Memory {}

impl Ring {
    /// Makes a ring for this number of events.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn new(events: usize) -> Result<Self, Errno> {
        let count = u32::try_from(events + 1).map_err(|_| libc::EINVAL)?; // a full ring keeps one place free
        let at = raw::map(bytes(count)).ok_or(libc::ENOMEM)?.cast::<Head>();
        let (head, tail) = (AtomicU32::new(0), AtomicU32::new(0));
        let header_bytes = size_of::<Head>() as u32;
        let fresh = Head { id: 0, count, head, tail, magic: MAGIC, compatible: COMPATIBLE, incompatible: 0, header_bytes };
        // SAFETY: freshly mapped pages, with room for the head.
        unsafe { at.write(fresh) };
        Ok(Self(Some(Memory { at, count, counted: 0 })))
    }

    /// The ring's address, which is the number of its context.
    pub(super) fn address(&self) -> Option<usize> {
        self.0.as_ref().map(|memory| memory.at as usize)
    }

    /// Adds an event. There is a place for it, because the number of requests is limited to the
    /// number of places.
    pub(super) fn push(&mut self, event: Event) {
        let Some(memory) = &self.0 else { return };
        let tail = memory.head().tail.load(Ordering::Relaxed) % memory.count;
        // SAFETY: `tail` is below the number of places, and readers read this place only after the store below.
        unsafe { memory.place(tail).write(event) };
        memory.head().tail.store((tail + 1) % memory.count, Ordering::Release);
    }

    /// Takes up to `most` events. Returns how many.
    pub(super) fn take(&mut self, most: usize, give: &mut dyn FnMut(Event)) -> usize {
        let Some(memory) = &self.0 else { return 0 };
        let (head, tail) =
            (memory.head().head.load(Ordering::Acquire) % memory.count, memory.head().tail.load(Ordering::Acquire));
        let count = memory.between(head, tail).min(most);
        for nth in 0..count as u32 {
            // SAFETY: the place is below the number of places, and its event was written before
            // `tail` passed it.
            give(unsafe { memory.place((head + nth) % memory.count).read() });
        }
        memory.head().head.store((head + count as u32) % memory.count, Ordering::Release);
        count
    }

    /// Number of events taken since the last call, by this library or by the program.
    pub(super) fn taken(&mut self) -> usize {
        let Some(memory) = &mut self.0 else { return 0 };
        let head = memory.head().head.load(Ordering::Acquire) % memory.count;
        let taken = memory.between(memory.counted, head);
        memory.counted = head;
        taken
    }
}

impl Memory {
    fn head(&self) -> &Head {
        // SAFETY: `new` wrote the head, and the memory is mapped while this exists; only atomics change.
        unsafe { &*self.at }
    }

    fn place(&self, number: u32) -> *mut Event {
        self.at.wrapping_add(1).cast::<Event>().wrapping_add(number as usize)
    }

    /// Number of places from one to another, around the end of the ring.
    fn between(&self, from: u32, to: u32) -> usize {
        ((to % self.count + self.count - from) % self.count) as usize
    }
}

fn bytes(count: u32) -> usize {
    size_of::<Head>() + count as usize * size_of::<Event>()
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly one mapping. A program that uses the ring after io_destroy would lose the
        // kernel's in the same way.
        unsafe { raw::unmap(self.at.cast(), bytes(self.count)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: u64) -> Event {
        Event { data, ..Event::default() }
    }

    fn taken(ring: &mut Ring, most: usize) -> Vec<u64> {
        let mut found = Vec::new();
        let count = ring.take(most, &mut |event| found.push(event.data));
        assert_eq!(count, found.len());
        found
    }

    #[test]
    fn events_are_taken_in_their_order_around_the_end_of_the_ring() {
        let mut ring = Ring::new(3).unwrap();
        assert_eq!(taken(&mut ring, 9), []);
        for round in 0..5 {
            (0..3).for_each(|nth| ring.push(event(round * 3 + nth)));
            assert_eq!(taken(&mut ring, 2), [round * 3, round * 3 + 1]);
            assert_eq!(taken(&mut ring, 2), [round * 3 + 2]);
            assert_eq!((ring.taken(), ring.taken()), (3, 0));
        }
    }

    #[test]
    fn a_program_takes_events_by_moving_the_head() {
        let mut ring = Ring::new(4).unwrap();
        (0..4).for_each(|nth| ring.push(event(nth)));
        let words = ring.address().unwrap() as *const AtomicU32;
        // SAFETY: words of the ring's head, which the test treats as a program does: id, count,
        // head, tail, magic.
        let word = |nth: usize| unsafe { &*words.wrapping_add(nth) };
        assert_eq!([1, 2, 3, 4].map(|nth| word(nth).load(Ordering::Relaxed)), [5, 0, 4, MAGIC]);
        word(2).store(3, Ordering::Relaxed);
        assert_eq!(ring.taken(), 3);
        assert_eq!(taken(&mut ring, 9), [3]);
    }
}
