//! The page cache of a path's files on this host: the same state before each run, and the sizes of its folios.
//!
//! A file that was written in large units has large folios, and a file system processes all blocks of a folio at each small write to
//! it. A database writes blocks of 8 KiB, so its own files have small folios. A restored copy must have the same on every path.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::interrupt;
use crate::limits::{FOLIOS_BYTES_MAX, RESTORE_UNIT_BYTES};
use crate::sys;

/// Bytes of a page on the processors that this program runs on.
const PAGE_BYTES: u64 = 4096;
/// Bits of /proc/kpageflags (Documentation/admin-guide/mm/pagemap.rst of the kernel): first page of a folio, further page of one.
const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;
/// Bits of /proc/PID/pagemap: the page is present; its frame number.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// Bytes of an entry of both files.
const ENTRY_BYTES: u64 = 8;
/// Pages of the largest folio: 2 MiB.
const FOLIO_PAGES_MAX: u64 = 512;

/// Drops the cached pages of every file below `root`, which must be written and synced: later reads
/// come from the device.
pub(crate) fn forget(root: &Path) -> Result<(), LabError> {
    each_file(root, &mut |path, file| sys::forget_pages(file).map_err(LabError::file("drop the cached pages of", path)))
}

/// Reads every file below `root` into the page cache in small units, as if a database had written or read it. Calls `progress`
/// with the bytes read.
pub(crate) fn read_back(root: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
    let mut buffer = vec![0; RESTORE_UNIT_BYTES];
    let mut done = 0;
    each_file(root, &mut |path, file| {
        let failed = || LabError::file("read", path);
        // Without read-ahead, which would also create large folios.
        sys::expect_random_reads(file).map_err(failed())?;
        let mut at = 0;
        // A LUN consists mostly of holes, which no database reads.
        while let Some((from, to)) = sys::data_from(file, at).map_err(failed())? {
            at = from;
            while at < to {
                interrupt::check()?;
                let most = usize::try_from(to - at).unwrap_or(RESTORE_UNIT_BYTES).min(RESTORE_UNIT_BYTES);
                let count = file.read_at(&mut buffer[..most], at).map_err(failed())?;
                if count == 0 {
                    return Ok(());
                }
                at += count as u64;
                done += count as u64;
                progress(done);
            }
        }
        Ok(())
    })
}

fn each_file(root: &Path, act: &mut dyn FnMut(&Path, &File) -> Result<(), LabError>) -> Result<(), LabError> {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        interrupt::check()?;
        for entry in fs::read_dir(&directory).map_err(LabError::file("list", &directory))?.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() {
                // A temporary file of a running database may no longer exist.
                let Ok(file) = File::open(&path) else { continue };
                act(&path, &file)?;
            }
        }
    }
    Ok(())
}

/// Cached bytes of the files below `root` by the size of their folios in KiB, without the log. `None` if this process may not see
/// them, which needs CAP_SYS_ADMIN. Examines at most [`FOLIOS_BYTES_MAX`] of the files, the largest first.
pub(crate) fn folio_bytes(root: &Path) -> Option<BTreeMap<u64, u64>> {
    let flags = File::open("/proc/kpageflags").ok()?;
    let frames = File::open("/proc/self/pagemap").ok()?;
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    each_file(root, &mut |path, file| {
        let facts = file.metadata().ok().filter(|_| !is_log(path));
        files.extend(facts.map(|facts| (facts.len(), path.to_owned())));
        Ok(())
    })
    .ok()?;
    files.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let (mut sizes, mut seen) = (BTreeMap::new(), 0);
    for (bytes, path) in files {
        let bytes = bytes.min(FOLIOS_BYTES_MAX - seen);
        if bytes < PAGE_BYTES {
            break;
        }
        seen += bytes;
        let Ok(file) = File::open(&path) else { continue };
        count(&file, bytes, (&frames, &flags), &mut sizes)?;
    }
    (!sizes.is_empty()).then_some(sizes)
}

/// Whether a file belongs to the log, which a database itself fills with zeros in large units.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.iter().any(|part| part == "pg_wal") || name.starts_with("ib_logfile")
}

/// Adds the folios of one file. `None` if frames are hidden.
fn count(file: &File, bytes: u64, (frames, flags): (&File, &File), sizes: &mut BTreeMap<u64, u64>) -> Option<()> {
    let Ok(map) = sys::map_cached(file, bytes) else { return Some(()) };
    let pages = bytes / PAGE_BYTES;
    let mut entries = vec![0; usize::try_from(pages * ENTRY_BYTES).ok()?];
    frames.read_exact_at(&mut entries, map.address() / PAGE_BYTES * ENTRY_BYTES).ok()?;
    let entry = |page: u64| -> Option<u64> {
        let at = usize::try_from(page * ENTRY_BYTES).ok()?;
        Some(u64::from_ne_bytes(*entries.get(at..)?.first_chunk()?))
    };
    let mut page = 0;
    while page < pages {
        let found = entry(page)?;
        if found & PRESENT == 0 {
            page += 1;
            continue;
        }
        let frame = found & FRAME;
        if frame == 0 {
            return None;
        }
        let folio = folio_pages(flags, frame)?;
        let here = folio.min(pages - page);
        *sizes.entry((folio * PAGE_BYTES) >> 10).or_default() += here * PAGE_BYTES;
        page += here;
    }
    Some(())
}

/// Pages of the folio that starts with this frame; a page from the middle of a folio counts alone.
fn folio_pages(flags: &File, frame: u64) -> Option<u64> {
    let of = |frame: u64| -> Option<u64> {
        let mut entry = [0; ENTRY_BYTES as usize];
        flags.read_exact_at(&mut entry, frame * ENTRY_BYTES).ok()?;
        Some(u64::from_ne_bytes(entry))
    };
    if of(frame)? & COMPOUND_HEAD == 0 {
        return Some(1);
    }
    let tails = (1..FOLIO_PAGES_MAX).take_while(|next| of(frame + next).is_some_and(|flags| flags & COMPOUND_TAIL != 0));
    Some(1 + tails.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_read_back_has_no_large_folios() {
        // On a file system of the disk, because tmpfs has no pages to drop.
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = base.path().join("table");
        fs::write(&path, vec![7; 8 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        if folio_bytes(base.path()).is_none() {
            return sim::skip("frames of pages are shown to CAP_SYS_ADMIN only");
        }
        forget(base.path()).unwrap();
        let mut done = 0;
        read_back(base.path(), &mut |bytes| done = bytes).unwrap();
        let sizes = folio_bytes(base.path()).unwrap();
        assert_eq!((done, sizes.values().sum::<u64>()), (8 << 20, 8 << 20), "{sizes:?}");
        assert!(sizes.keys().all(|kib| *kib <= 32), "{sizes:?}");
    }
}
