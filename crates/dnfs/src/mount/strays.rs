//! Stray files. A program of root without the preload library made them in the directory that holds the placeholders of
//! directories, because `../..` of a placeholder leads there. They are not on the server.

use std::collections::HashSet;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Observer;
use crate::segment::runtime_dir::RuntimeDir;

/// [`Strays::look`] lists the directory at each call of this number; the keeper calls it once a
/// second.
const EVERY: u32 = 10;
/// A placeholder of this age was left by a process that was killed before it removed the
/// placeholder.
const LEFT_AFTER: Duration = Duration::from_secs(60);
/// The system log; facility and severity of a line: daemon, warning (RFC 5424 6.2.1).
const SYSTEM_LOG: &str = "/dev/log";
const PRIORITY: &str = "<28>";

/// What the keeper has reported.
#[derive(Debug, Default)]
pub(super) struct Strays {
    looks: u32,
    reported: HashSet<PathBuf>,
}

impl Strays {
    /// Each tenth call removes what killed processes left while they made a placeholder or the segment, and sends a line to the
    /// system log for each new stray.
    pub(super) fn look(&mut self, directory: &RuntimeDir) {
        self.looks += 1;
        if self.looks % EVERY != 1 {
            return;
        }
        let folder = directory.path().join(RuntimeDir::DIRECTORIES);
        remove_left(&folder);
        remove_unfinished_segments(directory.path());
        for path in strays_in(&folder) {
            if self.reported.contains(&path) {
                continue;
            }
            let line = format!(
                "{PRIORITY}millrace[{}]: {} is on no server: a program of root that the library does not reach made it by a relative path",
                std::process::id(),
                path.display()
            );
            if send(&line, Path::new(SYSTEM_LOG)).is_err() {
                return; // tried again at the next call that lists
            }
            self.reported.insert(path);
        }
    }
}

/// Sends a line. Returns an error, instead of waiting, if the log is full.
fn send(line: &str, log: &Path) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(line.as_bytes(), log).map(drop)
}

impl Observer {
    /// Files that a program of root without the library made by a relative path that leads out of the mount. They are not on the
    /// server.
    #[must_use]
    pub fn strays(&self) -> Vec<PathBuf> {
        strays_in(&self.segment.directory().path().join(RuntimeDir::DIRECTORIES))
    }
}

/// Everything in the directory except placeholders, which are directories with one empty directory in them.
fn strays_in(folder: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_placeholder = |path: &PathBuf| path.is_dir() && path.file_name().is_some_and(|name| name.len() == 16);
    let (placeholders, mut strays): (Vec<_>, Vec<_>) = entries(folder).partition(is_placeholder);
    let inside = placeholders.iter().flat_map(|placeholder| entries(placeholder));
    strays.extend(inside.filter(|path| !path.ends_with("d") || entries(path).next().is_some()));
    strays.sort();
    strays
}

/// Removes placeholders that killed processes left, if they are empty.
fn remove_left(folder: &Path) {
    for placeholder in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = placeholder.metadata().and_then(|found| found.modified()).ok().and_then(|made| made.elapsed().ok());
        if age.is_some_and(|age| age > LEFT_AFTER) {
            let _ = std::fs::remove_dir(placeholder.path().join("d"));
            let _ = std::fs::remove_dir(placeholder.path());
        }
    }
}

/// Removes the unfinished segments of processes that created one while another process was faster. Such a process attaches to the
/// finished segment if it continues.
fn remove_unfinished_segments(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.file_name().as_encoded_bytes().starts_with(RuntimeDir::NEW_SEGMENT.as_bytes()) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn a_log_that_nobody_reads_does_not_hold_up_the_keeper() {
        let place = TempDir::new();
        let log = Path::new(place.path()).join("log");
        let _unread = UnixDatagram::bind(&log).unwrap();
        let full = (0..100_000).find_map(|_| send("a line", &log).err());
        assert_eq!(full.map(|error| error.kind()), Some(std::io::ErrorKind::WouldBlock));
    }

    #[test]
    fn what_is_no_placeholder_is_a_stray() {
        let place = TempDir::new();
        let folder = Path::new(place.path());
        std::fs::create_dir_all(folder.join("0123456789abcdef/d")).unwrap();
        std::fs::create_dir_all(folder.join("1123456789abcdef/d/core")).unwrap();
        std::fs::write(folder.join("f"), "lost").unwrap();
        std::fs::create_dir(folder.join("made")).unwrap();
        let names = ["1123456789abcdef/d", "f", "made"].map(|name| folder.join(name));
        assert_eq!(strays_in(folder), names);
        assert!(strays_in(&folder.join("nothing")).is_empty());
    }
}
