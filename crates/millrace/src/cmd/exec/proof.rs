//! The output of a child that proves that the preload library is active. crates/preload builds
//! `millrace-prove` with this file, so the file uses only the standard library.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Prints the file number of each path, then whether the state of each medium is mapped, one line
/// each. Returns an error for a path that it cannot reach.
pub(crate) fn print(paths: &[OsString], states: &[PathBuf]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    for path in paths {
        let found = std::fs::metadata(path).map_err(|why| format!("reach the server through {}: {why}", path.display()))?;
        writeln!(out, "{}", found.ino()).map_err(|why| format!("print: {why}"))?;
    }
    for state in states {
        writeln!(out, "{}", is_mapped(state)).map_err(|why| format!("print: {why}"))?;
    }
    Ok(())
}

fn is_mapped(state: &Path) -> bool {
    let state = state.as_os_str().as_bytes();
    std::fs::read("/proc/self/maps").is_ok_and(|maps| maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(state)))
}
