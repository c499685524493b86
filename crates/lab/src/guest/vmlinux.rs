//! The decompressed kernel. An emulated processor spends half of a boot on decompressing it; this host needs a second,
//! once. Sources: the kernel's "The Linux/x86 Boot Protocol" (payload), "PVH boot" of Xen (note `XEN_ELFNOTE_PHYS32_ENTRY`).

use std::fs;
use std::path::Path;

use crate::error::LabError;
use crate::guest::cache::{Cache, Kernel};
use crate::guest::unpacking::Unpacking;

/// First version of the boot protocol that contains the location of the payload.
const VERSION_MIN: u16 = 0x0208;
const SECTOR_BYTES: usize = 512;
/// Type of a program header for notes.
const PT_NOTE: u32 = 4;
/// Type of the note with QEMU's entry point.
const PHYS32_ENTRY: u32 = 18;

/// Writes the decompressed kernel beside the compressed one. If QEMU cannot boot it, returns the reason.
///
/// # Errors
/// The files of the cache cannot be read or written, or a signal was received.
pub(crate) fn extract(cache: &Cache, kernel: &Kernel) -> Result<Option<String>, LabError> {
    let image = cache.image(kernel);
    let bytes = fs::read(&image).map_err(LabError::file("read", &image))?;
    let Some((ending, payload)) = payload(&bytes) else {
        return Ok(Some(format!("{} is not compressed by xz, zstd or gzip", image.display())));
    };
    let unpacking = Unpacking::make(cache)?;
    let (packed, plain) = (unpacking.path(&format!("vmlinux.{ending}")), unpacking.path("vmlinux"));
    fs::write(&packed, payload).map_err(LabError::file("write", &packed))?;
    match unpacking.decompress(&packed) {
        Ok(_) => {}
        Err(LabError::Interrupted) => return Err(LabError::Interrupted),
        Err(error) => return Ok(Some(error.to_string())),
    }
    if !has_pvh_entry(&plain)? {
        return Ok(Some(format!("{} has no entry for it (CONFIG_PVH)", image.display())));
    }
    let place = cache.plain_image(kernel);
    fs::rename(&plain, &place).map_err(LabError::file("move", plain))?;
    Ok(None)
}

/// The compressed kernel in a bzImage, and the extension of its compression format.
fn payload(image: &[u8]) -> Option<(&'static str, &[u8])> {
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let version = u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?);
    if image.get(0x202..0x206)? != b"HdrS" || version < VERSION_MIN {
        return None;
    }
    let begins = (usize::from(*image.get(0x1f1)?) + 1) * SECTOR_BYTES + number(0x248)?;
    let bytes = image.get(begins..begins.checked_add(number(0x24c)?)?)?;
    // All formats except gzip, which contains it, are followed by the size of the kernel.
    let without_size = bytes.get(..bytes.len().checked_sub(4)?)?;
    match bytes.get(..4)? {
        [0xfd, b'7', b'z', b'X'] => Some(("xz", without_size)),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(("zst", without_size)),
        [0x1f, 0x8b, ..] => Some(("gz", bytes)),
        _ => None,
    }
}

/// Whether QEMU can enter a decompressed kernel.
fn has_pvh_entry(kernel: &Path) -> Result<bool, LabError> {
    let bytes = fs::read(kernel).map_err(LabError::file("read", kernel))?;
    Ok(notes(&bytes).is_some_and(|notes| notes.into_iter().any(|segment| names_entry(segment).unwrap_or(false))))
}

/// The segments of notes of a 64-bit little-endian ELF file. Source: the System V ABI, "Program Header".
fn notes(file: &[u8]) -> Option<Vec<&[u8]>> {
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    let long = |at: usize| usize::try_from(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?)).ok();
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (long(32)?, short(54)?, short(56)?);
    let mut found = Vec::new();
    for number in 0..count {
        let header = table.checked_add(number * size)?;
        if file.get(header..header + 4)? == PT_NOTE.to_le_bytes() {
            let (begins, bytes) = (long(header + 8)?, long(header + 32)?);
            found.push(file.get(begins..begins.checked_add(bytes)?)?);
        }
    }
    Some(found)
}

/// Whether one of the notes is Xen's entry point. `None` if they are truncated. Source: the System V ABI, "Note Section".
fn names_entry(mut notes: &[u8]) -> Option<bool> {
    let word = |at: usize, notes: &[u8]| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    while !notes.is_empty() {
        let (name_bytes, described_bytes) = (word(0, notes)? as usize, word(4, notes)? as usize);
        let behind_name = 12 + name_bytes.next_multiple_of(4);
        if notes.get(12..12 + name_bytes)? == b"Xen\0" && word(8, notes)? == PHYS32_ENTRY {
            return Some(true);
        }
        notes = notes.get(behind_name + described_bytes.next_multiple_of(4)..)?;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bz_image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x1f1] = 1; // sectors of set-up beside the first
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248..0x24c].copy_from_slice(&8u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend([0; 8]);
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_of_an_image_is_found_without_the_size_behind_it() {
        let xz = b"\xfd7zXZ\0data\x01\x02\x03\x04";
        assert_eq!(payload(&bz_image(xz)), Some(("xz", &b"\xfd7zXZ\0data"[..])));
        assert_eq!(payload(&bz_image(b"\x1f\x8bdata")), Some(("gz", &b"\x1f\x8bdata"[..])));
        assert_eq!(payload(&bz_image(b"unknown")), None);
        let image = bz_image(xz);
        for end in 0..image.len() {
            assert_eq!(payload(&image[..end]), None, "cut off at {end}");
        }
    }

    fn elf(note: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&1u16.to_le_bytes());
        let mut header = vec![0; 56];
        header[..4].copy_from_slice(&PT_NOTE.to_le_bytes());
        header[8..16].copy_from_slice(&120u64.to_le_bytes());
        header[32..40].copy_from_slice(&(note.len() as u64).to_le_bytes());
        file.extend(header);
        file.extend(note);
        file
    }

    #[test]
    fn a_kernel_is_entered_only_where_its_note_says() {
        let entered = |file: &[u8]| notes(file).is_some_and(|all| all.into_iter().any(|each| names_entry(each) == Some(true)));
        let first = b"\x04\0\0\0\x06\0\0\0\x06\0\0\0Xen\0linux\0\0\0".to_vec();
        let entry = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x10\0\0\x01";
        assert!(entered(&elf(&[&first[..], entry].concat())));
        assert!(!entered(&elf(&first)));
        assert!(!entered(b"#!/bin/sh"));
        let whole = elf(&[&first[..], entry].concat());
        assert!((0..whole.len()).all(|end| !entered(&whole[..end])));
    }
}
