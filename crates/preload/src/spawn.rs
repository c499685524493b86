//! posix_spawn(3) with actions on files of a mount. libc performs the actions in the child by
//! system calls without hooks. So the parent opens a file when it spawns, onto a number that is
//! reserved for the file, and the child's action is a dup2 from that number.

use crate::attach_lock::AttachLock;
use crate::directories;
use crate::exec::environment::Environment;
use crate::exec::stored::{self, Program};
use crate::exec::{self, search};
use crate::hook::hooks;
use crate::open::{self, open_at};
use crate::outcome::Out;
use crate::paths::{self, Target};
use crate::raw;
use crate::reach;
use crate::spawn_actions::{Action, Noted, note, of_list, take};
use crate::table::{self, Found};
use libc::{c_char, c_int, c_void, mode_t, pid_t, posix_spawn_file_actions_t};
use std::ffi::{CStr, CString};

/// The search for numbers to reserve begins here, above the numbers that programs use.
const NUMBER_MIN: c_int = 200;

/// Whether the directory in which relative paths of a list begin is on a mount. `None` if that is
/// the parent's directory.
///
/// # Safety
/// `list` is in use: no other thread changes or destroys it.
unsafe fn entered(list: *const posix_spawn_file_actions_t) -> Option<bool> {
    // SAFETY: the list is in use by the caller's promise.
    unsafe { of_list(list) }.iter().rev().find_map(|noted| match noted.action {
        Action::Enter { mounted, .. } => Some(mounted),
        Action::Open { .. } => None,
    })
}

/// Releases the actions and numbers of a list. Called when a list is initialized or destroyed.
fn forget(list: *const posix_spawn_file_actions_t) {
    for action in take(list) {
        if let Action::Open { number, .. } | Action::Enter { number: Some(number), .. } = action
            && is_kept(number)
        {
            let _ = raw::close(number);
        }
    }
}

/// Opens the null device. A descriptor of it reserves a number.
fn null() -> Result<c_int, c_int> {
    raw::open(c"/dev/null", libc::O_RDONLY | libc::O_CLOEXEC, 0)
}

/// Whether a number is still reserved. A program may have closed it and opened another file.
fn is_kept(number: c_int) -> bool {
    raw::fstat(number).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == libc::makedev(1, 3))
}

fn keep_a_number() -> Result<c_int, c_int> {
    let null = null()?;
    let number = raw::duplicate_from(null, NUMBER_MIN);
    let _ = raw::close(null);
    number
}

/// posix_spawn_file_actions_addopen(3). Returns an errno.
///
/// # Safety
/// `list` is in use; `path` is NULL or a C string.
unsafe fn add_open(
    list: *mut posix_spawn_file_actions_t,
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> Result<c_int, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    // SAFETY: the list is in use, and `path` is NULL or a C string, by the caller's promise.
    unsafe {
        if crate::ffi::path(path)?.first() != Some(&b'/') {
            match entered(list) {
                Some(true) => return Ok(libc::EOPNOTSUPP), // otherwise the kernel would search the placeholder
                Some(false) => return Err(Out::Pass),
                None => {}
            }
        }
        // A name that does not exist now may exist when the parent spawns, and the parent then resolves it.
        if matches!(paths::target_linked(libc::AT_FDCWD, path, true), Ok(Target::Local(_))) {
            return Err(Out::Pass);
        }
        let number = match kept_for(|number| libc::posix_spawn_file_actions_adddup2(list, number, fd)) {
            Ok(number) => number,
            Err(errno) => return Ok(errno),
        };
        Ok(note(list, Action::Open { number, path: CStr::from_ptr(path).to_owned(), flags, mode }))
    }
}

/// Reserves a number for the action that `add` adds. The error is an errno.
fn kept_for(add: impl FnOnce(c_int) -> c_int) -> Result<c_int, c_int> {
    let number = keep_a_number()?;
    match add(number) {
        0 => Ok(number),
        errno => {
            let _ = raw::close(number);
            Err(errno)
        }
    }
}

/// posix_spawn_file_actions_addchdir_np(3). Returns an errno.
///
/// # Safety
/// `list` is in use; `path` is NULL or a C string.
unsafe fn add_chdir(list: *mut posix_spawn_file_actions_t, path: *const c_char) -> Result<c_int, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    // SAFETY: the list is in use, and `path` is NULL or a C string, by the caller's promise.
    unsafe {
        if crate::ffi::path(path)?.first() != Some(&b'/') {
            match entered(list) {
                Some(true) => return Ok(libc::EOPNOTSUPP),
                Some(false) => return Err(Out::Pass),
                None => {}
            }
        }
        match paths::target_linked(libc::AT_FDCWD, path, true)? {
            Target::At(_, _, entry) if entry.object.is_some() => {
                let add_fchdir = |number| posix_spawn_file_actions_addfchdir_np::real(list, number);
                Ok(match kept_for(add_fchdir) {
                    Ok(number) => {
                        note(list, Action::Enter { mounted: true, number: Some(number), path: CStr::from_ptr(path).to_owned() })
                    }
                    Err(errno) => errno,
                })
            }
            Target::At(..) => Ok(libc::ENOENT),
            Target::Local(_) => match note(list, Action::Enter { mounted: false, number: None, path: CString::default() }) {
                0 => Err(Out::Pass),
                errno => Ok(errno),
            },
        }
    }
}

/// Flags for the open of a directory that a child enters.
const ENTERED: c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// The files and directories of a list, opened onto their numbers. Dropping this reserves the numbers again.
struct Opened(Vec<c_int>);

impl Opened {
    fn new(actions: &[&Noted]) -> Result<Self, c_int> {
        let mut opened = Self(Vec::new());
        for noted in actions {
            let (number, path, flags, mode) = match &noted.action {
                Action::Open { number, path, flags, mode } => (number, path, flags, mode),
                Action::Enter { number: Some(number), path, .. } => (number, path, &ENTERED, &0),
                Action::Enter { .. } => continue,
            };
            if !is_kept(*number) {
                return Err(libc::EBADF);
            }
            // SAFETY: the path ends with a NUL.
            let fd =
                unsafe { open_at(libc::AT_FDCWD, path.as_ptr(), *flags, *mode, |_, path| open::open::real(path, *flags, *mode)) };
            let fd = fd.map_err(|out| if let Out::Errno(errno) = out { errno } else { libc::EIO })?;
            let moved = raw::duplicate_onto(fd, *number);
            // SAFETY: no pointers are passed, and only this function uses the descriptor.
            unsafe { crate::close::close::hook(fd) };
            moved?;
            opened.0.push(*number);
        }
        Ok(opened)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Ok(null) = null() else { return };
        for number in &self.0 {
            let _ = raw::duplicate_onto(null, *number);
        }
        let _ = raw::close(null);
    }
}

/// posix_spawn(3). Returns an errno.
///
/// # Safety
/// `list` is NULL, or a list in use.
unsafe fn spawn(list: *const posix_spawn_file_actions_t, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    table::note_copies();
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    // SAFETY: the list is in use by the caller's promise.
    let actions = if list.is_null() { Vec::new() } else { unsafe { of_list(list) } };
    if !actions.iter().any(|noted| matches!(noted.action, Action::Open { .. } | Action::Enter { number: Some(_), .. })) {
        directories::enter_inherited();
        return Err(Out::Pass);
    }
    // The lock is held until the child has its files, because another thread may spawn with the same list.
    static SPAWNING: AttachLock = AttachLock::new();
    let _held = match SPAWNING.lock() {
        Ok(held) => held,
        Err(errno) => return Ok(errno),
    };
    match Opened::new(&actions) {
        Ok(_opened) => {
            directories::enter_inherited();
            Ok(real())
        }
        Err(errno) => Ok(errno),
    }
}

/// Converts an error to the result of posix_spawn.
fn answer(failed: Out) -> Result<c_int, Out> {
    match failed {
        Out::Errno(errno) => Ok(errno),
        other => Err(other),
    }
}

/// The program to start, if it is stored on a mount. The parent searches for it, so this does not
/// handle a path that begins in a directory that the child will enter.
///
/// # Safety
/// `path` is NULL or a C string; `list` is NULL, or a list in use.
unsafe fn stored(path: *const c_char, list: *const posix_spawn_file_actions_t, by_name: bool) -> Result<Option<Program>, Out> {
    // SAFETY: `path` and `list` are so by the caller's promise.
    unsafe {
        let name = crate::ffi::path(path)?;
        if by_name && !name.contains(&b'/') {
            return if search::meets_mount() { search::find(CStr::from_ptr(path)).map(Some) } else { Ok(None) };
        }
        if name.first() != Some(&b'/') && !list.is_null() && entered(list).is_some() {
            return Ok(None);
        }
        stored::find(libc::AT_FDCWD, path)
    }
}

/// Starts a program that is stored on a mount.
///
/// # Safety
/// `actions` is NULL, or a list in use; `arguments` and `environment` are NULL-terminated arrays of
/// C strings.
unsafe fn spawn_stored(
    mut program: Program,
    actions: *const posix_spawn_file_actions_t,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
    real: impl Fn(*const c_char, *const *mut c_char, *const *mut c_char) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: the list and the arrays are valid by the caller's promise. The path and the arguments
    // live until the child has executed the program.
    unsafe {
        let completed = match program.environment(environment.cast()) {
            Err(failed) => return answer(failed),
            Ok(completed) => completed,
        };
        let environment = completed.as_ref().map_or(environment.cast(), Environment::strings);
        exec::report(&program, environment);
        let path = program.path()?;
        let arguments = program.arguments(arguments.cast());
        let start = || real(path.as_ptr(), arguments.as_ptr().cast(), environment.cast());
        match spawn(actions, start) {
            Err(Out::Pass) => Ok(start()),
            other => other,
        }
    }
}

hooks! {
    /// posix_spawn(3).
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, how: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int {
        match stored(path, actions, false) {
            Ok(Some(program)) => spawn_stored(program, actions, arguments, environment, |path, arguments, environment| real(pid, path, actions, how, arguments, environment)),
            Ok(None) => {
                reach::report(libc::AT_FDCWD, path, environment.cast(), false);
                spawn(actions, || real(pid, path, actions, how, arguments, environment))
            }
            Err(failed) => answer(failed),
        }
    }
    /// posix_spawnp(3).
    fn posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, how: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int {
        match stored(path, actions, true) {
            Ok(Some(program)) => spawn_stored(program, actions, arguments, environment, |path, arguments, environment| real(pid, path, actions, how, arguments, environment)),
            Ok(None) => {
                reach::report(libc::AT_FDCWD, path, environment.cast(), true);
                spawn(actions, || real(pid, path, actions, how, arguments, environment))
            }
            Err(failed) => answer(failed),
        }
    }
    /// posix_spawn_file_actions_init(3).
    fn posix_spawn_file_actions_init(actions: *mut posix_spawn_file_actions_t) -> c_int {
        forget(actions);
        Err(Out::Pass)
    }
    /// posix_spawn_file_actions_destroy(3).
    fn posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
        forget(actions);
        Err(Out::Pass)
    }
    /// posix_spawn_file_actions_addopen(3).
    fn posix_spawn_file_actions_addopen(actions: *mut posix_spawn_file_actions_t, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        add_open(actions, fd, path, flags, mode)
    }
    /// posix_spawn_file_actions_addchdir_np(3). The child enters a directory of a mount by its descriptor.
    fn posix_spawn_file_actions_addchdir_np(actions: *mut posix_spawn_file_actions_t, path: *const c_char) -> c_int {
        add_chdir(actions, path)
    }
    /// posix_spawn_file_actions_addfchdir_np(3).
    fn posix_spawn_file_actions_addfchdir_np(list: *mut posix_spawn_file_actions_t, fd: c_int) -> c_int {
        if !crate::mounts::any() { return Err(Out::Pass) }
        let mounted = matches!(table::find(fd), Ok(Found::Directory(..)));
        match note(list, Action::Enter { mounted, number: None, path: CString::default() }) {
            0 => Err(Out::Pass),
            errno => Ok(errno),
        }
    }
}
