//! Captures in one tar file, which may be compressed by gzip, read within limits. Nothing is
//! written to disk. Links, devices and sparse files are remarked and skipped.
//!
//! The `tar` crate reads headers, checksums and numbers. Entries are taken raw, so that this module
//! reads the records of long names (GNU type `L`, POSIX.1-2001 type `x`) within a limit; the crate
//! would read a record of any length into memory.

use std::cell::Cell;
use std::io::{self, BufReader, Read, Write};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::{EntryType, Header, PaxExtensions};

use super::entries::Entries;
use super::limits::{
    ENTRIES_MAX, FILE_BYTES_MAX, NAME_RECORD_BYTES_MAX, NAME_RECORDS_MAX, PATH_BYTES_MAX, UNPACK_RATIO_FREE_BYTES,
    UNPACK_RATIO_MAX, UNPACKED_BYTES_MAX,
};
use super::text;

/// Why an archive cannot be used.
#[derive(Debug)]
pub(super) enum ArchiveFault {
    /// It cannot be read.
    Read(io::Error),
    /// It does not begin as a tar archive does.
    Other,
    /// It was compressed by a program whose format is not supported.
    Packed(&'static str),
    /// It exceeds a limit.
    Bomb(String),
}

/// Reads a tar archive, which may be compressed by gzip. If it is truncated, the entries before
/// that point are used.
pub(super) fn read(mut from: impl io::BufRead, entries: &mut Entries) -> Result<(), ArchiveFault> {
    let begin = from.fill_buf().map_err(ArchiveFault::Read)?;
    let by = match begin {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("xz"),
        [b'B', b'Z', b'h', ..] => Some("bzip2"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [b'P', b'K', 3, 4, ..] => Some("unzip"),
        _ => None,
    };
    if let Some(by) = by {
        return Err(ArchiveFault::Packed(by));
    }
    let packed = Rc::new(Cell::new(0));
    if begin.starts_with(&[0x1f, 0x8b]) {
        let counted = Counted { from, count: Rc::clone(&packed) };
        let guard = Guard { from: MultiGzDecoder::new(counted), packed: Some(packed), unpacked: 0 };
        read_tar(BufReader::with_capacity(64 << 10, guard), entries)
    } else {
        read_tar(Guard { from, packed: None, unpacked: 0 }, entries)
    }
}

/// Why an entry cannot be read. The library's message about a damaged entry is replaced, because it
/// quotes bytes of the entry.
fn cause(fault: &io::Error) -> String {
    let is_of_library = fault.kind() == io::ErrorKind::Other && fault.raw_os_error().is_none();
    if is_of_library { "the next entry is damaged".to_owned() } else { fault.to_string() }
}

fn read_tar(from: impl Read, entries: &mut Entries) -> Result<(), ArchiveFault> {
    let mut archive = tar::Archive::new(from);
    let mut name = LongName::default();
    for entry in archive.entries().map_err(ArchiveFault::Read)?.raw(true) {
        match entry.and_then(|entry| take(entry, &mut name, entries)) {
            Ok(()) => {}
            Err(fault) if fault.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Burst>) => {
                return Err(ArchiveFault::Bomb(fault.to_string()));
            }
            Err(source) if entries.seen == 0 && source.raw_os_error().is_some() => return Err(ArchiveFault::Read(source)),
            Err(_) if entries.seen == 0 => return Err(ArchiveFault::Other),
            Err(fault) => {
                let why = cause(&fault);
                entries.remark(format!("the archive breaks off after {} entries ({why}): what was read is used", entries.seen));
                return Ok(());
            }
        }
        if entries.seen > ENTRIES_MAX {
            return Err(ArchiveFault::Bomb(format!("it has more than {ENTRIES_MAX} entries")));
        }
    }
    Ok(())
}

/// The name that records before an entry give it.
#[derive(Default)]
struct LongName {
    name: Option<String>,
    records: usize,
}

/// Reads one entry, or stores the name for the next one.
fn take(mut entry: tar::Entry<'_, impl Read>, name: &mut LongName, entries: &mut Entries) -> io::Result<()> {
    let kind = entry.header().entry_type();
    if kind.is_gnu_longname() || kind.is_pax_local_extensions() || kind.is_pax_global_extensions() || kind.is_gnu_longlink() {
        name.records += 1;
        if name.records > NAME_RECORDS_MAX {
            return Err(odd("a name has too many records"));
        }
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            if entry.size() > NAME_RECORD_BYTES_MAX {
                return Err(odd("a name is longer than any"));
            }
            let record = contents(&mut entry, usize::MAX)?;
            let found = if kind.is_gnu_longname() { Some(until_nul(&record)) } else { pax_path(&record) };
            name.name = found.or(name.name.take());
        }
        return Ok(());
    }
    let path = match std::mem::take(name).name {
        Some(path) => path,
        None => String::from_utf8_lossy(&entry.path_bytes()).into_owned(),
    };
    entries.seen += 1;
    match (kind, entries.place(&path)) {
        (EntryType::Regular | EntryType::Continuous, Some(place)) => {
            let mode = entry.header().mode().unwrap_or(0);
            let bytes = contents(&mut entry, FILE_BYTES_MAX + 1)?;
            entries.keep(&path, place, bytes, mode);
        }
        (EntryType::Directory, Some(_)) => entries.folder(&path),
        (EntryType::Regular | EntryType::Continuous | EntryType::Directory, _) | (_, None) => {}
        (EntryType::Symlink, Some(place)) => {
            let target = entry.link_name_bytes().map(|target| String::from_utf8_lossy(&target).into_owned());
            entries.link(&path, place, &target.unwrap_or_default());
        }
        (_, Some(_)) => entries.remark(format!("entry {:?} is a link or a device: skipped", text::head(&path, 120))),
    }
    Ok(())
}

/// At most the first `bytes_max` bytes of an entry.
fn contents(entry: &mut tar::Entry<'_, impl Read>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let keep = entry.size().min(bytes_max as u64);
    let mut kept = Vec::new();
    if (entry.take(keep).read_to_end(&mut kept)? as u64) < keep {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(kept)
}

fn until_nul(record: &[u8]) -> String {
    let end = record.iter().position(|byte| *byte == 0).unwrap_or(record.len());
    String::from_utf8_lossy(record.get(..end).unwrap_or(record)).into_owned()
}

/// The path in a record of extended attributes; `None` if the bytes are not such a record.
fn pax_path(record: &[u8]) -> Option<String> {
    let path = PaxExtensions::new(record).flatten().find(|pair| pair.key_bytes() == b"path")?;
    let path = String::from_utf8_lossy(path.value_bytes()).into_owned();
    (path.len() <= PATH_BYTES_MAX).then_some(path)
}

/// Writes files as an archive. Owner and time are 0, so the same files always give the same
/// archive.
///
/// # Errors
/// A write failed, or an archive cannot store a path.
pub(super) fn write(to: &mut impl Write, files: &[(String, String)]) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    for (path, text) in files {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, path, text.as_bytes())?;
    }
    archive.finish()
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A reader that counts the bytes.
struct Counted<R> {
    from: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// A reader that fails when an archive unpacks to more than the limits.
struct Guard<R> {
    from: R,
    packed: Option<Rc<Cell<u64>>>,
    unpacked: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.unpacked += count as u64;
        if self.unpacked > UNPACKED_BYTES_MAX {
            return Err(io::Error::other(Burst(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes"))));
        }
        if let Some(packed) = &self.packed
            && self.unpacked > UNPACK_RATIO_FREE_BYTES
            && self.unpacked / packed.get().max(1) > UNPACK_RATIO_MAX
        {
            return Err(io::Error::other(Burst(format!("it unpacks to more than {UNPACK_RATIO_MAX} times its size"))));
        }
        Ok(count)
    }
}

/// An archive exceeded a limit.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Burst(String);

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let files: Vec<(String, String)> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let mut archive = Vec::new();
        write(&mut archive, &files).unwrap();
        archive
    }

    #[test]
    fn what_is_written_is_read_back_long_names_included() {
        let long = format!("capture/files/etc/modprobe.d/{}.conf", "x".repeat(200));
        let bytes = archive(&[("capture/MANIFEST", "millrace-capture 1\nhost a\n"), (&long, &"7".repeat(513))]);
        let mut entries = Entries::default();
        read(bytes.as_slice(), &mut entries).unwrap();
        let collected = entries.into_collected().unwrap();
        assert_eq!(collected.host, "a");
        assert_eq!(collected.file(long.strip_prefix("capture/files").unwrap()), Some("7".repeat(513).as_str()));
        assert!(collected.remarks.is_empty(), "{:?}", collected.remarks);
    }

    #[test]
    fn a_cut_or_changed_archive_is_an_error_or_gives_what_came_before() {
        let bytes = archive(&[("files/etc/fstab", "text")]);
        let mut changed = bytes.clone();
        changed[0] ^= 1;
        for broken in [changed.as_slice(), &bytes[..300]] {
            assert!(matches!(read(broken, &mut Entries::default()), Err(ArchiveFault::Other)));
        }
        let mut entries = Entries::default();
        read(&bytes[..514], &mut entries).unwrap();
        assert!(entries.into_collected().is_none());
    }

    #[test]
    fn a_record_of_a_long_name_is_read_within_bounds() {
        let record = |kind: EntryType, size: u64| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let first = archive(&[("files/etc/fstab", "x")]);
        let first = &first[..1024];
        let endless = [first, &record(EntryType::GNULongName, 1 << 30)].concat();
        let many = [first, &record(EntryType::XGlobalHeader, 0).repeat(NAME_RECORDS_MAX + 1)].concat();
        for (bytes, wanted) in [(endless, "longer than any"), (many, "too many records")] {
            let mut entries = Entries::default();
            read(bytes.as_slice(), &mut entries).unwrap();
            let remarks = entries.into_collected().unwrap().remarks;
            assert!(remarks.iter().any(|remark| remark.contains(wanted)), "{remarks:?}");
        }
    }
}
