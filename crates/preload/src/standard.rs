//! stdin, stdout and stderr. libc writes to them by system calls without hooks. So while one of the
//! descriptors 0, 1 and 2 leads to a mount, libc's variable of that stream points to a cookie
//! stream of this library.

use crate::cookie;
use crate::table::{self, Found};
use libc::{FILE, c_int};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// One of the three streams.
struct Standard {
    name: &'static CStr,
    variable: AtomicUsize,  // address of libc's pointer
    libcs: AtomicPtr<FILE>, // the stream with which libc began
    ours: AtomicPtr<FILE>,  // the cookie stream; null before its first use
    rights: AtomicI32,      // of libc's stream while the cookie stream replaces it
}

const fn standard(name: &'static CStr) -> Standard {
    Standard {
        name,
        variable: AtomicUsize::new(0),
        libcs: AtomicPtr::new(std::ptr::null_mut()),
        ours: AtomicPtr::new(std::ptr::null_mut()),
        rights: AtomicI32::new(0),
    }
}

static STREAMS: [Standard; 3] = [standard(c"stdin"), standard(c"stdout"), standard(c"stderr")];

/// Checks all three. Called by the constructor, before the program's own constructors.
pub(crate) fn inherited() {
    for fd in 0..3 {
        rebound(fd);
    }
}

/// Called after a descriptor was redirected. If it is one of the three, its stream follows.
pub(crate) fn rebound(fd: c_int) {
    let Some(stream) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) else { return };
    let on_mount = !matches!(table::find(fd), Ok(Found::Elsewhere));
    // The streams of most programs never lead to a mount.
    if !on_mount && stream.ours.load(Ordering::Acquire).is_null() {
        return;
    }
    static BUSY: AtomicBool = AtomicBool::new(false);
    if BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    stream.follow(fd, on_mount);
    BUSY.store(false, Ordering::Release);
}

/// The stream that replaces `stream` after `fd` was redirected: the same one, unless it is one of the three.
pub(crate) fn in_place_of(stream: *mut FILE, fd: c_int) -> *mut FILE {
    let Some(standard) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) else { return stream };
    let (libcs, ours) = (standard.libcs.load(Ordering::Relaxed), standard.ours.load(Ordering::Acquire));
    if ours.is_null() || (stream != libcs && stream != ours) {
        return stream;
    }
    // SAFETY: libc's variable lives as long as the process.
    standard.variable().map_or(stream, |variable| unsafe { read(variable) })
}

/// The stream that replaces one of libc's to which the program kept a pointer. For all others, the
/// stream itself.
pub(crate) fn current(stream: *mut FILE) -> *mut FILE {
    let replaced = |standard: &&Standard| standard.libcs.load(Ordering::Relaxed) == stream;
    match STREAMS.iter().find(replaced).map(|standard| (standard.ours.load(Ordering::Acquire), standard.variable())) {
        // SAFETY: libc's variable lives as long as the process.
        Some((ours, Some(variable))) if !ours.is_null() && unsafe { read(variable) } == ours => ours,
        _ => stream,
    }
}

/// The stream in libc's variable for descriptor 0, 1 or 2.
pub(crate) fn shown(fd: c_int) -> Option<*mut FILE> {
    // SAFETY: libc's variable lives as long as the process.
    STREAMS.get(usize::try_from(fd).ok()?)?.variable().map(|variable| unsafe { read(variable) })
}

/// Called when the cookie stream of a standard descriptor is closed. libc's own stream is then used again.
fn closed(fd: c_int) {
    let Some(stream) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) else { return };
    let ours = stream.ours.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: libc's variable lives as long as the process.
    if let Some(variable) = stream.variable().filter(|variable| unsafe { read(*variable) } == ours) {
        // SAFETY: the address of libc's variable, which lives as long as the process. The stream
        // that it pointed to is being closed.
        unsafe { variable.write_volatile(stream.libcs.load(Ordering::Relaxed)) };
    }
}

/// # Safety
/// `variable` is the address of a variable of libc that contains a stream.
unsafe fn read(variable: *mut *mut FILE) -> *mut FILE {
    // SAFETY: `variable` is valid by the caller's promise.
    unsafe { variable.read_volatile() }
}

impl Standard {
    /// Address of libc's variable, or of the program's copy of it, if it has one.
    fn variable(&self) -> Option<*mut *mut FILE> {
        let known = self.variable.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known as *mut *mut FILE);
        }
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) } as usize;
        self.variable.store(found, Ordering::Relaxed);
        (found != 0).then_some(found as *mut *mut FILE)
    }

    fn follow(&self, fd: c_int, on_mount: bool) {
        let Some(variable) = self.variable() else { return };
        // SAFETY: libc's variable lives as long as the process.
        let shown = unsafe { read(variable) };
        if on_mount && self.ours.load(Ordering::Acquire).is_null() {
            // SAFETY: an open stream, or a closed one of libc's own, which stays in memory.
            if unsafe { cookie::number(shown) } != fd {
                return;
            }
            let Ok(made) = cookie::stream_on(fd, if fd == 0 { libc::O_RDONLY } else { libc::O_WRONLY }, Some(closed)) else {
                return;
            };
            // SAFETY: `stream_on` just made the stream.
            unsafe { cookie::set_narrow(made) };
            self.libcs.store(shown, Ordering::Relaxed);
            self.ours.store(made, Ordering::Release);
        }
        let (libcs, ours) = (self.libcs.load(Ordering::Relaxed), self.ours.load(Ordering::Acquire));
        let wanted = if on_mount { ours } else { libcs };
        // A stream that the program itself stored there does not change.
        if shown == wanted || (shown != libcs && shown != ours) {
            return;
        }
        // SAFETY: the address of libc's variable. Programs do not use a stream in another thread
        // while they redirect its descriptor.
        unsafe { variable.write_volatile(wanted) };
        // SAFETY: the stream with which libc began and the one that replaces it, both open; no
        // other thread uses them meanwhile.
        unsafe {
            if !on_mount {
                cookie::enable(libcs, fd, self.rights.load(Ordering::Relaxed));
            }
            cookie::hand_over(shown, wanted);
            if on_mount {
                self.rights.store(cookie::disable(libcs), Ordering::Relaxed);
            }
        }
    }
}
