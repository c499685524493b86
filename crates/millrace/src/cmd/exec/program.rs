//! Reads from a program's file whether the dynamic loader will load a library into it, and which C
//! library it uses.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// C libraries for which a preload library exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CLibrary {
    Glibc,
    Musl,
}

/// Enough for the headers of a program, and the first line of a script.
const HEADERS_BYTES_MAX: u64 = 64 * 1024;
/// The largest number of nested scripts that are followed, as in the kernel.
const SCRIPTS_MAX: usize = 5;

impl CLibrary {
    /// The C library of a program or of a script's interpreter. If the file does not name one, that
    /// of this host.
    pub(super) fn of(program: Option<&OsStr>) -> Self {
        let mut program = program.and_then(locate);
        for _ in 0..SCRIPTS_MAX {
            let Some(path) = program else { break };
            let bytes = beginning(&path);
            if let Some(loader) = interpreter(&bytes) {
                return Self::of_loader(loader);
            }
            program = script_interpreter(&bytes);
        }
        Self::of_host()
    }

    /// The C library that this binary itself loads. `None` if it is statically linked.
    pub(super) fn of_this_binary() -> Option<Self> {
        let dynamic = if cfg!(target_env = "musl") { Self::Musl } else { Self::Glibc };
        (!cfg!(target_feature = "crt-static")).then_some(dynamic)
    }

    /// The folder of its preload library, relative to that of glibc's.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Glibc => "",
            Self::Musl => "musl",
        }
    }

    fn of_loader(loader: &[u8]) -> Self {
        let name = loader.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if name.starts_with(b"ld-musl-") { Self::Musl } else { Self::Glibc }
    }

    /// The C library of /bin/sh, or glibc if /bin/sh names none.
    fn of_host() -> Self {
        interpreter(&beginning(Path::new("/bin/sh"))).map_or(Self::Glibc, Self::of_loader)
    }
}

/// Whether a file is a program that no dynamic loader loads.
pub(super) fn is_static(path: &Path) -> bool {
    let bytes = beginning(path);
    headers(&bytes).is_some() && interpreter(&bytes).is_none()
}

/// The file that a shell would run by this name.
pub(super) fn locate(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    host::in_path(program)
}

fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(HEADERS_BYTES_MAX).read_to_end(&mut bytes)) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
    }
}

/// The program headers of a 64-bit ELF file (ELF-64: e_phoff at 32, e_phentsize at 54, e_phnum at 56).
fn headers(bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    if !bytes.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let half = |at: usize| bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map(u16::from_ne_bytes);
    let start = word(bytes, 32).filter(|start| *start < bytes.len())?;
    let (size, count) = (usize::from(half(54)?), half(56)?);
    Some((0..count).filter_map(move |index| bytes.get(start + usize::from(index) * size..)?.get(..size)))
}

/// The dynamic loader that an ELF file names (a header of the type PT_INTERP: p_offset at 8,
/// p_filesz at 32).
fn interpreter(bytes: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: [u8; 4] = 3u32.to_ne_bytes();
    let header = headers(bytes)?.find(|header| header.starts_with(&PT_INTERP))?;
    let (start, length) = (word(header, 8)?, word(header, 32)?);
    let name = bytes.get(start..start.checked_add(length)?)?;
    Some(name.strip_suffix(b"\0").unwrap_or(name))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let eight: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
    usize::try_from(u64::from_ne_bytes(eight)).ok()
}

/// The interpreter that a script's first line names: `#!/bin/sh -e`, `#!/usr/bin/env python3`.
fn script_interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let first = words.next()?;
    if !first.as_bytes().ends_with(b"/env") {
        return Some(PathBuf::from(first));
    }
    let named = words.find(|word| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'='))?;
    locate(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_is_not_static() {
        assert!(!is_static(Path::new("/bin/sh")));
        assert!(!is_static(Path::new("/etc/passwd")));
    }

    /// A 64-bit ELF file: 64 bytes of ELF header, one program header, and the loader's name that it
    /// points to.
    fn elf(loader: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64 + 56, 0);
        bytes[32..40].copy_from_slice(&64u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&3u32.to_ne_bytes());
        bytes[72..80].copy_from_slice(&120u64.to_ne_bytes());
        bytes[96..104].copy_from_slice(&(loader.len() as u64).to_ne_bytes());
        bytes.extend_from_slice(loader);
        bytes
    }

    #[test]
    fn c_library_is_that_of_the_loader_the_program_asks_for_also_behind_a_script() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        std::fs::write(path("of-musl"), elf(b"/lib/ld-musl-x86_64.so.1\0")).unwrap();
        std::fs::write(path("of-glibc"), elf(b"/lib64/ld-linux-x86-64.so.2\0")).unwrap();
        for (script, program) in [("script", "of-musl"), ("script-of-script", "script")] {
            std::fs::write(path(script), format!("#! {} -x\necho\n", path(program).display())).unwrap();
        }
        let of = |name: &str| CLibrary::of(Some(path(name).as_os_str()));
        assert_eq!((of("of-musl"), of("of-glibc")), (CLibrary::Musl, CLibrary::Glibc));
        assert_eq!((of("script"), of("script-of-script")), (CLibrary::Musl, CLibrary::Musl));
        assert_eq!((of("absent"), CLibrary::of(None)), (CLibrary::of_host(), CLibrary::of_host()));
    }

    #[test]
    fn headers_that_lie_are_no_program_and_no_panic() {
        for (at, value) in [(32, u64::MAX), (72, u64::MAX), (96, u64::MAX), (72, 1 << 40)] {
            let mut bytes = elf(b"/lib/ld-musl-x86_64.so.1\0");
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(interpreter(&bytes), None, "{value} at {at}");
        }
        assert_eq!(interpreter(&elf(b"")[..64]), None);
    }
}
