//! The directory of one boot: initial root, sockets, console. Removed at the end; the next boot removes what a killed one left.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::placement::owner;
use crate::placement::workdir::{make_directory, remove_tree, sweep_below, write_mark};

/// Prefix of its name.
const PREFIX: &str = "millrace-guest-";

/// The directory, removed when dropped.
pub(crate) struct Work {
    root: PathBuf,
}

impl Work {
    /// Creates it in the directory for temporary files, where paths are short enough for sockets.
    pub(crate) fn make() -> Result<Self, LabError> {
        Self::make_below(&std::env::temp_dir())
    }

    /// Creates it below a directory.
    pub(crate) fn make_below(base: &Path) -> Result<Self, LabError> {
        sweep_below(base, PREFIX);
        let root = base.join(owner::unique_name(PREFIX));
        make_directory(&root, 0o700)?;
        let work = Self { root };
        write_mark(&work.root, &work.root)?;
        Ok(work)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Output of the guest's kernel and its first process.
    pub(crate) fn console(&self) -> PathBuf {
        self.path("console")
    }

    /// Messages of QEMU.
    pub(crate) fn log(&self) -> PathBuf {
        self.path("qemu.log")
    }

    /// Writes the initial root.
    pub(crate) fn write_initramfs(&self, bytes: &[u8]) -> Result<PathBuf, LabError> {
        let path = self.path("initramfs");
        std::fs::write(&path, bytes).map_err(LabError::file("write", &path))?;
        Ok(path)
    }

    /// The end of one of its files as lines, each indented.
    pub(crate) fn end_of(file: &Path) -> String {
        crate::host::process::log_end(file)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.root) {
            eprintln!("millrace: cannot {error}");
        }
    }
}

/// Random digits that no command prints by chance.
pub(crate) fn mark() -> Result<String, LabError> {
    use std::io::Read as _;
    let source = "/dev/urandom";
    let mut bytes = [0; 16];
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(LabError::file("read", source))?;
    Ok(format!("millrace-guest-end-{:032x}:", u128::from_ne_bytes(bytes)))
}
