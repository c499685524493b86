//! Programs stored on a mount: what the kernel executes instead of them, and with which arguments.

use super::environment::{Environment, library_path, strings_of};
use super::image::Image;
use super::needed;
use crate::outcome::Out;
use crate::paths::{self, Target};
use crate::raw;
use crate::raw::programs::Strings;
use crate::table::{self, Found};
use dnfs::file::FileKind;
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};

/// The shell with which execvp(3) runs a file that is not a program.
pub(super) const SHELL: &CStr = c"/bin/sh";
/// Bytes of a script's beginning that the kernel reads (BINPRM_BUF_SIZE).
const LINE_BYTES: usize = 256;
/// Maximum depth of scripts that are interpreters of scripts, as in the kernel.
const SCRIPTS_MAX: usize = 5;

/// What to execute.
pub(crate) struct Program {
    pub(super) what: What,
    /// The arguments that replace the first one if there are scripts: interpreter, its argument, script.
    front: Vec<CString>,
    /// Copies of the libraries on a mount with which the program is linked.
    libraries: Vec<Image>,
    /// The path by which programs know the program.
    pub(super) name: CString,
}

pub(super) enum What {
    /// A program of this host.
    Path(CString),
    /// A copy of a program on a mount, and its path there.
    Image(Image, Vec<u8>),
}

impl Program {
    /// An unchanged program of this host.
    pub(super) fn of_host(path: CString) -> Self {
        Self { what: What::Path(path.clone()), front: Vec::new(), libraries: Vec::new(), name: path }
    }

    /// A file that is not a program, for the shell.
    pub(super) fn by_shell(path: CString) -> Self {
        Self {
            what: What::Path(SHELL.to_owned()),
            front: vec![SHELL.to_owned(), path],
            libraries: Vec::new(),
            name: SHELL.to_owned(),
        }
    }

    /// The arguments for the program. They point into `self` and into the given ones.
    ///
    /// # Safety
    /// `given` is NULL, or a NULL-terminated array of C strings.
    pub(crate) unsafe fn arguments(&self, given: Strings) -> Vec<*const c_char> {
        // SAFETY: `given` is such an array by the caller's promise.
        let given = unsafe { strings_of(given) };
        let kept = if self.front.is_empty() { 0 } else { given.len().min(1) };
        let front = self.front.iter().map(|argument| argument.as_ptr());
        front.chain(given[kept..].iter().copied()).chain([std::ptr::null()]).collect()
    }

    /// The environment for the program, instead of `given`. `None` if that is complete. Copies the
    /// libraries on a mount with which the program is linked, and passes the copies on.
    ///
    /// # Errors
    /// The errors of open and read of such a library.
    ///
    /// # Safety
    /// `given` is NULL, or a NULL-terminated array of C strings that outlives the result.
    pub(crate) unsafe fn environment(&mut self, given: Strings) -> Result<Option<Environment>, Out> {
        if let What::Image(image, path) = &self.what {
            // SAFETY: `given` is such an array by the caller's promise.
            self.libraries = needed::copies(image, path, unsafe { library_path(given) })?;
            self.libraries.iter().for_each(Image::pass_on);
        }
        // SAFETY: `given` is such an array by the caller's promise.
        Ok(unsafe { Environment::complete(given, &self.libraries) })
    }

    /// A path by which another process of this host can execute the program, as long as `self` exists.
    pub(crate) fn path(&self) -> Result<CString, Out> {
        match &self.what {
            What::Path(path) => Ok(path.clone()),
            What::Image(image, _) => {
                CString::new(format!("/proc/{}/fd/{}", raw::process_id(), image.fd())).map_err(|_| libc::EINVAL.into())
            }
        }
    }
}

/// The program to execute for a path that leads to a mount. `None` if the path does not.
///
/// # Errors
/// ENOENT, ENOTDIR, ELOOP; EACCES if the object is not a regular file, or may not be executed or read.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn find(directory: c_int, path: *const c_char) -> Result<Option<Program>, Out> {
    if !crate::mounts::any() {
        return Ok(None);
    }
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let mut name = CString::new(unsafe { crate::ffi::path(path) }?).map_err(|_| Out::Errno(libc::EINVAL))?;
    let mut directory = directory;
    let mut front = Vec::new();
    for _ in 0..=SCRIPTS_MAX {
        let what = match locate(directory, &name)? {
            Located::Here if front.is_empty() => return Ok(None),
            Located::Here => What::Path(name.clone()),
            Located::Path(path) => What::Path(path),
            Located::OnMount(full) => {
                // SAFETY: the path ends with a NUL.
                let image = unsafe { Image::of(directory, name.as_ptr(), &full) }?;
                if let Some((interpreter, argument)) = script(&image)? {
                    if directory != libc::AT_FDCWD {
                        name = CString::new(full).map_err(|_| Out::Errno(libc::EINVAL))?;
                    }
                    let behind = front.into_iter().skip(1);
                    front = [Some(interpreter.clone()), argument, Some(name)].into_iter().flatten().chain(behind).collect();
                    name = interpreter;
                    directory = libc::AT_FDCWD;
                    continue;
                }
                What::Image(image, full)
            }
        };
        return Ok(Some(Program { what, front, libraries: Vec::new(), name }));
    }
    Err(Out::Errno(libc::ELOOP))
}

enum Located {
    /// On this host, by the given path.
    Here,
    /// On this host, by another path.
    Path(CString),
    /// On a mount, with the path as programs see it.
    OnMount(Vec<u8>),
}

fn locate(directory: c_int, path: &CStr) -> Result<Located, Out> {
    // SAFETY: the path ends with a NUL.
    match unsafe { paths::target_linked(directory, path.as_ptr(), true) }? {
        Target::Local(None) => Ok(Located::Here),
        Target::Local(Some(path)) => Ok(Located::Path(path)),
        Target::At(mounted, mount, entry) => {
            let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
            if object.attr.kind != FileKind::Regular {
                return Err(Out::Errno(libc::EACCES));
            }
            mount.check_rights(object, libc::X_OK as u32)?;
            Ok(Located::OnMount(mounted.path_of(&mount.path_of(&entry)?)))
        }
    }
}

/// As [`find`], for the program of a descriptor of a file on a mount.
pub(crate) fn find_by_descriptor(fd: c_int) -> Result<Option<Program>, Out> {
    if !crate::mounts::any() || !matches!(table::find(fd), Ok(Found::File(_))) {
        return Ok(None);
    }
    let name = CString::new(format!("/dev/fd/{fd}")).map_err(|_| Out::Errno(libc::EINVAL))?;
    // SAFETY: the path ends with a NUL.
    let image = unsafe { Image::of(libc::AT_FDCWD, name.as_ptr(), name.as_bytes()) }?;
    Ok(Some(match script(&image)? {
        None => Program { what: What::Image(image, name.to_bytes().to_vec()), front: Vec::new(), libraries: Vec::new(), name },
        Some((interpreter, argument)) => {
            let front = [Some(interpreter.clone()), argument, Some(name)].into_iter().flatten().collect();
            Program { what: What::Path(interpreter.clone()), front, libraries: Vec::new(), name: interpreter }
        }
    }))
}

/// The interpreter of a script, and the argument that its first line may contain.
///
/// # Errors
/// ENOEXEC for a first line without an interpreter.
fn script(image: &Image) -> Result<Option<(CString, Option<CString>)>, Out> {
    let mut buffer = [0; LINE_BYTES];
    let Some(line) = image.beginning(&mut buffer)?.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let word = |bytes: &[u8]| CString::new(bytes.trim_ascii()).map_err(|_| Out::Errno(libc::ENOEXEC));
    if end == 0 {
        return Err(Out::Errno(libc::ENOEXEC));
    }
    let argument = if end < line.len() { Some(word(&line[end..])?) } else { None };
    Ok(Some((word(&line[..end])?, argument)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Option<(String, Option<String>)>, Out> {
        let image = Image::holding(line.as_bytes());
        let text = |string: CString| string.into_string().unwrap();
        Ok(script(&image)?.map(|(interpreter, argument)| (text(interpreter), argument.map(text))))
    }

    #[test]
    fn a_first_line_names_an_interpreter_and_at_most_one_argument() {
        let sh = |argument: Option<&str>| Ok(Some(("/bin/sh".to_owned(), argument.map(str::to_owned))));
        assert_eq!(of("#!/bin/sh\necho"), sh(None));
        assert_eq!(of("#! \t/bin/sh  -e -x \necho"), sh(Some("-e -x")));
        assert_eq!(of("#!/bin/sh"), sh(None));
        assert_eq!(of("echo"), Ok(None));
        assert_eq!(of("#!\n"), Err(Out::Errno(libc::ENOEXEC)));
    }
}
