//! WAL indexes of SQLite that programs have open through this mount. The kernel maps its own pages for them. So no program under
//! `millrace exec` or on another mount may have one open at the same time (`dnfs::mount`'s `wal_index`).

use dnfs::FileHandle;
use dnfs::mount::{Mount, WalIndexSide, claim_wal_index};
use host::Unpoisoned;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

/// The claim on an index. Dropping it releases the claim.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "held, not used")] OwnedFd);

/// Claims, by the path of the index. All open files of this mount share a claim.
#[derive(Debug, Default)]
pub(crate) struct WalIndexes(Mutex<HashMap<CString, Weak<Claim>>>);

impl WalIndexes {
    /// Claims `name` in `directory` if it is an index; otherwise returns `None`.
    ///
    /// # Errors
    /// EBUSY if another side has it open; the log names that side.
    pub(crate) fn claim(&self, mount: &Mount, directory: &FileHandle, name: &[u8]) -> Result<Option<Arc<Claim>>, Errno> {
        let Some(path) = mount.wal_index(directory, name) else { return Ok(None) };
        let mut claims = self.0.lock().unpoisoned();
        if let Some(claim) = claims.get(&path).and_then(Weak::upgrade) {
            return Ok(Some(claim));
        }
        let claim = Arc::new(claimed(&path, name)?);
        claims.retain(|_, claim| claim.strong_count() > 0);
        claims.insert(path, Arc::downgrade(&claim));
        Ok(Some(claim))
    }
}

fn claimed(path: &CStr, name: &[u8]) -> Result<Claim, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o660))?;
    claim_wal_index(file.as_fd(), WalIndexSide::FuseMount).map_err(|in_use| {
        tracing::warn!(file = %String::from_utf8_lossy(name), "cannot open the WAL index: {in_use}");
        Errno::BUSY
    })?;
    Ok(Claim(file))
}
