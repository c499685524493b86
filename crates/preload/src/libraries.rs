//! dlopen(3) of a library that is stored on a mount. The loader makes its system calls without calling a hook, so it gets a
//! copy in memory. The loader knows a library by the name by which it was opened. Each copy has its own name, and a library
//! that is still loaded is requested by its former name. libc's function checks its caller (RUNPATH, name spaces of the
//! loader), so the hook jumps to it.
//!
//! The loader knows a library by the name it was opened by. Each copy has a name of its own, and a library that is still loaded is
//! asked for by the name it had. libc's function looks at its caller (RUNPATH, name spaces of the loader), so it is jumped to.

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

/// File system, file, size and change time: if one of them differs, it is another library.
type Identity = (u64, u64, u64, FileTime);

/// A loaded library of a mount.
struct Loaded {
    identity: Identity,
    /// Its name for the loader.
    name: CString,
    /// Kept until it is loaded and another one is requested: the loader opens it after this library has returned.
    image: Option<Image>,
}

static LOADING: AttachLock = AttachLock::new();
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// The path for dlopen instead of one on a mount. Libraries on a mount that it needs are loaded before, so that the loader
/// finds them by their names.
///
/// # Errors
/// Pass: the path is unchanged, and dlopen and dlerror report the failure as for any missing path.
fn in_its_place(path: &CStr, depth: usize) -> Result<*const c_char, Out> {
    if !crate::mounts::any() || !path.to_bytes().contains(&b'/') {
        return Err(Out::Pass);
    }
    // SAFETY: a path.
    let (mounted, mount, entry) = match unsafe { paths::target_linked(libc::AT_FDCWD, path.as_ptr(), true) }? {
        Target::At(mounted, mount, entry) => (mounted, mount, entry),
        Target::Local(Some(path)) => return Ok(path.into_raw()), // a link on the mount: there are few, and the loader keeps the path
        Target::Local(None) => return Err(Out::Pass),
    };
    let object = entry.object.filter(|object| object.attr.kind == FileKind::Regular).ok_or(Out::Pass)?;
    let identity = (object.attr.fsid, object.attr.fileid, object.attr.size, object.attr.ctime);
    if let Some(name) = known(&identity)? {
        return Ok(name);
    }
    let full = mounted.path_of(&mount.path_of(&entry)?);
    // SAFETY: a path.
    let image = unsafe { Image::of(libc::AT_FDCWD, path.as_ptr(), &full) }?;
    if depth < DEPTH_MAX {
        // SAFETY: used at once. The loader goes by what it was at the start of the program, which is the same but for few.
        let listed = unsafe { library_path(own_environment()) };
        for needed in needed::on_mounts(&image, &full, listed) {
            load(&needed, depth + 1);
        }
    }
    remember(identity, image)
}

/// Loads a library that another one needs; it stays loaded. If that fails, dlopen of the other one reports it.
fn load(path: &CStr, depth: usize) {
    if let Ok(name) = in_its_place(path, depth) {
        // SAFETY: a NUL-terminated name.
        unsafe { libc::dlopen(name, libc::RTLD_LAZY) };
    }
}

/// The name of a library that is loaded already.
fn known(identity: &Identity) -> Result<Option<*const c_char>, Out> {
    let _held = LOADING.lock()?;
    // Never waits: in the child of a fork during a load, the lock stays locked.
    let loaded = LOADED.try_lock().map_err(|_| Out::Pass)?;
    let known = loaded.iter().find(|known| known.identity == *identity && is_loaded(&known.name));
    Ok(known.map(|known| known.name.as_ptr()))
}

/// The name of a copy for the loader.
fn remember(identity: Identity, image: Image) -> Result<*const c_char, Out> {
    let _held = LOADING.lock()?;
    let mut loaded = LOADED.try_lock().map_err(|_| Out::Pass)?;
    for known in loaded.iter_mut().filter(|known| is_loaded(&known.name)) {
        known.image = None;
    }
    // One more `./` for each: for the loader, another name is another library.
    let name = CString::new(format!("/proc/self/fd/{}{}", "./".repeat(loaded.len()), image.fd())).map_err(|_| Out::Pass)?;
    let given = name.as_ptr(); // its memory does not move when the list grows
    loaded.push(Loaded { identity, name, image: Some(image) });
    Ok(given)
}

/// Whether the loader still has a library of this name.
fn is_loaded(name: &CStr) -> bool {
    // SAFETY: a NUL-terminated name; what was loaded is not loaded again, and what is taken is given back.
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
/// A path, or NULL.
unsafe extern "C" fn prepare(path: *const c_char) -> Onward {
    let given = entered(
        || path,
        || match path.is_null() {
            true => Err(Out::Pass),
            // SAFETY: the caller's path.
            false => in_its_place(unsafe { CStr::from_ptr(path) }, 0).or(Err(Out::Pass)),
        },
    )
    .unwrap_or(path);
    Onward { path: given, function: next(&NEXT, NAME) }
}

/// For calls of this library.
///
/// # Safety
/// As dlopen(3).
unsafe extern "C" fn pass(path: *const c_char, flags: c_int) -> *mut c_void {
    type Function = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // SAFETY: the next definition of the name has this signature.
    let function: Function = unsafe { std::mem::transmute(next(&NEXT, NAME)) };
    // SAFETY: as the caller promises.
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
