//! What the running system tells of database servers that only files name: which of them do not run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::collected::Collected;
use super::database::mysql::is_option_file;
use super::database::postgres::files;
use super::text::telling;

/// Configuration file and data directory of each cluster of PostgreSQL that a file names.
pub(super) fn clusters(collected: &Collected) -> Vec<(String, String)> {
    let named = files::clusters(collected).into_iter().filter_map(|cluster| Some((cluster.config, cluster.data?)));
    named.filter(|(_, data)| !data.split('/').any(|part| part == "..")).take(64).collect()
}

/// Notes the servers that do not run, as far as this user may see it.
pub(super) fn note_stopped(root: &Path, collected: &mut Collected) {
    let stopped = |path: &str, programs: &[&str]| is_stopped(root, path, programs);
    for (config, data) in clusters(collected) {
        if stopped(&format!("{data}/postmaster.pid"), &["postgres", "postmaster"]) {
            collected.stopped.insert(config);
        }
    }
    let files = collected.files.iter().filter(|(path, _)| path.starts_with("/etc/") && is_option_file(path));
    let said = files.flat_map(|(_, text)| telling(text, &['#', ';'])).filter_map(|(_, line)| {
        let (name, said) = line.split_once('=')?;
        (name.trim().replace('-', "_") == "pid_file").then(|| said.trim().to_owned())
    });
    // Where none is named, it is beside the data under the host's name of that time.
    let pid_file = said.last().filter(|path| path.starts_with('/') && !path.contains(".."));
    if pid_file.is_some_and(|path| stopped(&path, &["mysqld", "mariadbd"])) {
        collected.stopped.insert("mysql".to_owned());
    }
}

/// Whether the file of a process number is not there, or its process is gone. What may not be read is no answer.
fn is_stopped(root: &Path, path: &str, programs: &[&str]) -> bool {
    match fs::read_to_string(root.join(path.trim_start_matches('/'))) {
        // Processes of another tree are not seen from here.
        Ok(text) if root == Path::new("/") => {
            let Some(pid) = text.split_whitespace().next().and_then(|word| word.parse::<u32>().ok()) else { return false };
            match fs::read_to_string(format!("/proc/{pid}/comm")) {
                Ok(name) => !programs.contains(&name.trim()),
                Err(fault) => fault.kind() == ErrorKind::NotFound,
            }
        }
        Ok(_) => false,
        Err(fault) => fault.kind() == ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(root: &Path) -> bool {
        let mut collected = Collected::default();
        collected.take_file("/etc/postgresql/15/main/postgresql.conf", b"data_directory = '/data' # here\n");
        note_stopped(root, &mut collected);
        collected.stopped.contains("/etc/postgresql/15/main/postgresql.conf")
    }

    #[test]
    fn a_cluster_without_a_process_number_in_its_directory_does_not_run() {
        let root = tempfile::tempdir().unwrap();
        assert!(stopped(root.path()));
        fs::create_dir(root.path().join("data")).unwrap();
        fs::write(root.path().join("data/postmaster.pid"), "1\n/data\n").unwrap();
        // Whether it lives cannot be seen of another tree.
        assert!(!stopped(root.path()));
    }

    #[test]
    fn a_process_number_that_another_program_has_now_is_that_of_no_server() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("postmaster.pid");
        fs::write(&file, format!("{}\n/data\n", std::process::id())).unwrap();
        let own = fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
        let path = file.display().to_string();
        assert!(is_stopped(Path::new("/"), &path, &["postgres"]));
        assert!(!is_stopped(Path::new("/"), &path, &[own.trim()]));
    }
}
