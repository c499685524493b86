//! The user and the capabilities with which the calling thread acts on the host.
//!
//! Linux keeps file system ids and capabilities per thread, so nothing here affects another thread. A process without the
//! capabilities (an unprivileged filer) keeps its credentials: the host treats it as its one user anyway.

use std::cell::Cell;
use std::io;

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

thread_local! {
    /// [`clear_set_id_on_write`] was called.
    static CLEARS_SET_ID: Cell<bool> = const { Cell::new(false) };
}

/// Makes the host clear the set-id bits of a file when this thread writes to it or truncates it, as for a user without privilege.
/// The host does so under the inode's lock. If this process checked the mode before a write, the owner could set the bits in
/// between, and the write of another user would stay in a set-user-id program. From a thread's second call on, it only reads a variable.
pub(crate) fn clear_set_id_on_write() {
    if !CLEARS_SET_ID.get() {
        CLEARS_SET_ID.set(true);
        set_fsetid(false);
    }
}

/// Calls `work` with CAP_FSETID, if the process has it: without it the host clears the set-group-id bit of a foreign group.
pub(crate) fn keeping_set_id<T>(work: impl FnOnce() -> T) -> T {
    struct Lower(bool);
    impl Drop for Lower {
        fn drop(&mut self) {
            if self.0 {
                set_fsetid(false);
            }
        }
    }
    clear_set_id_on_write();
    let _lower = Lower(set_fsetid(true));
    work()
}

/// Calls `make` as this user and group, so that the name it makes belongs to them from the start. The thread keeps its
/// capabilities, because the caller has already checked the user's access.
///
/// **Errors**: EPERM if the process may not act as this user and group.
pub(crate) fn as_owner<T>(uid: u32, gid: u32, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _acting = Acting::begin(uid, gid)?;
    make()
}

/// Whether the thread may act as other users.
pub(crate) fn may_act_for_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::CHOWN;
    capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// Adds CAP_FSETID to the effective set or takes it away; true if that changed anything.
fn set_fsetid(on: bool) -> bool {
    let Ok(own) = capabilities(None) else { return false };
    if own.effective.contains(CapabilitySet::FSETID) == on {
        return false;
    }
    let mut effective = own.effective;
    effective.set(CapabilitySet::FSETID, on);
    let _dumpable = Dumpable::now();
    set_capabilities(None, CapabilitySets { effective, ..own }).is_ok()
}

/// Restores, when dropped, that the process is dumpable. A change of credentials clears that, as for a set-user-id program, and
/// an operator without CAP_SYS_PTRACE then cannot read its files below /proc.
struct Dumpable(Option<DumpableBehavior>);

impl Dumpable {
    fn now() -> Self {
        Self(dumpable_behavior().ok().filter(|now| *now == DumpableBehavior::Dumpable))
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        let _ = self.0.map(set_dumpable_behavior);
    }
}

/// The thread acts as another user until this is dropped.
struct Acting {
    uid: u32,
    gid: u32,
    own: CapabilitySets,
    _dumpable: Dumpable,
}

impl Acting {
    fn begin(uid: u32, gid: u32) -> io::Result<Self> {
        let own = capabilities(None)?;
        let _dumpable = Dumpable::now();
        let acting = Self { gid: set_fsgid(gid), uid: set_fsuid(uid), own, _dumpable };
        // These calls report no error. A call with an invalid id changes nothing and returns the current id.
        if set_fsgid(u32::MAX) != gid || set_fsuid(u32::MAX) != uid {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        // The change from root to another user has cleared the file system capabilities.
        set_capabilities(None, own)?;
        Ok(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        set_fsuid(self.uid);
        set_fsgid(self.gid);
        // The change back to root sets all file system capabilities, also those that were not in effect.
        let restored = set_capabilities(None, self.own);
        if restored.is_err() || set_fsuid(u32::MAX) != self.uid {
            // This thread would act as the wrong user from now on.
            std::process::abort();
        }
    }
}

/// Sets the user for this thread's file access. Returns the previous one.
fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: a system call that takes a number and touches no memory.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// Sets the group for this thread's file access. Returns the previous one.
fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}
