//! Programs of this host.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the administrator's programs are, which PATH of other users may lack.
const ADMINISTRATOR: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The file of a program in the directories of PATH: the one that a shell would run.
#[must_use]
pub fn in_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    find(name.as_ref(), &[])
}

/// The file of a program in the directories of PATH, or else where the administrator's programs are.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    find(name.as_ref(), &ADMINISTRATOR)
}

/// Whether [`program`] finds it.
#[must_use]
pub fn has_program(name: &str) -> bool {
    program(name).is_some()
}

/// Whether this is a file that may be executed.
#[must_use]
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn find(name: &OsStr, further: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(further.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|file| is_executable(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_path_and_then_in_further_directories() {
        assert!(in_path("sh").is_some_and(|file| file.ends_with("sh")));
        assert!(in_path("no-such-program").is_none() && !has_program("no-such-program"));
        assert_eq!(find("self/exe".as_ref(), &["/proc"]), Some("/proc/self/exe".into()));
    }
}
