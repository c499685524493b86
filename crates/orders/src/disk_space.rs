//! Free disk space of a server on this host.
//!
//! The server reports its data directory. If that directory exists on this host too, `df` reports the
//! free space of its file system. There is no value for a server on another host or in a container, or one that hides its
//! directory from this user.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::database::DiskSpace;

/// Whether a host name refers to this host.
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Free bytes of the file system that contains a directory; `None` if the directory or the value is not available.
pub(crate) fn of_directory(directory: &str) -> Option<DiskSpace> {
    if !Path::new(directory).is_dir() {
        return None;
    }
    let output = Command::new("df").args(["-Pk", "--", directory]).env("LC_ALL", "C").output().ok()?;
    let free_bytes = free_bytes(&String::from_utf8_lossy(&output.stdout))?;
    Some(DiskSpace { directory: PathBuf::from(directory), free_bytes })
}

/// The fourth field of the second line, in KiB.
fn free_bytes(said: &str) -> Option<u64> {
    let free_kib: u64 = said.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    free_kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_field_of_df_is_read_and_nothing_else() {
        let said = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 263174212 23994036 71778960 26% /\n";
        assert_eq!(free_bytes(said), Some(71_778_960 * 1024));
        assert_eq!(free_bytes("df: nothing\n"), None);
    }

    #[test]
    fn a_directory_that_is_here_has_free_space_and_one_that_is_not_is_not_judged() {
        assert!(of_directory("/").is_some_and(|space| space.directory == Path::new("/")));
        assert_eq!(of_directory("/nowhere/at/all"), None);
        assert!(is_loopback("localhost") && is_loopback("127.0.0.1") && is_loopback("[::1]") && !is_loopback("db1"));
    }
}
