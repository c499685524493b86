//! Memory shared by processes: its allowed types and its mapping.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicUsize};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::atomic::{AtomicU32, AtomicU64};
use super::fd::Fd;
use super::local_file::Errno;
use crate::retention::layout::{AreaHeader, Record, Run};
use crate::segment::layout::{ActivityCell, CallNote, DirectoryTable, Header, Slot, SlotTable, StoredCredentials};

/// Types for memory that other processes write at any time: only atomics, so that every bit pattern is a value and every access
/// is atomic.
///
/// # Safety
/// Every field is an atomic integer or an array or struct of them.
pub(crate) unsafe trait Shared {}

// SAFETY: an atomic integer.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Shared for AtomicU64 {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for Header {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for Slot {}

// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for SlotTable {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for ActivityCell {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for CallNote {}
// SAFETY: consists of atomic integers (retention/layout.rs).
unsafe impl Shared for AreaHeader {}
// SAFETY: consists of atomic integers (retention/layout.rs).
unsafe impl Shared for Record {}
// SAFETY: consists of atomic integers (retention/layout.rs).
unsafe impl Shared for Run {}
// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for StoredCredentials {}

// SAFETY: consists of atomic integers (segment/layout.rs).
unsafe impl Shared for DirectoryTable {}

/// A readable and writable mapping that other processes may have too. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is reached only as `Shared` types, which are atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of the file, MAP_SHARED.
    pub(crate) fn new(fd: &Fd, length: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = unsafe { mmap(core::ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno(libc::ENOMEM))?;
        #[cfg(test)]
        super::simulated::mapped(base.as_ptr() as usize, length, fd);
        Ok(Self { base, length })
    }

    /// Zeroed memory of this process alone; a forked child has a copy.
    pub(crate) fn private(length: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno(libc::ENOMEM))?;
        Ok(Self { base, length })
    }

    /// `count` values of `T` from byte `offset` on.
    ///
    /// # Panics
    /// If they do not lie inside the mapping or are not aligned: offsets come from the layout, not from a peer.
    pub(crate) fn values<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(bytes.is_some_and(|end| end <= self.length), "segment layout leaves its mapping");
        assert_eq!(offset % align_of::<T>(), 0, "segment layout is not aligned");
        // SAFETY: in bounds and aligned (mapping bases are page-aligned), alive as long as self, and `Shared` allows any
        // bit pattern and concurrent change.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast::<T>(), count) }
    }
}

/// Place for a mapping that the first thread or signal handler that needs it makes. It is unmapped only with the place itself.
#[derive(Debug, Default)]
pub(crate) struct LateMapping {
    base: AtomicPtr<u8>,
    length: AtomicUsize,
}

impl LateMapping {
    /// Installs the mapping. If another thread was faster, this mapping is dropped.
    ///
    /// # Panics
    /// If that thread's mapping has another length: all mappings for one place have the same.
    pub(crate) fn install(&self, mapping: Mapping) {
        let known = self.length.swap(mapping.length, Relaxed);
        assert!(known == 0 || known == mapping.length, "mappings for one place have one length");
        if self.base.compare_exchange(core::ptr::null_mut(), mapping.base.as_ptr(), AcqRel, Acquire).is_ok() {
            core::mem::forget(mapping);
        }
    }

    /// Length in bytes; 0 while nothing is mapped.
    pub(crate) fn length(&self) -> usize {
        if self.base.load(Acquire).is_null() { 0 } else { self.length.load(Relaxed) }
    }

    /// `count` values of `T` from byte `offset` on.
    ///
    /// # Panics
    /// As [`Mapping::values`]; if nothing is mapped yet.
    pub(crate) fn values<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = count.checked_mul(size_of::<T>());
        assert_eq!(offset % align_of::<T>(), 0, "layout is not aligned");
        let start = self.at(offset, bytes.unwrap_or(usize::MAX));
        // SAFETY: in bounds (checked by `at`) and aligned, mapped as long as self, and `Shared` allows any bit pattern and
        // concurrent change.
        unsafe { core::slice::from_raw_parts(start.cast::<T>(), count) }
    }

    /// Stores bytes at `offset`. Other processes may read or write them at the same time; they must agree about the contents
    /// among themselves.
    ///
    /// # Panics
    /// If they do not lie inside the mapping.
    pub(crate) fn copy_in(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: in bounds (checked by `at`); private memory and a shared mapping do not overlap. No code has a reference
        // to these bytes: only these two functions reach them.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies bytes from `offset` on, as stored by [`Self::copy_in`].
    ///
    /// # Panics
    /// If they do not lie inside the mapping.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len());
        // SAFETY: as in `copy_in`.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.length()), "layout leaves its mapping");
        // SAFETY: inside the mapping.
        unsafe { self.base.load(Acquire).add(offset) }
    }
}

impl Drop for LateMapping {
    fn drop(&mut self) {
        let length = self.length();
        if let Some(base) = NonNull::new(self.base.load(Acquire)) {
            drop(Mapping { base, length });
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(test)]
        super::simulated::unmapped(self.base.as_ptr() as usize);
        // SAFETY: exactly what was mapped; references into it borrow from self and are gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page that children share.
    pub(crate) fn shared_memory() -> Mapping {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), 4096, access, MapFlags::SHARED) }.unwrap();
        Mapping { base: NonNull::new(base.cast()).unwrap(), length: 4096 }
    }

    /// A private value, all zero.
    pub(crate) fn zeroed<T: Shared>() -> Box<T> {
        // SAFETY: `Shared` types are atomic integers, of which all zero is a value.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    /// A child of this process that runs one function and ends.
    pub(crate) struct Child(i32);

    /// A child that does not notice the fork, does nothing and lives on. Killed when dropped.
    pub(crate) struct Bystander(pub(crate) i32);

    impl Bystander {
        /// Forks by the bare system call.
        pub(crate) fn fork() -> Self {
            // SAFETY: a fork; the child does nothing but sleep.
            let pid = unsafe { super::super::raw::call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) };
            if pid == 0 {
                loop {
                    super::super::clock::sleep(std::time::Duration::from_secs(60));
                }
            }
            assert!(pid > 0, "cannot fork");
            Self(pid as i32)
        }

        /// Its process number, by which another process kills it.
        pub(crate) fn leave(self) -> i32 {
            let pid = self.0;
            std::mem::forget(self);
            pid
        }
    }

    impl Drop for Bystander {
        fn drop(&mut self) {
            // SAFETY: ends a child of this process that ends in no other way.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }
    }

    impl Child {
        /// Forks; the child never returns from here, and ends with 0 if `work` does not panic.
        pub(crate) fn run(work: impl FnOnce()) -> Self {
            // SAFETY: glibc's fork leaves malloc usable in the child; the child runs only `work` and `_exit`.
            let pid = unsafe { libc::fork() };
            assert!(pid >= 0, "cannot fork");
            if pid == 0 {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(done.is_err())) };
            }
            Self(pid)
        }

        /// Kills it at whatever instruction it is.
        pub(crate) fn kill(&self) {
            // SAFETY: the child was not waited for, so no other process has its number.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }

        /// Waits for its end. Returns whether it ended by itself, without a panic.
        pub(crate) fn succeeded(self) -> bool {
            let mut status = 0;
            // SAFETY: the kernel writes only `status`, which belongs to this frame.
            unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            status == 0
        }
    }
}
