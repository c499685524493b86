//! All functions of exec. They finish what this process has in flight before it executes another
//! program, as a kernel does. They report a program into which this library will not be loaded
//! (`reach`). A program stored on a mount is executed from a copy
//! (docs/design/018-stored-programs.md).
//!
//! libc's functions make the system call without a hook, so each of them has a hook of its own.

use crate::close;
use crate::directories;
use crate::hook::hooks;
use crate::kernel_aio;
use crate::messages::warn_before_exec;
use crate::mounts;
use crate::outcome::{Errno, Out};
use crate::raw;
use crate::raw::programs::Strings;
use crate::reach::{self, own_environment};
use crate::shared_maps;
use crate::table;
use environment::Environment;
use libc::{FILE, c_char, c_int};
use std::convert::Infallible;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use stored::{Program, SHELL, What};

pub(crate) mod environment;
pub(crate) mod image;
mod launchers;
mod lists;
pub(crate) mod needed;
pub(crate) mod search;
pub(crate) mod stored;

/// With less address space than this, in bytes, the loader may be unable to map this library (text
/// and data: 6 MiB, 9 MiB in a debug build) beside a program. The loader would then start the
/// program without the library, and the program would use this host's files at the mount's path.
const ADDRESS_SPACE_MIN: u64 = 32 << 20;

/// Finishes the writes and the kernel AIO of this process.
///
/// # Errors
/// ENOMEM if the library may not fit into the next program.
fn finish() -> Result<(), Out> {
    let space = raw::soft_limit(libc::RLIMIT_AS as usize);
    if mounts::any() && space < ADDRESS_SPACE_MIN {
        static WARNED: AtomicBool = AtomicBool::new(false); // execvp(3) of a shell tries each directory of PATH
        if WARNED.swap(true, Ordering::Relaxed) {
            return Err(Out::Errno(libc::ENOMEM));
        }
        warn_before_exec(format_args!(
            "cannot execute a program: the library of Direct NFS mounts may not fit into its {} KiB of address space; raise RLIMIT_AS (ulimit -v)",
            space / 1024
        ));
        return Err(Out::Errno(libc::ENOMEM));
    }
    directories::enter_inherited();
    kernel_aio::drain();
    shared_maps::write_all();
    close::send_gathered();
    Ok(())
}

/// Executes the program of a path that leads to a mount. Returns only if the path does not, or on failure.
///
/// # Errors
/// [`Out::Pass`] if the kernel must execute the program. The errno of execve(2).
///
/// # Safety
/// `path` is NULL or a C string; `arguments` and `environment` are NULL-terminated arrays of C strings.
unsafe fn become_program(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> Result<Infallible, Out> {
    // SAFETY: the path and the arrays are valid by the caller's promise.
    unsafe {
        match stored::find(directory, path)? {
            Some(program) => Err(Out::Errno(execute(program, arguments, environment))),
            None => Err(Out::Pass),
        }
    }
}

/// Executes the program that was found on a mount.
///
/// # Safety
/// As [`become_program`].
unsafe fn execute(mut program: Program, arguments: Strings, environment: Strings) -> Errno {
    // SAFETY: the arrays are valid by the caller's promise; the new array lives until the call
    // returns, if it returns.
    unsafe {
        let completed = match program.environment(environment) {
            Ok(completed) => completed,
            Err(Out::Errno(errno)) => return errno,
            Err(_) => return libc::EIO,
        };
        let environment = completed.as_ref().map_or(environment, Environment::strings);
        report(&program, environment);
        let arguments = program.arguments(arguments);
        match &program.what {
            What::Path(path) => raw::programs::execute(path, arguments.as_ptr(), environment),
            What::Image(image, _) => raw::programs::execute_descriptor(image.fd(), arguments.as_ptr(), environment),
        }
    }
}

/// Reports a program on a mount into which the library will not be loaded.
///
/// # Safety
/// As [`become_program`].
pub(crate) unsafe fn report(program: &Program, environment: Strings) {
    let Ok(path) = program.path() else { return };
    // SAFETY: `path` is a C string, and the environment is valid by the caller's promise.
    unsafe { reach::report_as(program.name.to_bytes(), libc::AT_FDCWD, path.as_ptr(), environment, false) };
}

/// Called before the process executes the program at a path.
///
/// # Safety
/// As [`become_program`].
unsafe fn by_path<T>(path: *const c_char, arguments: Strings, environment: Strings) -> Result<T, Out> {
    finish()?;
    // SAFETY: the path and the arrays are valid by the caller's promise.
    unsafe {
        match become_program(libc::AT_FDCWD, path, arguments, environment) {
            Ok(never) => match never {},
            Err(Out::Pass) => on_host(path, arguments, environment, false)?,
            Err(failed) => return Err(failed),
        }
    }
    Err(Out::Pass)
}

/// Called before the process executes a program of this host. If a launcher starts the program,
/// executes it with a completed environment. Otherwise reports it if the library will not be loaded
/// into it.
///
/// # Errors
/// The error of execve(2), if this function tried to execute the program.
///
/// # Safety
/// As [`become_program`].
unsafe fn on_host(path: *const c_char, arguments: Strings, environment: Strings, by_name: bool) -> Result<(), Out> {
    // SAFETY: the path and the arrays are valid by the caller's promise.
    unsafe {
        let is_path = !path.is_null() && (!by_name || CStr::from_ptr(path).to_bytes().contains(&b'/'));
        if is_path && let Some(completed) = launchers::environment(environment) {
            return Err(Out::Errno(raw::programs::execute(CStr::from_ptr(path), arguments, completed.strings())));
        }
        reach::report(libc::AT_FDCWD, path, environment, by_name);
    }
    Ok(())
}

/// Called before the process executes the program of a name. The name is searched for in PATH
/// unless it contains a slash.
///
/// # Safety
/// As [`become_program`].
unsafe fn by_name<T>(name: *const c_char, arguments: Strings, environment: Strings) -> Result<T, Out> {
    finish()?;
    // SAFETY: the name and the arrays are valid by the caller's promise.
    unsafe {
        let found = match crate::ffi::path(name)?.contains(&b'/') {
            true => become_program(libc::AT_FDCWD, name, arguments, environment),
            false if search::meets_mount() => Err(Out::Errno(search::execute(CStr::from_ptr(name), arguments, environment))),
            false => Err(Out::Pass),
        };
        match found {
            Ok(never) => match never {},
            Err(Out::Pass) => on_host(name, arguments, environment, true)?,
            Err(Out::Errno(libc::ENOEXEC)) => return Err(Out::Errno(by_shell(CStr::from_ptr(name), arguments, environment))),
            Err(failed) => return Err(failed),
        }
    }
    Err(Out::Pass)
}

/// Executes the shell for a file that is not a program, as execvp(3) does.
///
/// # Safety
/// As [`become_program`].
unsafe fn by_shell(path: &CStr, arguments: Strings, environment: Strings) -> Errno {
    // SAFETY: the arrays are valid by the caller's promise; the new array lives until the call
    // returns, if it returns.
    unsafe {
        let program = Program::by_shell(path.to_owned());
        let arguments = program.arguments(arguments);
        raw::programs::execute(SHELL, arguments.as_ptr(), environment)
    }
}

/// Called before the process executes the program of a descriptor.
///
/// # Safety
/// `arguments` and `environment` are NULL-terminated arrays of C strings.
unsafe fn by_descriptor<T>(fd: c_int, arguments: Strings, environment: Strings) -> Result<T, Out> {
    finish()?;
    // SAFETY: the arrays are valid by the caller's promise.
    unsafe {
        if let Some(program) = stored::find_by_descriptor(fd)? {
            return Err(Out::Errno(execute(program, arguments, environment)));
        }
        reach::report_descriptor(fd, environment);
    }
    Err(Out::Pass)
}

hooks! {
    /// execve(2).
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int = SYS_execve { by_path(path, arguments, environment) }
    /// execveat(2).
    fn execveat(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int = SYS_execveat {
        if flags & libc::AT_EMPTY_PATH != 0 && crate::ffi::path(path)?.is_empty() {
            return by_descriptor(directory, arguments, environment);
        }
        finish()?;
        match become_program(directory, path, arguments, environment) {
            Ok(never) => match never {},
            Err(Out::Pass) => reach::report(directory, path, environment, false),
            Err(failed) => return Err(failed),
        }
        Err(Out::Pass)
    }
    /// fexecve(3).
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int { by_descriptor(fd, arguments, environment) }
    /// execv(3).
    fn execv(path: *const c_char, arguments: Strings) -> c_int { by_path(path, arguments, own_environment()) }
    /// execvp(3).
    fn execvp(name: *const c_char, arguments: Strings) -> c_int { by_name(name, arguments, own_environment()) }
    /// execvpe(3).
    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int { by_name(name, arguments, environment) }
    /// system(3): libc's function starts a shell without calling a hook.
    @cancellation_point fn system(command: *const c_char) -> c_int {
        table::note_copies();
        if !command.is_null() {
            directories::enter_inherited();
            reach::report_shell();
        }
        Err(Out::Pass)
    }
    /// popen(3), as system(3).
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        table::note_copies();
        directories::enter_inherited();
        reach::report_shell();
        Err(Out::Pass)
    }
}
