//! Archives of the tar format as far as captures need them: names and bytes of plain files. Links, devices and sparse files are
//! named and skipped; nothing is ever written to disk.
//!
//! POSIX.1-1988 ustar header: name 0..100, size 124..136, checksum 148..156, type 156, magic 257..263, prefix 345..500.
//! Long names: GNU type `L`, POSIX.1-2001 type `x` with a record `path`.

use std::io::{self, Read, Write};

use super::limits::PATH_BYTES_MAX;

const BLOCK: usize = 512;

/// Bytes of a record of long names; more is no name.
const NAME_RECORD_MAX: u64 = 8 << 10;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// A link, a device, or something else that is never followed.
    Other,
}

/// Head of an entry.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// Path as written.
    pub(super) path: String,
    /// Bytes that follow.
    pub(super) size: u64,
    /// What it is.
    pub(super) kind: Kind,
}

/// Reads the next head; the contents of the one before must have been read to their end by [`skip`] or [`contents`].
///
/// # Errors
/// The archive is cut off or is none.
pub(super) fn next(from: &mut impl Read) -> io::Result<Option<Head>> {
    let mut long_name = None;
    // Each entry has at most one record of either kind before it; more is nonsense.
    for _ in 0..8 {
        let mut block = [0; BLOCK];
        if !fill(from, &mut block)? || block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        check(&block)?;
        let size = number(&block[124..136]).ok_or_else(|| odd("an entry has no size"))?;
        match block[156] {
            b'L' | b'x' if size <= NAME_RECORD_MAX => {
                let record = contents(from, size, usize::MAX)?;
                let name = if block[156] == b'L' { Some(text(&record)) } else { pax_path(&record) };
                long_name = name.or(long_name);
            }
            b'L' | b'x' => return Err(odd("a name is longer than any")),
            b'g' | b'K' => skip(from, size)?,
            flag => {
                let kind = match flag {
                    b'0' | 0 | b'7' => Kind::File,
                    b'5' => Kind::Folder,
                    _ => Kind::Other,
                };
                let path = long_name.unwrap_or_else(|| ustar_path(&block));
                return Ok(Some(Head { path, size, kind }));
            }
        }
    }
    Err(odd("a name has too many records"))
}

/// Reads the contents of an entry, of which the first `bytes_max` are kept.
///
/// # Errors
/// The archive is cut off.
pub(super) fn contents(from: &mut impl Read, size: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
    let keep = size.min(bytes_max as u64);
    let mut kept = Vec::new();
    let count = from.by_ref().take(keep).read_to_end(&mut kept)? as u64;
    if count < keep {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    discard(from, padded(size).saturating_sub(keep))?;
    Ok(kept)
}

/// Passes over the contents of an entry.
///
/// # Errors
/// The archive is cut off.
pub(super) fn skip(from: &mut impl Read, size: u64) -> io::Result<()> {
    discard(from, padded(size))
}

/// Writes a plain file.
///
/// # Errors
/// Writing failed, or the path is longer than the format's.
pub(super) fn write(to: &mut impl Write, path: &str, bytes: &[u8]) -> io::Result<()> {
    if path.len() > 99 {
        let mut name = path.as_bytes().to_vec();
        name.push(0);
        to.write_all(&head("././@LongLink", name.len(), b'L'))?;
        write_padded(to, &name)?;
    }
    to.write_all(&head(path, bytes.len(), b'0'))?;
    write_padded(to, bytes)
}

/// Writes the end of an archive.
///
/// # Errors
/// Writing failed.
pub(super) fn finish(to: &mut impl Write) -> io::Result<()> {
    to.write_all(&[0; 2 * BLOCK])
}

fn head(path: &str, size: usize, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let name = &path.as_bytes()[..path.len().min(99)];
    block[..name.len()].copy_from_slice(name);
    // Owner 0, time 0: an archive of the same facts is the same archive.
    for (range, value) in [(100..108, 0o600), (108..116, 0), (116..124, 0)] {
        block[range].copy_from_slice(format!("{value:07o}\0").as_bytes());
    }
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000000\0");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum = checksum(&block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn write_padded(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.write_all(&[0; BLOCK][..(BLOCK - bytes.len() % BLOCK) % BLOCK])
}

/// Sum of the header's bytes with blanks in place of the sum itself.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) }).sum()
}

fn check(block: &[u8; BLOCK]) -> io::Result<()> {
    if number(&block[148..156]) == Some(checksum(block)) { Ok(()) } else { Err(odd("a header's sum is wrong")) }
}

/// Octal digits; or, with the first bit set, binary (GNU, sizes from 8 GiB).
fn number(field: &[u8]) -> Option<u64> {
    if let [first, rest @ ..] = field
        && first & 0x80 != 0
    {
        let low = rest.iter().rev().take(8).rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        return Some(low);
    }
    let text = text(field);
    let digits = text.trim_matches([' ', '\0']);
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn ustar_path(block: &[u8; BLOCK]) -> String {
    let name = text(&block[..100]);
    match &block[257..262] {
        // GNU's own format has other things where the prefix would be.
        b"ustar" if block[262] == 0 && block[345] != 0 => format!("{}/{name}", text(&block[345..500])),
        _ => name,
    }
}

/// The record `LENGTH path=VALUE\n`.
fn pax_path(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let line = text.lines().find_map(|line| line.split_once(' ').and_then(|(_, pair)| pair.strip_prefix("path=")))?;
    (line.len() <= PATH_BYTES_MAX).then(|| line.to_owned())
}

fn padded(size: u64) -> u64 {
    size.saturating_add((BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64)
}

fn discard(from: &mut impl Read, count: u64) -> io::Result<()> {
    if io::copy(&mut from.by_ref().take(count), &mut io::sink())? < count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Fills a block; `false` at a clean end.
fn fill(from: &mut impl Read, block: &mut [u8; BLOCK]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < BLOCK {
        match from.read(&mut block[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_long_names_included() {
        let mut archive = Vec::new();
        let long = format!("capture/files/{}", "x".repeat(200));
        write(&mut archive, "capture/MANIFEST", b"host a\n").unwrap();
        write(&mut archive, &long, &[7; 513]).unwrap();
        finish(&mut archive).unwrap();
        let mut from = archive.as_slice();
        let first = next(&mut from).unwrap().unwrap();
        assert_eq!((first.path.as_str(), first.kind), ("capture/MANIFEST", Kind::File));
        assert_eq!(contents(&mut from, first.size, 4).unwrap(), b"host");
        let second = next(&mut from).unwrap().unwrap();
        assert_eq!(second.path, long);
        assert_eq!(contents(&mut from, second.size, 1000).unwrap(), vec![7; 513]);
        assert!(next(&mut from).unwrap().is_none());
    }

    #[test]
    fn a_cut_or_changed_archive_is_an_error() {
        let mut archive = Vec::new();
        write(&mut archive, "a", b"text").unwrap();
        let mut changed = archive.clone();
        changed[0] ^= 1;
        assert!(next(&mut changed.as_slice()).is_err());
        assert!(next(&mut &archive[..300]).is_err());
        let mut cut = &archive[..514];
        let head = next(&mut cut).unwrap().unwrap();
        assert!(contents(&mut cut, head.size, 100).is_err());
    }
}
