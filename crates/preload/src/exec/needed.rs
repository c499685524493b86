//! Shared libraries on a mount with which a program or library is linked (`DT_NEEDED`). The dynamic
//! loader would search for them by system calls without hooks, and would not find them.
//!
//! The search order is that of ld.so(8): DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, with `$ORIGIN`. If
//! the first match is on this host, the loader itself finds it.

use super::image::Image;
use crate::outcome::Out;
use crate::paths::{self, Target};
use crate::raw;
use dnfs::file::FileKind;
use std::ffi::CString;

/// Maximum number of program headers examined. A program has about a dozen.
const HEADERS_MAX: usize = 64;
/// Size of a file header, a program header and a dynamic entry of ELF-64.
const FILE_HEADER_BYTES: usize = 64;
const HEADER_BYTES: usize = 56;
const ENTRY_BYTES: usize = 16;
/// Maximum bytes of the dynamic section and of its strings.
const SECTION_BYTES_MAX: usize = 1 << 20;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// The paths of the libraries on a mount with which a file is directly linked. `path` is the file's
/// path, `image` its copy, and `listed` LD_LIBRARY_PATH. Empty for a file that is not ELF-64 or is
/// damaged, which the loader reports.
pub(crate) fn on_mounts(image: &Image, path: &[u8], listed: &[u8]) -> Vec<CString> {
    let Some(dynamic) = Dynamic::of(image) else { return Vec::new() };
    let folder = path.get(..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)).unwrap_or_default();
    let own = |kind: u64| dynamic.texts(kind).next().map(<[u8]>::to_vec).unwrap_or_default();
    let runpath = own(DT_RUNPATH);
    let rpath = if runpath.is_empty() { own(DT_RPATH) } else { Vec::new() };
    let folders: Vec<Vec<u8>> = [rpath.as_slice(), listed, &runpath]
        .iter()
        .flat_map(|list| list.split(|byte| matches!(byte, b':' | b';')))
        .filter(|entry| !entry.is_empty())
        .map(|entry| with_origin(entry, folder))
        .collect();
    dynamic.texts(DT_NEEDED).filter_map(|name| find(name, folder, &folders)).collect()
}

/// The path of a library, if the first match on the search path is on a mount.
fn find(name: &[u8], origin: &[u8], folders: &[Vec<u8>]) -> Option<CString> {
    if name.contains(&b'/') {
        return matches!(place(&with_origin(name, origin)), Place::OnMount)
            .then(|| CString::new(with_origin(name, origin)).ok())?;
    }
    for folder in folders {
        let path = [folder, b"/".as_slice(), name].concat();
        match place(&path) {
            Place::OnMount => return CString::new(path).ok(),
            Place::Here => return None,
            Place::Nowhere => {}
        }
    }
    None
}

enum Place {
    OnMount,
    Here,
    Nowhere,
}

fn place(path: &[u8]) -> Place {
    let Ok(path) = CString::new(path) else { return Place::Nowhere };
    // SAFETY: the path ends with a NUL.
    match unsafe { paths::target_linked(libc::AT_FDCWD, path.as_ptr(), true) } {
        Ok(Target::At(_, _, entry)) => match entry.object {
            Some(object) if object.attr.kind == FileKind::Regular => Place::OnMount,
            _ => Place::Nowhere,
        },
        Ok(Target::Local(other)) if raw::stat(other.as_deref().unwrap_or(&path), true).is_ok() => Place::Here,
        _ => Place::Nowhere,
    }
}

/// An entry of a search path with `$ORIGIN` replaced by the file's directory.
fn with_origin(entry: &[u8], folder: &[u8]) -> Vec<u8> {
    for name in [b"$ORIGIN".as_slice(), b"${ORIGIN}"] {
        if let Some(rest) = entry.strip_prefix(name) {
            return [folder, rest].concat();
        }
    }
    entry.to_vec()
}

/// The dynamic section of a file.
struct Dynamic {
    entries: Vec<(u64, u64)>,
    strings: Vec<u8>,
}

impl Dynamic {
    fn of(image: &Image) -> Option<Self> {
        let header = part(image, 0, FILE_HEADER_BYTES)?;
        if !header.starts_with(b"\x7fELF\x02") {
            return None;
        }
        let (start, count) = (number(&header, 32, 8)?, number(&header, 56, 2)? as usize);
        let headers = part(image, start, HEADER_BYTES * count.min(HEADERS_MAX))?;
        let of_kind = |kind: u32| {
            let kind = u64::from(kind);
            headers.chunks_exact(HEADER_BYTES).filter(move |header| number(header, 0, 4) == Some(kind))
        };
        let dynamic = of_kind(PT_DYNAMIC).next()?;
        let section = part(image, number(dynamic, 8, 8)?, number(dynamic, 32, 8)? as usize)?;
        let entries: Vec<(u64, u64)> =
            section.chunks_exact(ENTRY_BYTES).map_while(|entry| Some((number(entry, 0, 8)?, number(entry, 8, 8)?))).collect();
        let value = |kind: u64| entries.iter().find(|entry| entry.0 == kind).map(|entry| entry.1);
        let (address, bytes) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
        // The offset in the file of the address of the strings.
        let at = of_kind(PT_LOAD).find_map(|load| {
            let within = address.checked_sub(number(load, 16, 8)?)?;
            (within < number(load, 32, 8)?).then_some(number(load, 8, 8)?.checked_add(within)?)
        })?;
        let strings = part(image, at, bytes as usize)?;
        Some(Self { entries, strings })
    }

    /// The texts of the entries of a kind.
    fn texts(&self, kind: u64) -> impl Iterator<Item = &[u8]> {
        let of_kind = self.entries.iter().filter(move |entry| entry.0 == kind);
        of_kind.filter_map(|entry| self.strings.get(entry.1 as usize..)?.split(|byte| *byte == 0).next())
    }
}

/// Bytes of the file. `None` if the file has fewer, or if `count` exceeds the limit.
fn part(image: &Image, at: u64, count: usize) -> Option<Vec<u8>> {
    if count > SECTION_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; count];
    let got = raw::programs::read_at(image.fd(), i64::try_from(at).ok()?, &mut bytes).ok()?;
    (got == count).then_some(bytes)
}

/// A little-endian number of `size` bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut eight = [0; 8];
    eight.get_mut(..size)?.copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(eight))
}

/// Copies, for the loader, of the libraries on a mount that a program needs, directly or
/// indirectly, each once.
///
/// # Errors
/// The errors of open and read.
pub(super) fn copies(image: &Image, path: &[u8], listed: &[u8]) -> Result<Vec<Image>, Out> {
    const LIBRARIES_MAX: usize = 256;
    let mut waiting = on_mounts(image, path, listed);
    let mut known = waiting.clone();
    let mut copies = Vec::new();
    while let Some(path) = waiting.pop() {
        // SAFETY: the path ends with a NUL.
        let copy = unsafe { Image::of(libc::AT_FDCWD, path.as_ptr(), path.as_bytes()) }?;
        for more in on_mounts(&copy, path.as_bytes(), listed) {
            if !known.contains(&more) && known.len() < LIBRARIES_MAX {
                known.push(more.clone());
                waiting.push(more);
            }
        }
        copies.push(copy);
    }
    Ok(copies)
}
