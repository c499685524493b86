//! What needs unsafe code: processor time, and a ring that owns the buffers of what is under way.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::time::Duration;

use filer::connections::ReceiveBuffer;
use io_uring::{IoUring, opcode, types};

/// Processor time of this process so far.
pub(crate) fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec, and Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// An operation with its buffer.
pub(crate) enum Operation {
    /// Into the space of the buffer.
    Receive(ReceiveBuffer),
    /// The bytes from this one on.
    Send(Vec<u8>, usize),
    /// A counter of an eventfd.
    Wake(Box<[u8; 8]>),
}

/// A ring. A buffer belongs to it from its submission to its completion.
pub(crate) struct Ring {
    ring: IoUring,
    /// Never dropped: the kernel may still write to what is under way when the ring is closed.
    under_way: ManuallyDrop<HashMap<u64, Operation>>,
}

impl Ring {
    pub(crate) fn new(entries: u32) -> Self {
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().build(entries);
        Self { ring: ring.expect("an io_uring"), under_way: ManuallyDrop::default() }
    }

    /// Puts an operation into the queue, which is submitted first when it is full. Its completion comes under `id`, which no
    /// other under way has.
    pub(crate) fn push(&mut self, id: u64, fd: RawFd, operation: Operation) {
        assert!(!self.under_way.contains_key(&id), "one operation of a number at a time");
        let fd = types::Fd(fd);
        let entry = match self.under_way.entry(id).or_insert(operation) {
            Operation::Receive(received) => {
                let space = received.space();
                opcode::Recv::new(fd, space.as_mut_ptr(), space.len() as u32).build()
            }
            Operation::Send(bytes, from) => {
                let rest = bytes.get(*from..).unwrap_or_default();
                opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).flags(libc::MSG_NOSIGNAL).build()
            }
            Operation::Wake(counter) => opcode::Read::new(fd, counter.as_mut_ptr(), 8).build(),
        };
        let entry = entry.user_data(id);
        // SAFETY: the buffer is on the heap, owned by an operation in `under_way`, which nobody else reaches: it is neither
        // changed nor freed before its completion was taken.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit().expect("submit");
        }
    }

    /// Submits what is queued and waits for one completion at least; each with its result and operation.
    pub(crate) fn wait(&mut self, completed: &mut Vec<(u64, i32, Operation)>) {
        if self.ring.submit_and_wait(1).is_ok() {
            let completions = self.ring.completion().map(|entry| (entry.user_data(), entry.result()));
            let taken = completions.filter_map(|(id, result)| Some((id, result, self.under_way.remove(&id)?)));
            completed.extend(taken);
        }
    }
}
