//! Programs of this host that a guest needs, and their packages.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// A program and its package.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Package name in Debian and Ubuntu.
    pub(crate) package: &'static str,
}

pub(crate) const QEMU: Program = Program { name: "qemu-system-x86_64", package: "qemu-system-x86" };
pub(crate) const BUSYBOX: Program = Program { name: "busybox", package: "busybox-static" };
pub(crate) const DEPMOD: Program = Program { name: "depmod", package: "kmod" };
pub(crate) const DPKG_DEB: Program = Program { name: "dpkg-deb", package: "dpkg" };
pub(crate) const APT_GET: Program = Program { name: "apt-get", package: "apt" };
pub(crate) const APT_CACHE: Program = Program { name: "apt-cache", package: "apt" };
pub(crate) const MKFS_EXT4: Program = Program { name: "mkfs.ext4", package: "e2fsprogs" };

/// Number of program headers of an ELF file that are checked: a program has about ten.
const HEADERS_MAX: u16 = 64;
/// Type of the program header that names the dynamic loader.
const PT_INTERP: u32 = 3;

impl Program {
    /// Its file, in PATH or in the directories of the administrator's programs.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        ::host::program(self.name)
    }

    /// The same, but a missing program is an error.
    ///
    /// # Errors
    /// [`LabError::Missing`] with the package.
    pub(crate) fn require(&self) -> Result<PathBuf, LabError> {
        self.find().ok_or_else(|| LabError::Missing {
            what: format!("find the program {}", self.name),
            hint: format!("apt-get install --no-install-recommends {}, as root", self.package),
        })
    }
}

/// A static busybox, because the initial root has no libraries.
///
/// # Errors
/// [`LabError::Missing`] with the package.
pub(crate) fn static_busybox() -> Result<PathBuf, LabError> {
    let file = BUSYBOX.require()?;
    if is_static(&file) {
        return Ok(file);
    }
    Err(LabError::Missing {
        what: format!("use {}: it needs shared libraries", file.display()),
        hint: format!("apt-get install --no-install-recommends {}, as root", BUSYBOX.package),
    })
}

/// Whether a 64-bit little-endian ELF program has no dynamic loader. Source: the System V ABI, "Program Header".
fn is_static(program: &Path) -> bool {
    let looked_at = || -> Option<bool> {
        let file = File::open(program).ok()?;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0).ok()?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let table = u64::from_le_bytes(header[32..40].try_into().ok()?);
        let size = u64::from(u16::from_le_bytes(header[54..56].try_into().ok()?));
        let count = u16::from_le_bytes(header[56..58].try_into().ok()?).min(HEADERS_MAX);
        let mut kind = [0; 4];
        for number in 0..u64::from(count) {
            file.read_exact_at(&mut kind, table.checked_add(number * size)?).ok()?;
            if u32::from_le_bytes(kind) == PT_INTERP {
                return Some(false);
            }
        }
        Some(true)
    };
    looked_at().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_and_a_script_are_not_static() {
        assert!(!is_static(Path::new("/bin/sh")));
        assert!(!is_static(Path::new("/etc/hostname")));
        assert!(!is_static(Path::new("/missing")));
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let missing = Program { name: "no-such-program", package: "no-such-package" };
        let error = missing.require().unwrap_err();
        assert_eq!(error.to_string(), "find the program no-such-program");
        assert!(error.hint().unwrap().contains("no-such-package"));
    }
}
