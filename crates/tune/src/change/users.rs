//! Finds processes that use a path by open files, mapped files or working directories. Source:
//! proc(5).

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};

use serde::Serialize;

use super::limits::{MAPS_BYTES_MAX, PROCESSES_MAX};
use super::root::Root;

/// A process that uses a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct User {
    /// The process ID.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// One of the files that it uses below the paths.
    pub path: String,
    /// How it uses the file: `open`, `mapped` or `working directory`.
    pub how: &'static str,
}

/// The processes that use a set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Users {
    pub(super) users: Vec<User>,
    /// Processes that this user may not inspect; they may or may not use the paths.
    pub(super) hidden: Vec<u32>,
}

/// Inspects every process except this one. Any program counts: a shell with its working directory
/// in a file system prevents an unmount just as a database does.
pub(super) fn users_of(paths: &[String], root: &Root) -> Users {
    let mut found = Users::default();
    if paths.is_empty() {
        return found;
    }
    let Ok(processes) = fs::read_dir(root.host("/proc")) else { return found };
    for process in processes.take(PROCESSES_MAX).flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() && root.folder() == std::path::Path::new("/") {
            continue;
        }
        match used(&process.path(), paths) {
            Ok(Some((path, how))) => {
                let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default().trim().to_owned();
                found.users.push(User { pid, program, path, how });
            }
            Ok(None) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => found.hidden.push(pid),
            // The process ended in the meantime.
            Err(_) => {}
        }
    }
    found.users.sort_by_key(|user| user.pid);
    found.hidden.sort_unstable();
    found
}

fn used(process: &std::path::Path, paths: &[String]) -> std::io::Result<Option<(String, &'static str)>> {
    if let Some(path) = fs::read_link(process.join("cwd")).map(below(paths))? {
        return Ok(Some((path, "working directory")));
    }
    for descriptor in fs::read_dir(process.join("fd"))?.flatten() {
        // A descriptor that was closed in the meantime does not count.
        if let Some(path) = fs::read_link(descriptor.path()).ok().and_then(below(paths)) {
            return Ok(Some((path, "open")));
        }
    }
    let maps = match fs::File::open(process.join("maps")) {
        Ok(maps) => maps,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for line in BufReader::new(maps.take(MAPS_BYTES_MAX)).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        // address perms offset dev inode path
        let path = line.find('/').and_then(|at| line.get(at..)).map(std::path::PathBuf::from);
        if let Some(path) = path.and_then(below(paths)) {
            return Ok(Some((path, "mapped")));
        }
    }
    Ok(None)
}

fn below(paths: &[String]) -> impl Fn(std::path::PathBuf) -> Option<String> + '_ {
    |path| paths.iter().any(|one| path.starts_with(one)).then(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(folder: &std::path::Path, pid: u32, name: &str, cwd: &str, open: &[&str], maps: &str) {
        let process = folder.join(format!("proc/{pid}"));
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        fs::write(process.join("maps"), maps).unwrap();
        symlink(cwd, process.join("cwd")).unwrap();
        for (number, path) in open.iter().enumerate() {
            symlink(path, process.join(format!("fd/{number}"))).unwrap();
        }
    }

    #[test]
    fn open_files_maps_and_working_directories_count_and_neighbours_do_not() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), 11, "postgres", "/", &["socket:[1]", "/redo/wal/0001"], "");
        process(folder.path(), 12, "oracle", "/", &[], "7f00-7f01 r-xp 00000000 fd:01 9  /redo/lib/libx.so (deleted)\n");
        process(folder.path(), 13, "bash", "/redo", &[], "");
        process(folder.path(), 14, "cat", "/redo2", &["/redo-old/x"], "7f00-7f01 rw-p 0 00:00 0\n");
        let users = users_of(&["/redo".to_owned()], &Root::new(folder.path()));
        let seen: Vec<(u32, &str, &str)> = users.users.iter().map(|u| (u.pid, u.program.as_str(), u.how)).collect();
        assert_eq!(seen, [(11, "postgres", "open"), (12, "oracle", "mapped"), (13, "bash", "working directory")]);
        assert!(users_of(&[], &Root::new(folder.path())).users.is_empty());
    }

    #[test]
    fn a_file_open_in_this_tree_is_found_in_the_real_process_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").current_dir(&path).spawn().unwrap();
        let users = users_of(&[path.display().to_string()], &Root::new("/"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(users.users.iter().any(|user| user.pid == child.id()), "{users:?}");
    }
}
