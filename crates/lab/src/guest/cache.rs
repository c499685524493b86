//! Cache of the guest's kernel: `$XDG_CACHE_HOME/millrace/guest`.
//!
//! ```text
//! kernel.json           the kernel in use: written last, so that its files are complete
//! kernel-VERSION/       vmlinuz, vmlinux if it can be booted, lib/modules/VERSION
//! kvm.json              whether a standard guest starts with KVM on this host with this QEMU
//! console.log           output of the guest's console at its last failure
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::guest::machine::Accelerator;
use crate::placement::workdir::make_directory;

/// The directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// The kernel that guests boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Version, as reported by `uname -r`.
    pub version: String,
    /// Its package, with its version.
    pub package: String,
}

impl Cache {
    /// The named directory, else that of this user.
    ///
    /// # Errors
    /// [`LabError::Missing`] if no directory is named and the user has no home directory.
    pub fn at(named: Option<PathBuf>) -> Result<Self, LabError> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let usual =
            || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).map(|base| base.join("millrace/guest"));
        let root = named.map(|path| std::path::absolute(&path).map_err(LabError::file("find", path))).transpose()?.or_else(usual);
        let root = root.ok_or_else(|| LabError::Missing {
            what: "find a directory for the guest's kernel: neither XDG_CACHE_HOME nor HOME is set".to_owned(),
            hint: "name one with --cache DIR".to_owned(),
        })?;
        Ok(Self { root })
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// File for the console of a guest that failed.
    #[must_use]
    pub fn console(&self) -> PathBuf {
        self.root.join("console.log")
    }

    /// The kernel in the cache, if complete.
    #[must_use]
    pub fn kernel(&self) -> Option<Kernel> {
        let kernel: Kernel = self.read("kernel.json")?;
        (self.image(&kernel).is_file() && self.modules(&kernel).join("modules.dep").is_file()).then_some(kernel)
    }

    pub(crate) fn directory_of(&self, version: &str) -> PathBuf {
        self.root.join(format!("kernel-{version}"))
    }

    /// The file that QEMU boots: with TCG, the decompressed kernel if there is one.
    pub(crate) fn booted(&self, kernel: &Kernel, accelerator: Accelerator) -> PathBuf {
        let plain = self.plain_image(kernel);
        if accelerator == Accelerator::Tcg && plain.is_file() { plain } else { self.image(kernel) }
    }

    /// The decompressed kernel.
    pub(crate) fn plain_image(&self, kernel: &Kernel) -> PathBuf {
        self.directory_of(&kernel.version).join("vmlinux")
    }

    /// The kernel as in its package.
    pub(crate) fn image(&self, kernel: &Kernel) -> PathBuf {
        self.directory_of(&kernel.version).join("vmlinuz")
    }

    /// `/lib/modules` of the guest.
    pub(crate) fn module_root(&self, kernel: &Kernel) -> PathBuf {
        self.directory_of(&kernel.version).join("lib/modules")
    }

    /// The modules of the kernel.
    pub(crate) fn modules(&self, kernel: &Kernel) -> PathBuf {
        self.module_root(kernel).join(&kernel.version)
    }

    /// Creates the directory.
    pub(crate) fn make(&self) -> Result<(), LabError> {
        if let Some(parent) = self.root.parent() {
            fs::create_dir_all(parent).map_err(LabError::file("create directory", parent))?;
        }
        if self.root.exists() && !self.root.is_dir() {
            let text = format!("use {} as the cache: it is a file, not a directory", self.root.display());
            return Err(LabError::plan(text, "name a directory with --cache; it is made if missing"));
        }
        if self.root.is_dir() { Ok(()) } else { make_directory(&self.root, 0o755) }
    }

    /// Contents of a file of the directory, if it exists and is complete.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.root.join(name)).ok()?).ok()
    }

    /// Replaces a file of the directory atomically.
    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(value).map_err(|source| LabError::Record { program: "the guest", source })?;
        let new = self.root.join(format!("{name}.{}", std::process::id()));
        fs::write(&new, text).map_err(LabError::file("write", &new))?;
        let path = self.root.join(name);
        fs::rename(&new, &path).map_err(LabError::file("replace", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_whose_files_are_gone_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path().join("guest"))).unwrap();
        cache.make().unwrap();
        assert_eq!(cache.kernel(), None);
        let kernel = Kernel { version: "6.1.0-1".into(), package: "linux-image 1".into() };
        cache.write("kernel.json", &kernel).unwrap();
        assert_eq!(cache.kernel(), None, "it is named, and not there");
        fs::create_dir_all(cache.modules(&kernel)).unwrap();
        fs::write(cache.image(&kernel), "").unwrap();
        fs::write(cache.modules(&kernel).join("modules.dep"), "").unwrap();
        assert_eq!(cache.kernel(), Some(kernel));
    }
}
