//! The tree that is read and changed: the host's root, or a folder that replaces it.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use super::limits::{FILE_BYTES_MAX, LINKS_MAX, PATH_PARTS_MAX};

/// A folder that replaces `/`. Links are followed inside this tree and never lead out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// The tree below a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The host's path for a path without links.
    pub fn host(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// The path with its links followed inside the tree. The file and the folders above it may be
    /// missing.
    ///
    /// # Errors
    /// Too many links or parts, or a part that is not UTF-8.
    pub fn resolve(&self, path: &str) -> io::Result<String> {
        let mut ahead: VecDeque<String> = parts(Path::new(path))?.into();
        let mut walked: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                walked.pop();
                continue;
            }
            walked.push(part);
            if walked.len() + ahead.len() > PATH_PARTS_MAX {
                return Err(io::Error::other("the path has too many parts"));
            }
            let here = self.host(&joined(&walked));
            let Ok(true) = fs::symlink_metadata(&here).map(|found| found.is_symlink()) else { continue };
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::other("too many symbolic links on the way"));
            }
            let target = fs::read_link(&here)?;
            walked.pop();
            if target.is_absolute() {
                walked.clear();
            }
            for part in parts(&target)?.into_iter().rev() {
                ahead.push_front(part);
            }
        }
        Ok(joined(&walked))
    }

    /// The contents of a file, with links followed; `None` if the file does not exist.
    ///
    /// # Errors
    /// Not a regular file, too long, or unreadable.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        read_bounded(&self.host(&self.resolve(path)?), FILE_BYTES_MAX)
    }

    /// The same as text.
    ///
    /// # Errors
    /// As for [`Root::read`], and contents that are not UTF-8.
    pub fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        match self.read(path)? {
            None => Ok(None),
            Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("the file is not UTF-8 text")),
        }
    }

    /// Whether the path is a folder.
    pub fn has_folder(&self, path: &str) -> bool {
        self.resolve(path).is_ok_and(|real| self.host(&real).is_dir())
    }

    /// Whether the path is a regular file.
    pub fn has_file(&self, path: &str) -> bool {
        self.resolve(path).is_ok_and(|real| self.host(&real).is_file())
    }
}

/// The contents of a regular file of at most `bytes_max` bytes; `None` if the file does not exist.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("longer than {bytes_max} bytes")));
    }
    Ok(Some(bytes))
}

fn parts(path: &Path) -> io::Result<Vec<String>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => match name.to_str() {
                Some(name) => parts.push(name.to_owned()),
                None => return Err(io::Error::other("a part of the path is not UTF-8 text")),
            },
            Component::ParentDir => parts.push("..".to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}

fn joined(parts: &[String]) -> String {
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(folder.path().join("etc/sysctl.d")).unwrap();
        fs::write(folder.path().join("etc/sysctl.conf"), "a = 1\n").unwrap();
        symlink("/etc/sysctl.conf", folder.path().join("etc/sysctl.d/99-sysctl.conf")).unwrap();
        symlink("../../../../../etc", folder.path().join("out")).unwrap();
        assert_eq!(root.resolve("/etc/sysctl.d/99-sysctl.conf").unwrap(), "/etc/sysctl.conf");
        assert_eq!(root.resolve("/out/sysctl.conf").unwrap(), "/etc/sysctl.conf");
        assert_eq!(root.read_text("/out/sysctl.conf").unwrap().as_deref(), Some("a = 1\n"));
        assert_eq!(root.resolve("/not/there/yet").unwrap(), "/not/there/yet");
        assert_eq!(root.read("/etc/sysctl.conf/below").unwrap(), None);
    }

    #[test]
    fn a_circle_of_links_and_a_folder_for_a_file_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        assert!(root.resolve("/a").is_err());
        assert!(root.read("/").is_err());
    }
}
