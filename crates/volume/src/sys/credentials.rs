//! As whom the calling thread acts on the host.
//!
//! Linux keeps file system ids and capabilities for each thread: nothing here touches another one. A process without the
//! capabilities (an unprivileged filer) is left as it is: the host treats it as its one user anyway.

use std::cell::Cell;
use std::io;

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

thread_local! {
    /// [`clear_set_id_on_write`] was called.
    static CLEARS_SET_ID: Cell<bool> = const { Cell::new(false) };
}

/// Has the host clear set-id bits of a file when this thread writes to it or cuts it, as for a user without privilege and under
/// the inode's lock: between a look at the mode and a write the owner could set the bits, and a foreign write would stay in
/// a set-user-id program. From the second call of a thread on it costs a look at a variable.
pub(crate) fn clear_set_id_on_write() {
    if !CLEARS_SET_ID.get() {
        CLEARS_SET_ID.set(true);
        set_fsetid(false);
    }
}

/// Carries out what sets these bits on purpose: without CAP_FSETID the host drops the set-group-id bit of a foreign group.
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

/// Makes a name that belongs to this user and group from its first moment on. The capabilities stay: whether the user may do it
/// was judged before.
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

/// Restores, when dropped, whether the process can be looked at as others can: with a change of credentials the host makes it as
/// secret as a set-user-id program, and an operator without CAP_SYS_PTRACE sees nothing of it below /proc any more.
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
        // The calls have no error: an id that the host refuses changes nothing, as this one, which no user has.
        if set_fsgid(u32::MAX) != gid || set_fsuid(u32::MAX) != uid {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        // The host took those of the file system away with the change of the user.
        set_capabilities(None, own)?;
        Ok(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        set_fsuid(self.uid);
        set_fsgid(self.gid);
        // Back with root come all of the file system, also those that were not in effect.
        let restored = set_capabilities(None, self.own);
        if restored.is_err() || set_fsuid(u32::MAX) != self.uid {
            // Whatever this thread did next would be done as somebody else.
            std::process::abort();
        }
    }
}

/// Sets the user that this thread makes files as; the one before.
fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: a system call that takes a number and touches no memory.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// Sets the group that this thread makes files as; the one before.
fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}
