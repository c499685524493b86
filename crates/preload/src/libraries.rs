//! dlopen(3) of a library that is stored on a mount. The loader makes its system calls without a
//! hook, so it gets a copy in memory. The loader identifies a library by the name with which it was
//! opened. So each copy has its own name, and the hook requests a library that is still loaded by
//! its former name. libc's function checks its caller (RUNPATH, name spaces of the loader), so the
//! hook jumps to it.

use crate::attach_lock::AttachLock;
use crate::exec::environment::library_path;
use crate::exec::image::Image;
use crate::exec::needed;
use crate::hook::{entered, next};
use crate::outcome::Out;
use crate::paths::{self, Target};
use crate::reach::own_environment;
use dnfs::file::{FileKind, FileTime};
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

/// libc's own function.
static NEXT: AtomicUsize = AtomicUsize::new(0);
const NAME: &CStr = c"dlopen";

/// Maximum depth of libraries that need one another.
const DEPTH_MAX: usize = 32;

/// File system, file, size and change time. If one of them differs, it is another library.
type Identity = (u64, u64, u64, FileTime);

/// A loaded library of a mount.
struct Loaded {
    identity: Identity,
    /// Its name for the loader.
    name: CString,
    /// Kept until the library is loaded and another one is requested, because the loader opens the
    /// copy after this library has returned.
    image: Option<Image>,
}

static LOADING: AttachLock = AttachLock::new();
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// The path for dlopen instead of one on a mount. Loads the libraries on a mount that this one
/// needs first, so that the loader finds them by their names.
///
/// # Errors
/// [`Out::Pass`] if the path must stay unchanged; then dlopen and dlerror report a failure as for
/// any missing path.
fn in_its_place(path: &CStr, depth: usize) -> Result<*const c_char, Out> {
    if !crate::mounts::any() || !path.to_bytes().contains(&b'/') {
        return Err(Out::Pass);
    }
    // SAFETY: the path ends with a NUL.
    let (mounted, mount, entry) = match unsafe { paths::target_linked(libc::AT_FDCWD, path.as_ptr(), true) }? {
        Target::At(mounted, mount, entry) => (mounted, mount, entry),
        Target::Local(Some(path)) => return Ok(path.into_raw()), // a link on the mount: there are few; the loader keeps the path
        Target::Local(None) => return Err(Out::Pass),
    };
    let object = entry.object.filter(|object| object.attr.kind == FileKind::Regular).ok_or(Out::Pass)?;
    let identity = (object.attr.fsid, object.attr.fileid, object.attr.size, object.attr.ctime);
    if let Some(name) = known(&identity)? {
        return Ok(name);
    }
    let full = mounted.path_of(&mount.path_of(&entry)?);
    // SAFETY: the path ends with a NUL.
    let image = unsafe { Image::of(libc::AT_FDCWD, path.as_ptr(), &full) }?;
    if depth < DEPTH_MAX {
        // SAFETY: the result is used at once. The loader uses the value at the program's start,
        // which few programs change.
        let listed = unsafe { library_path(own_environment()) };
        for needed in needed::on_mounts(&image, &full, listed) {
            load(&needed, depth + 1);
        }
    }
    remember(identity, image)
}

/// Loads a library that another one needs. It stays loaded. If that fails, dlopen of the other one
/// reports it.
fn load(path: &CStr, depth: usize) {
    if let Ok(name) = in_its_place(path, depth) {
        // SAFETY: the name ends with a NUL.
        unsafe { libc::dlopen(name, libc::RTLD_LAZY) };
    }
}

/// The name for the loader of a library that is already loaded.
fn known(identity: &Identity) -> Result<Option<*const c_char>, Out> {
    let _held = LOADING.lock()?;
    // This never waits: in a child that was forked during a load, the lock stays locked.
    let loaded = LOADED.try_lock().map_err(|_| Out::Pass)?;
    let known = loaded.iter().find(|known| known.identity == *identity && is_loaded(&known.name));
    Ok(known.map(|known| known.name.as_ptr()))
}

/// Stores a copy. Returns its name for the loader.
fn remember(identity: Identity, image: Image) -> Result<*const c_char, Out> {
    let _held = LOADING.lock()?;
    let mut loaded = LOADED.try_lock().map_err(|_| Out::Pass)?;
    for known in loaded.iter_mut().filter(|known| is_loaded(&known.name)) {
        known.image = None;
    }
    // Each name has one more `./`, because the loader takes another name for another library.
    let name = CString::new(format!("/proc/self/fd/{}{}", "./".repeat(loaded.len()), image.fd())).map_err(|_| Out::Pass)?;
    let given = name.as_ptr(); // its memory does not move when the list grows
    loaded.push(Loaded { identity, name, image: Some(image) });
    Ok(given)
}

/// Whether the loader still has a library of this name.
fn is_loaded(name: &CStr) -> bool {
    // SAFETY: the name ends with a NUL. RTLD_NOLOAD loads nothing, and dlclose releases the
    // reference that dlopen took.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !library.is_null() && libc::dlclose(library) == 0
    }
}

/// The arguments with which dlopen continues.
#[repr(C)]
struct Onward {
    path: *const c_char,
    function: usize,
}

/// # Safety
/// `path` is NULL or a C string.
unsafe extern "C" fn prepare(path: *const c_char) -> Onward {
    let given = entered(
        || path,
        || match path.is_null() {
            true => Err(Out::Pass),
            // SAFETY: `path` is a C string by the caller's promise.
            false => in_its_place(unsafe { CStr::from_ptr(path) }, 0).or(Err(Out::Pass)),
        },
    )
    .unwrap_or(path);
    Onward { path: given, function: next(&NEXT, NAME) }
}

/// libc's function, for calls of this library.
///
/// # Safety
/// `path` is as dlopen(3) requires.
unsafe extern "C" fn pass(path: *const c_char, flags: c_int) -> *mut c_void {
    type Function = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // SAFETY: the next definition of the name has dlopen's signature.
    let function: Function = unsafe { std::mem::transmute(next(&NEXT, NAME)) };
    // SAFETY: `path` is as dlopen(3) requires, by the caller's promise.
    unsafe { function(path, flags) }
}

/// dlopen(3).
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen() {
    core::arch::naked_asm!(
        "mov r11, [rsp]",
        "sub r11, [rip + {base}]",
        "cmp r11, [rip + {bytes}]",
        "jb {pass}",
        "sub rsp, 24",
        "mov [rsp], rsi",
        "call {prepare}",
        "mov rdi, rax",
        "mov rsi, [rsp]",
        "add rsp, 24",
        "jmp rdx",
        base = sym crate::hook::TEXT_BASE, bytes = sym crate::hook::TEXT_BYTES, pass = sym pass, prepare = sym prepare,
    )
}

/// dlopen(3).
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen() {
    core::arch::naked_asm!(
        "adrp x16, {base}", "ldr x16, [x16, :lo12:{base}]", "sub x16, x30, x16",
        "adrp x17, {bytes}", "ldr x17, [x17, :lo12:{bytes}]", "cmp x16, x17",
        "b.hs 2f",
        "b {pass}",
        "2: stp x1, x30, [sp, #-16]!",
        "bl {prepare}",
        "mov x16, x1",
        "ldp x1, x30, [sp], #16",
        "br x16",
        base = sym crate::hook::TEXT_BASE, bytes = sym crate::hook::TEXT_BYTES, pass = sym pass, prepare = sym prepare,
    )
}
