//! The file that `MILLRACE_LOG` names. The library writes each message to stderr if it cannot write the file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The variable that the library reads. A value with a slash is a path.
const VARIABLE: &str = "MILLRACE_LOG";

/// Warns once that messages do not go to the file.
pub(super) fn warn_if_unwritable() {
    let Some(named) = std::env::var_os(VARIABLE).filter(is_path) else { return };
    let path = Path::new(&named);
    if let Err(error) = check(path) {
        eprintln!("millrace: warning: {VARIABLE}={} cannot be written: {error}; messages go to stderr", path.display());
        eprintln!("hint: name a file in a directory that the program's user may write");
    }
}

fn is_path(named: &OsString) -> bool {
    named.as_bytes().contains(&b'/')
}

/// Whether the file can be written, or created. Creates nothing: the program may run as another user.
fn check(path: &Path) -> std::io::Result<()> {
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
    if path.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    match may(path, Access::WRITE_OK) {
        Err(rustix::io::Errno::NOENT) => {}
        found => return Ok(found?),
    }
    let above = path.parent().unwrap_or(Path::new("/"));
    Ok(may(above, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_be_made_or_written_is_accepted_and_no_file_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("log");
        assert!(check(&file).is_ok() && !file.exists());
        std::fs::write(&file, "").unwrap();
        assert!(check(&file).is_ok());
        for bad in [scratch.path().to_owned(), scratch.path().join("missing/log"), file.join("log")] {
            assert!(check(&bad).is_err(), "{}", bad.display());
        }
    }
}
