//! Finds out on the running host which database servers, known by their files, do not run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::collected::Collected;
use super::database::mysql::{is_option_file, reads_default_files};
use super::database::postgres::files;
use super::running::Running;
use super::text::telling;
use crate::facts::Database;

/// Configuration file and data directory of each PostgreSQL cluster that a file names.
pub(super) fn clusters(collected: &Collected) -> Vec<(String, String)> {
    let named = files::clusters(collected).into_iter().filter_map(|cluster| Some((cluster.config, cluster.data?)));
    named.filter(|(_, data)| !data.split('/').any(|part| part == "..")).take(64).collect()
}

/// Notes the servers that do not run, if this user can see that. `running` has the servers that
/// run.
pub(super) fn note_stopped(root: &Path, running: &[Running], collected: &mut Collected) {
    let host = Host { root, running, sees_all: fs::read(root.join("proc/1/cmdline")).is_ok() };
    for (config, data) in clusters(collected) {
        // A process that names neither a configuration file nor a directory may be the server of
        // any cluster.
        let is_server = |server: &Running| match (&server.config, &server.directory) {
            (None, None) => true,
            (its_config, directory) => *its_config == Some(config.clone()) || *directory == Some(data.clone()),
        };
        let is_server = |server: &Running| server.database == Database::Postgres && is_server(server);
        if host.is_stopped(&format!("{data}/postmaster.pid"), &["postgres", "postmaster"], is_server) {
            collected.stopped.insert(config);
        }
    }
    let files = collected.files.iter().filter(|(path, _)| path.starts_with("/etc/") && is_option_file(path));
    let said = files.flat_map(|(_, text)| telling(text, &['#', ';'])).filter_map(|(_, line)| {
        let (name, said) = line.split_once('=')?;
        (name.trim().replace('-', "_") == "pid_file").then(|| said.trim().to_owned())
    });
    // If no option file names a PID file, it is in the data directory, under the name that the host
    // had when the server started.
    let pid_file = said.last().filter(|path| path.starts_with('/') && !path.contains(".."));
    let is_server = |server: &Running| server.database == Database::Mysql && reads_default_files(server);
    if pid_file.is_some_and(|path| host.is_stopped(&path, &["mysqld", "mariadbd"], is_server)) {
        collected.stopped.insert("mysql".to_owned());
    }
}

/// The host on which servers are searched for.
struct Host<'a> {
    root: &'a Path,
    /// The servers whose processes this user sees.
    running: &'a [Running],
    /// Whether this user sees the processes of all users.
    sees_all: bool,
}

impl Host<'_> {
    /// Whether a server does not run. If its PID file may not be read, this is not known.
    ///
    /// A missing PID file proves little: in a Direct NFS mount, only programs of the mount see the
    /// file. Then the processes decide.
    fn is_stopped(&self, pid_file: &str, programs: &[&str], is_server: impl Fn(&Running) -> bool) -> bool {
        let path = self.root.join(pid_file.trim_start_matches('/'));
        let is_live = self.root == Path::new("/");
        let runs = match fs::read_to_string(&path) {
            Ok(text) if is_live => process_of(&text, programs),
            // Processes of another root folder are not visible here.
            Ok(_) => None,
            Err(fault) => (fault.kind() == ErrorKind::NotFound).then_some(false),
        };
        if runs != Some(false) {
            return false;
        }
        if is_live {
            return self.sees_all && !self.running.iter().any(|server| !server.is_elsewhere && is_server(server));
        }
        path.parent().is_some_and(Path::is_dir)
    }
}

/// Whether the process in a PID file is alive and is one of these programs; `None` if this user
/// cannot see it.
fn process_of(pid_file: &str, programs: &[&str]) -> Option<bool> {
    let pid = pid_file.split_whitespace().next()?.parse::<u32>().ok()?;
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => Some(programs.contains(&name.trim())),
        Err(fault) => (fault.kind() == ErrorKind::NotFound).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "/etc/postgresql/15/main/postgresql.conf";

    fn stopped(root: &Path, running: &[Running]) -> bool {
        let mut collected = Collected::default();
        collected.take_file(CONFIG, b"data_directory = '/data' # here\n");
        note_stopped(root, running, &mut collected);
        collected.stopped.contains(CONFIG)
    }

    #[test]
    fn a_cluster_without_a_process_number_in_its_directory_does_not_run() {
        let root = tempfile::tempdir().unwrap();
        // The directory may be in a Direct NFS mount.
        assert!(!stopped(root.path(), &[]));
        fs::create_dir(root.path().join("data")).unwrap();
        assert!(stopped(root.path(), &[]));
        fs::write(root.path().join("data/postmaster.pid"), "1\n/data\n").unwrap();
        // Whether the process of another root folder is alive is not visible.
        assert!(!stopped(root.path(), &[]));
    }

    #[test]
    fn a_process_number_that_another_program_has_now_is_that_of_no_server() {
        let own = fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
        let pid_file = format!("{}\n/data\n", std::process::id());
        assert_eq!(process_of(&pid_file, &["postgres"]), Some(false));
        assert_eq!(process_of(&pid_file, &[own.trim()]), Some(true));
        assert_eq!(process_of("", &["postgres"]), None);
    }

    #[test]
    fn a_server_whose_files_are_not_seen_runs_if_its_process_does() {
        const MISSING: &str = "/no/such/folder/postmaster.pid";
        let server = Running::of(Database::Postgres, 7, 105);
        let elsewhere = Running { is_elsewhere: true, ..server.clone() };
        let is_stopped = |running: &[Running], sees_all| {
            Host { root: Path::new("/"), running, sees_all }.is_stopped(MISSING, &["postgres"], |_| true)
        };
        assert!(is_stopped(&[], true));
        assert!(!is_stopped(&[server], true));
        assert!(is_stopped(&[elsewhere], true), "a server in a container has other files");
        assert!(!is_stopped(&[], false), "processes of other users are hidden");
    }
}
