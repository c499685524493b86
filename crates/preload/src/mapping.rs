//! The result of mmap(2) and mremap(2).

use crate::outcome::{Failure, FromKernel};
use libc::c_void;

/// The result of mmap, which fails with MAP_FAILED and not with a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping(*mut c_void);

impl Mapping {
    /// The address of the mapping.
    pub(crate) const fn address(self) -> *mut c_void {
        self.0
    }
}

impl Failure for Mapping {
    const FAILED: Self = Self(libc::MAP_FAILED);
}

impl FromKernel for Mapping {
    fn of_success(answer: isize) -> Self {
        Self(FromKernel::of_success(answer))
    }
}
