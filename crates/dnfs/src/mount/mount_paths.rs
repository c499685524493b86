//! The paths at which programs have a mount, for observers of its segment. There is one small file for each path and URL,
//! `mount.<hash>`. It is written at each attach, so that its time is that of the last one. The client itself does not use these
//! files.

use std::hash::Hasher;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::SystemTime;

use super::MountSpec;
use crate::options::Options;
use crate::segment::runtime_dir::{FILE_MODE, RuntimeDir};
use crate::sys::local_file::{CPath, open, write};
use crate::url::NfsUrl;

const PREFIX: &str = "mount.";
/// Longest text read: the longest path and a URL.
const TEXT_BYTES_MAX: u64 = 16 << 10;

/// A path at which programs had an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPath {
    /// As in `--mount /db=…`.
    pub path: String,
    /// The URL without its options.
    pub url: String,
    /// Its options; `None` if an older library wrote the note, which left them out.
    pub options: Option<Options>,
    /// When a program last attached by it.
    pub attached: SystemTime,
}

/// Notes how this process attaches. The file's name determines its contents, so that processes that write it at the same time
/// write the same text. If that fails, observers see no path.
pub(super) fn note(directory: &RuntimeDir, spec: &MountSpec) {
    let text = [spec.local_path.as_slice(), b"=", spec.url.with_all_options().as_bytes()].concat();
    let mut hash = fnv::FnvHasher::default();
    hash.write(&text);
    let name = directory.path().join(format!("{PREFIX}{:016x}", hash.finish()));
    let _ = open(&CPath::new(name.as_os_str().as_bytes()), libc::O_WRONLY | libc::O_CREAT, FILE_MODE)
        .and_then(|file| write(&file, &text));
}

/// The notes in a runtime directory, newest first. Of several options of one path and URL, the newest count.
pub(super) fn list(directory: &Path) -> Vec<MountPath> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let noted = files.filter(|file| file.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
    let mut paths: Vec<_> = noted.filter_map(|file| read(&file.path())).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.attached));
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert((path.path.clone(), path.url.clone())));
    paths
}

fn read(file: &Path) -> Option<MountPath> {
    let found = std::fs::symlink_metadata(file).ok().filter(|found| found.is_file() && found.len() <= TEXT_BYTES_MAX)?;
    let text = std::ffi::OsString::from_vec(std::fs::read(file).ok()?);
    // Another user of the group may have written it, and it is printed on a terminal.
    let text = text.to_string_lossy().replace(char::is_control, "?");
    let (path, url) = text.split_once("=nfs://")?;
    let (path, url, attached) = (path.to_owned(), format!("nfs://{url}"), found.modified().ok()?);
    let complete = url.parse::<NfsUrl>().ok().filter(|_| NfsUrl::has_all_options(&url));
    Some(match complete {
        Some(complete) => MountPath { path, url: complete.to_string(), options: Some(complete.options), attached },
        None => MountPath { path, url, options: None, attached },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn a_mount_is_listed_once_by_path_and_url_with_its_last_options() {
        let place = TempDir::new();
        let directory = RuntimeDir::make(place.path().as_bytes(), |_| 5).unwrap();
        for text in ["/db=nfs://filer/vol?slots=4", "/other=nfs://filer/vol", "/db=nfs://filer/vol?slots=8"] {
            note(&directory, &MountSpec::parse(text.as_bytes()).unwrap());
        }
        let notes = std::fs::read_dir(directory.path()).unwrap().map(|note| note.unwrap().path());
        for note in notes.filter(|note| std::fs::read_to_string(note).is_ok_and(|text| text.contains("slots=4"))) {
            std::fs::File::options().append(true).open(note).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let listed = list(directory.path());
        let slots = |path: &MountPath| path.options.as_ref().unwrap().slot_count;
        let mut shown: Vec<_> = listed.iter().map(|path| (path.path.as_str(), path.url.as_str(), slots(path))).collect();
        assert!(listed.is_sorted_by(|one, other| one.attached >= other.attached));
        shown.sort_unstable();
        assert_eq!(shown, [("/db", "nfs://filer/vol", Some(8)), ("/other", "nfs://filer/vol", None)]);
    }

    #[test]
    fn a_note_of_an_older_library_has_no_options() {
        let place = TempDir::new();
        std::fs::write(Path::new(place.path()).join("mount.0000000000000001"), "/db=nfs://filer/vol?local=10.0.0.1").unwrap();
        let listed = list(Path::new(place.path()));
        assert_eq!((listed[0].url.as_str(), &listed[0].options), ("nfs://filer/vol?local=10.0.0.1", &None));
    }
}
