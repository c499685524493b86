//! What a child under the preload library prints to prove that it is active: also the whole of `millrace-prove`, which is built
//! with the library (crates/preload), so this file uses the standard library alone.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Prints the number of each path's object and whether each medium's state is mapped, a line each, or says what went wrong.
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
