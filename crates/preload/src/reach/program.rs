//! The file of a program, and whether the loader will load this library into it.

use crate::raw;
use crate::raw::programs::{has_attribute, has_no_new_privileges, is_on_nosuid, read_at};
use libc::c_int;
use std::ffi::CStr;
use std::fmt::{Display, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a file that are read at once: the headers of most programs, the path of their loader,
/// or the first line of a script.
const BEGINNING_BYTES: usize = 1024;
/// Bytes of a script's beginning that the kernel reads (BINPRM_BUF_SIZE).
const LINE_BYTES_MAX: usize = 256;
/// Maximum depth of scripts that are interpreters of scripts, as in the kernel.
const SCRIPTS_MAX: usize = 5;
/// Maximum number of program headers examined. A program has about a dozen.
const HEADERS_MAX: usize = 64;
/// Size of a program header of a 64-bit file.
const HEADER_BYTES: usize = 56;
/// Bytes of the path of a loader that are examined.
const LOADER_BYTES_MAX: usize = 256;
const SHELL: &[u8] = b"/bin/sh";
const PT_INTERP: [u8; 4] = 3u32.to_ne_bytes();
/// This processor's number in ELF files: EM_X86_64, EM_AARCH64.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

/// Why the library is not loaded, or has no mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Static,
    Machine,
    CLibrary,
    SetId,
    Capabilities,
    OtherUser,
    NoLibrary,
    NoMounts,
}

impl Display for Cause {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Self::Static => "it is statically linked, so no loader loads the library",
            Self::Machine => "it is a program of another processor, and the library is not",
            Self::CLibrary if cfg!(target_env = "musl") => "it is a program of glibc, and the library is that for musl",
            Self::CLibrary => "it is a program of musl, and the library is that for glibc",
            Self::SetId => "it is a set-user-ID or set-group-ID program, so the loader ignores LD_PRELOAD",
            Self::Capabilities => "it has file capabilities, so the loader ignores LD_PRELOAD",
            Self::OtherUser => "real and effective user or group differ, so the loader ignores LD_PRELOAD",
            Self::NoLibrary => "the environment that it is given has no LD_PRELOAD with the library",
            Self::NoMounts => "the environment that it is given has no MILLRACE_MOUNTS",
        })
    }
}

/// A program that was examined.
pub(super) struct Found {
    /// Why the library cannot be loaded into the program, according to its file.
    pub(super) cause: Option<Cause>,
    pub(super) device: u64,
    pub(super) inode: u64,
    interpreter: [u8; LINE_BYTES_MAX],
}

impl Found {
    /// The interpreter. Empty if the program is not a script.
    pub(super) fn interpreter(&self) -> &[u8] {
        CStr::from_bytes_until_nul(&self.interpreter).map_or(&[], CStr::to_bytes)
    }

    /// Whether the program is `millrace` itself, which needs no library.
    pub(super) fn is_ours(&self) -> bool {
        let (device, inode) = (OUR_DEVICE.load(Ordering::Relaxed), OUR_INODE.load(Ordering::Relaxed));
        inode != 0 && (self.device, self.inode) == (device, inode)
    }
}

static OUR_DEVICE: AtomicU64 = AtomicU64::new(0);
static OUR_INODE: AtomicU64 = AtomicU64::new(0);

/// Stores the identity of `millrace`, by its path.
pub(super) fn learn(millrace: Option<&[u8]>) {
    let Some(path) = millrace.and_then(|path| std::ffi::CString::new(path).ok()) else { return };
    if let Ok(file) = raw::stat(&path, true) {
        OUR_DEVICE.store(file.st_dev, Ordering::Relaxed);
        OUR_INODE.store(file.st_ino, Ordering::Relaxed);
    }
}

/// A descriptor that is closed when dropped.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        let _ = raw::close(self.0);
    }
}

/// The kind of a file, according to its first bytes.
enum Kind {
    /// A program, with the cause if it does not get the library.
    Program(Option<Cause>),
    /// A script, whose interpreter was stored.
    Script,
    Unknown,
}

/// Examines a program, or the interpreter of a script. `None` for a file that cannot be executed.
/// Without `by_shell`, also `None` for a file that is neither a program nor a script.
pub(super) fn look(directory: c_int, path: &CStr, by_shell: bool) -> Option<Found> {
    let mut interpreter = [0; LINE_BYTES_MAX];
    let mut directory = directory;
    for round in 0..=SCRIPTS_MAX {
        let name = if round == 0 { path } else { CStr::from_bytes_until_nul(&interpreter).ok()? };
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: the path ends with a NUL.
        let opened = unsafe { raw::open_from(directory, name.as_ptr(), flags) };
        // A file that may be executed but not read, like `sudo` on some hosts: only its attributes are known.
        let (file, stat) = match opened {
            Ok(fd) => (Some(File(fd)), raw::fstat(fd).ok()?),
            Err(libc::EACCES) if directory == libc::AT_FDCWD => (None, raw::stat(name, true).ok()?),
            Err(_) => return None,
        };
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG || stat.st_mode & 0o111 == 0 {
            return None;
        }
        let mut next = [0; LINE_BYTES_MAX];
        match file.as_ref().map_or(Kind::Program(None), |file| begin(file, name.to_bytes(), &mut next)) {
            Kind::Program(cause) => {
                let cause = cause.or_else(|| rights(&stat, file.as_ref()));
                return Some(Found { cause, device: stat.st_dev, inode: stat.st_ino, interpreter });
            }
            Kind::Script => {}
            // execvp(3) executes a file that is not a program with the shell.
            Kind::Unknown if by_shell && round == 0 => next[..SHELL.len()].copy_from_slice(SHELL),
            Kind::Unknown => return None,
        }
        interpreter = next;
        directory = libc::AT_FDCWD;
    }
    None
}

/// The kind of a file. Stores the path of a script's interpreter in `interpreter`, which is zeroed.
fn begin(file: &File, name: &[u8], interpreter: &mut [u8; LINE_BYTES_MAX]) -> Kind {
    let mut buffer = [0; BEGINNING_BYTES];
    let Ok(got) = read_at(file.0, 0, &mut buffer) else { return Kind::Unknown };
    let bytes = &buffer[..got];
    if let Some(line) = bytes.strip_prefix(b"#!") {
        return script(line, interpreter);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Kind::Unknown;
    }
    Kind::Program(cause_of(file, bytes, name))
}

/// Stores the first word of a script's first line in `path`.
fn script(line: &[u8], path: &mut [u8; LINE_BYTES_MAX]) -> Kind {
    let line = &line[..line.len().min(LINE_BYTES_MAX - 3)];
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default().trim_ascii_start();
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    path[..word.len()].copy_from_slice(word);
    if word.is_empty() { Kind::Unknown } else { Kind::Script }
}

/// Why the library cannot be loaded into the program of a file. The fields of ELF-64: e_machine at
/// 18, e_phoff at 32, e_phentsize at 54, e_phnum at 56.
fn cause_of(file: &File, bytes: &[u8], name: &[u8]) -> Option<Cause> {
    let half = |at: usize| bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map(u16::from_ne_bytes);
    if bytes.get(4) != Some(&2) || half(18) != Some(MACHINE) {
        return Some(Cause::Machine);
    }
    let (start, size, count) = (word(bytes, 32)?, usize::from(half(54)?), usize::from(half(56)?));
    if size != HEADER_BYTES || count > HEADERS_MAX {
        return None;
    }
    for index in 0..count {
        let mut header = [0; HEADER_BYTES];
        part(file, bytes, start.checked_add(index * HEADER_BYTES)?, &mut header)?;
        if header.starts_with(&PT_INTERP) {
            return loader(file, bytes, &header);
        }
    }
    // The dynamic loader itself, executed as a program, loads the libraries of LD_PRELOAD.
    let own = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_loader = [&b"ld-"[..], b"ld.so", b"ld64.so"].iter().any(|start| own.starts_with(start));
    (!is_loader).then_some(Cause::Static)
}

/// [`Cause::CLibrary`] if the loader that a header names is not that of this library's C library
/// (p_offset at 8, p_filesz at 32).
fn loader(file: &File, bytes: &[u8], header: &[u8]) -> Option<Cause> {
    let mut name = [0; LOADER_BYTES_MAX];
    let length = word(header, 32)?.min(LOADER_BYTES_MAX);
    part(file, bytes, word(header, 8)?, &mut name[..length])?;
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    (last.starts_with(b"ld-musl-") != cfg!(target_env = "musl")).then_some(Cause::CLibrary)
}

/// Copies bytes of the file, from `beginning` if that has them. `None` if the file is shorter.
fn part(file: &File, beginning: &[u8], at: usize, to: &mut [u8]) -> Option<()> {
    match beginning.get(at..at.checked_add(to.len())?) {
        Some(there) => to.copy_from_slice(there),
        None if read_at(file.0, at as i64, to) == Ok(to.len()) => {}
        None => return None,
    }
    Some(())
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let eight: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
    usize::try_from(u64::from_ne_bytes(eight)).ok()
}

/// Why the kernel sets AT_SECURE, which makes the loader ignore LD_PRELOAD
/// (cap_bprm_creds_from_file in security/commoncap.c).
fn rights(stat: &libc::stat, file: Option<&File>) -> Option<Cause> {
    let (user, group) = (raw::getuid(), raw::getgid());
    let marked_user = stat.st_mode & libc::S_ISUID != 0;
    // Without the group's right to execute, the set-group-ID bit means mandatory locks.
    let marked_group = stat.st_mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    let differs = |marked_user, marked_group| {
        user != if marked_user { stat.st_uid } else { raw::geteuid() }
            || group != if marked_group { stat.st_gid } else { raw::getegid() }
    };
    let cause = if differs(false, false) {
        return Some(Cause::OtherUser);
    } else if (marked_user || marked_group) && differs(marked_user, marked_group) {
        Cause::SetId
    } else if user != 0 && file.is_some_and(|file| has_attribute(file.0, c"security.capability")) {
        Cause::Capabilities
    } else {
        return None;
    };
    let ignored = has_no_new_privileges() || file.is_some_and(|file| is_on_nosuid(file.0));
    (!ignored).then_some(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(bytes: &[u8]) -> Option<Cause> {
        cause_of(&File(-1), bytes, b"/bin/program")
    }

    /// An ELF header of 64 bytes, one program header, and the loader's path, to which that points.
    fn elf(loader: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64 + HEADER_BYTES, 0);
        bytes[18..20].copy_from_slice(&MACHINE.to_ne_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&(HEADER_BYTES as u16).to_ne_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&PT_INTERP);
        bytes[72..80].copy_from_slice(&120u64.to_ne_bytes());
        bytes[96..104].copy_from_slice(&(loader.len() as u64).to_ne_bytes());
        bytes.extend_from_slice(loader);
        bytes
    }

    #[test]
    fn a_program_is_reached_when_its_loader_is_that_of_the_librarys_c_library() {
        let (ours, other) =
            if cfg!(target_env = "musl") { ("musl-x86_64", "linux-x86-64") } else { ("linux-x86-64", "musl-x86_64") };
        assert_eq!(cause(&elf(format!("/lib/ld-{ours}.so.2\0").as_bytes())), None);
        assert_eq!(cause(&elf(format!("/lib/ld-{other}.so.1\0").as_bytes())), Some(Cause::CLibrary));
    }

    #[test]
    fn a_program_without_a_loader_is_static_but_for_the_loader_itself() {
        let mut bytes = elf(b"");
        bytes[64] = 1; // PT_LOAD
        assert_eq!(cause(&bytes), Some(Cause::Static));
        assert_eq!(cause_of(&File(-1), &bytes, b"/lib64/ld-linux-x86-64.so.2"), None);
    }

    #[test]
    fn a_program_of_another_processor_or_of_32_bits_is_not_reached() {
        let mut bytes = elf(b"/lib/ld-linux.so.2\0");
        bytes[18] = 3; // EM_386
        assert_eq!(cause(&bytes), Some(Cause::Machine));
        let mut bytes = elf(b"/lib/ld-linux.so.2\0");
        bytes[4] = 1;
        assert_eq!(cause(&bytes), Some(Cause::Machine));
    }

    #[test]
    fn headers_that_lie_say_nothing() {
        for (at, value) in [(32, u64::MAX), (72, u64::MAX), (96, 255)] {
            let mut bytes = elf(b"/lib/ld-musl-x86_64.so.1\0");
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(cause(&bytes), None, "{value} at {at}");
        }
    }

    #[test]
    fn the_first_word_behind_the_marks_runs_a_script() {
        let of = |line: &[u8]| {
            let mut path = [0; LINE_BYTES_MAX];
            script(line, &mut path);
            CStr::from_bytes_until_nul(&path).unwrap().to_bytes().to_vec()
        };
        assert_eq!(of(b"/bin/sh -e\necho"), b"/bin/sh");
        assert_eq!(of(b" /usr/bin/env\tpython3\n"), b"/usr/bin/env");
        assert_eq!(of(b"\n/bin/sh"), b"");
        assert_eq!(of(&[b'x'; 900]).len(), LINE_BYTES_MAX - 3);
    }
}
