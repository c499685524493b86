//! Follows the paths of databases. Links in a data directory decide which mounts contain the log
//! and the tablespaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::collected::Collected;
use super::limits::TABLESPACES_MAX;
use super::roles::linked;
use super::sources::resolved;
use crate::facts::Facts;

/// The command that prints the real path of a path.
const COMMAND: &str = "readlink -f";

/// Links on the way to one file: the kernel's limit (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Notes the real paths in the outputs of a collector.
pub(super) fn read(collected: &Collected, facts: &mut Facts) {
    for (path, output) in collected.outputs(COMMAND) {
        let real = output.text.trim();
        if path.starts_with('/') && real.starts_with('/') {
            facts.put_of("path", &path, "real", real, &output.line);
        }
    }
}

/// Follows the paths of the known servers below a root, and notes their real paths.
pub(super) fn note(root: &Path, facts: &mut Facts) {
    for (path, real) in follow(root, &linked(facts)) {
        facts.put_of("path", &path, "real", real, &path);
    }
}

/// Follows the paths of these servers below a root, and adds the real paths as outputs of commands,
/// as a collector does.
pub(super) fn take(root: &Path, servers: &Facts, collected: &mut Collected) {
    for (path, real) in follow(root, &linked(servers)) {
        collected.take_command(&format!("{COMMAND} {path}"), format!("{real}\n").as_bytes(), Some(0));
    }
}

/// The existing ones of these paths with their real paths. For the folder of tablespaces, all its
/// links are included.
fn follow(root: &Path, paths: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(real(root, path).map(|real| (path.clone(), real)));
        if path.ends_with("/pg_tblspc") {
            let entries = fs::read_dir(below(root, path)).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<String> = names.take(TABLESPACES_MAX).map(|name| format!("{path}/{name}")).collect();
            names.sort();
            found.extend(names.into_iter().filter_map(|path| Some((path.clone(), real(root, &path)?))));
        }
    }
    found
}

/// The real path of a path in the tree below a root; `None` if it does not exist or may not be
/// followed.
fn real(root: &Path, path: &str) -> Option<String> {
    let mut path = resolved(path, "/");
    let mut at = 1;
    let mut links = 0;
    while at <= path.len() {
        let end = path[at..].find('/').map_or(path.len(), |more| at + more);
        let head = &path[..end];
        if let Ok(target) = fs::read_link(below(root, head)) {
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            path = resolved(&format!("{}/{}", resolved(target.to_str()?, head), &path[end..]), "/");
            at = 1;
            continue;
        }
        fs::symlink_metadata(below(root, head)).ok()?;
        at = end + 1;
    }
    Some(path)
}

fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_below_the_root_and_never_out_of_it() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["data/15", "mnt/wal/15", "srv"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        symlink("/mnt/wal/15", root.path().join("data/15/pg_wal")).unwrap();
        symlink("../data", root.path().join("srv/pg")).unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        let real = |path: &str| real(root.path(), path);
        assert_eq!(real("/srv/pg/15/pg_wal").as_deref(), Some("/mnt/wal/15"));
        assert_eq!(real("/data/15/").as_deref(), Some("/data/15"));
        assert_eq!((real("/a/x"), real("/data/16")), (None, None));
        assert_eq!(real("/../mnt").as_deref(), Some("/mnt"));
    }
}
