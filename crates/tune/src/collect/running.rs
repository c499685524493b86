//! Running database servers of this host, found by their processes: where their files are, and what
//! their command lines set.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::database::postgres::lines::setting;
use super::limits::LISTING_MAX;
use crate::facts::Database;

/// A running database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// The database.
    pub(super) database: Database,
    /// The process ID.
    pub(super) pid: u32,
    /// The user ID of the process.
    pub(super) uid: u32,
    /// The data directory, if it is known.
    pub(super) directory: Option<String>,
    /// The configuration file that the command line names, otherwise the one in the data directory.
    pub(super) config: Option<String>,
    /// Settings on the command line, by name, as written. They take precedence over its files.
    pub(super) options: Vec<(String, String)>,
    /// The words of the command line of MySQL or MariaDB.
    pub(super) arguments: Vec<String>,
    /// Whether a file of the same name is another file for it, because it runs in a container.
    pub(super) is_elsewhere: bool,
    /// The value of `--db` that reaches it, if it was determined.
    pub(super) dsn: Option<String>,
}

/// The running servers by process ID. Processes of other users may be hidden.
pub(super) fn servers(proc: &Path) -> Vec<Running> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| server(proc, pid)).take(LISTING_MAX).collect()
}

fn server(proc: &Path, pid: u32) -> Option<Running> {
    let at = proc.join(pid.to_string());
    let line = fs::read(at.join("cmdline")).ok()?;
    let words: Vec<String> = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let (program, words) = words.split_first()?;
    // A child of the server names itself `postgres: ...`, but not right after it was started.
    let database = match program.rsplit('/').next()? {
        "postgres" | "postmaster" if !is_child_of_server(proc, &at) => Database::Postgres,
        "mysqld" | "mariadbd" => Database::Mysql,
        _ => return None,
    };
    if words.iter().any(|word| is_of_comparison(word)) {
        return None;
    }
    let uid = fs::metadata(&at).ok()?.uid();
    let mut found = Running::of(database, pid, uid);
    if database == Database::Postgres {
        postgres(words, &at, &mut found)
    } else {
        mysql(words, &mut found)
    }
    let usual = || MYSQL_FILES.iter().copied().find(|path| at.join("root").join(path.trim_start_matches('/')).exists());
    let config = found.config.as_deref().or_else(|| (database == Database::Mysql).then(|| usual().unwrap_or(MYSQL_FILES[0])));
    found.is_elsewhere = config.is_some_and(|config| is_elsewhere(proc, &at, config));
    Some(found)
}

/// Whether a word of a command line names a directory of a `millrace compare`, whose server is temporary and keeps no setting.
fn is_of_comparison(word: &str) -> bool {
    word.split('/').skip(1).any(|part| part.starts_with(host::COMPARISON_DIRECTORY))
}

/// Whether the process sees another file under this name. A unit with private folders has its own
/// mount namespace too, but sees the same file.
fn is_elsewhere(proc: &Path, at: &Path, config: &str) -> bool {
    let own = fs::read_link(proc.join("self/ns/mnt")).ok();
    if own.zip(fs::read_link(at.join("ns/mnt")).ok()).is_none_or(|(own, its)| own == its) {
        return false;
    }
    let file = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let its = file(&at.join("root").join(config.trim_start_matches('/')));
    its.is_none() || its != file(Path::new(config))
}

fn is_child_of_server(proc: &Path, at: &Path) -> bool {
    let status = fs::read_to_string(at.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or_default().trim();
    let name = fs::read_to_string(proc.join(parent).join("comm")).unwrap_or_default();
    matches!(name.trim(), "postgres" | "postmaster")
}

/// Source: postgres(1), "Options". A postmaster's working directory is its data directory.
fn postgres(words: &[String], at: &Path, found: &mut Running) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        // The value of a short option is the rest of the word or the next word.
        let mut value = |flag: &str| {
            let rest = word.strip_prefix(flag)?;
            if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) }
        };
        if let Some(folder) = value("-D") {
            found.directory = absolute(&folder);
        } else if let Some(port) = value("-p") {
            found.options.push(("port".to_owned(), port));
        } else if let Some(buffers) = value("-B") {
            found.options.push(("shared_buffers".to_owned(), buffers));
        } else if word == "-F" {
            found.options.push(("fsync".to_owned(), "off".to_owned()));
        } else if let Some(set) = value("-c").or_else(|| word.strip_prefix("--").map(str::to_owned))
            && let Some((name, said)) = set.split_once('=')
        {
            found.options.push((name.replace('-', "_").to_ascii_lowercase(), said.to_owned()));
        }
    }
    let set = |wanted: &str, found: &Running| {
        found.options.iter().rev().find(|(name, _)| name == wanted).and_then(|(_, said)| absolute(said))
    };
    let working = fs::read_link(at.join("cwd")).ok().and_then(|path| absolute(path.to_str()?));
    let is_data = |folder: &String| Path::new(folder).join("PG_VERSION").exists();
    let named = set("data_directory", found).or_else(|| found.directory.take()).or_else(|| absolute(&variable(at, "PGDATA")?));
    found.directory = working.filter(is_data).or(named);
    found.config = set("config_file", found).or_else(|| Some(format!("{}/postgresql.conf", found.directory.as_deref()?)));
    found.options.retain(|(name, _)| !matches!(name.as_str(), "config_file" | "data_directory"));
}

/// A variable of a process, if its environment may be read.
fn variable(at: &Path, name: &str) -> Option<String> {
    let environment = fs::read(at.join("environ")).ok()?;
    let mut all = environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok()?.split_once('='));
    all.find(|(of, _)| *of == name).map(|(_, said)| said.to_owned())
}

/// Source: "Server Command Options" of MySQL and MariaDB.
fn mysql(words: &[String], found: &mut Running) {
    found.arguments = words.iter().filter(|word| !word.is_empty()).cloned().collect();
    for (name, said) in words.iter().filter_map(|word| word.strip_prefix("--")?.split_once('=')) {
        match name.replace('_', "-").as_str() {
            "datadir" => found.directory = absolute(said),
            "defaults-file" => found.config = absolute(said),
            _ => found.options.push((name.replace('-', "_"), said.to_owned())),
        }
    }
}

fn absolute(path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    (path.starts_with('/') && !path.split('/').any(|part| part == "..")).then(|| path.to_owned())
}

impl Running {
    /// A server of which only these properties are known.
    pub(super) fn of(database: Database, pid: u32, uid: u32) -> Self {
        let (options, arguments) = (Vec::new(), Vec::new());
        Self { database, pid, uid, directory: None, config: None, options, arguments, is_elsewhere: false, dsn: None }
    }

    /// Its name in messages: `PostgreSQL (process 4711, data in /srv/pg)`.
    pub(super) fn words(&self) -> String {
        let kind = if self.database == Database::Postgres { "PostgreSQL" } else { "MySQL or MariaDB" };
        let data = self.directory.as_deref().map(|folder| format!(", data in {folder}")).unwrap_or_default();
        format!("{kind} (process {}{data})", self.pid)
    }

    /// A message that says how to query the server: with `--db`, as the user that it lets in
    /// through its socket without a password. For PostgreSQL this is the server's user, whom initdb
    /// makes the superuser; for MariaDB it is root.
    ///
    /// `own_uid` is the user that runs this program. `pid_file` is the text of `postmaster.pid`,
    /// and `config` is the text of the configuration, if they may be read.
    pub(super) fn ask(&self, own_uid: u32, pid_file: Option<&str>, config: Option<&str>) -> String {
        let dsn = self.dsn(pid_file, config);
        let asker = if self.database == Database::Mysql { 0 } else { self.uid };
        match (own_uid, user_name(asker)) {
            // The name of a container's user on this host is not meaningful.
            (own, _) if own == asker || self.is_elsewhere => format!("to ask it, add --db '{dsn}'"),
            (0, user) => format!("to ask it: runuser -u {user} -- millrace audit --db '{dsn}'"),
            (_, user) => format!("to ask it, add --db '{dsn}' as user {user}"),
        }
    }

    /// The value of `--db` for the server: its address and the user.
    ///
    /// Source: port and socket directory are lines 4 and 5 of `postmaster.pid` (miscadmin.h).
    pub(super) fn dsn(&self, pid_file: Option<&str>, config: Option<&str>) -> String {
        let option = |wanted: &str| self.options.iter().rev().find(|(name, _)| name == wanted).map(|(_, said)| said.clone());
        let line = |number: usize| {
            let said = pid_file?.lines().nth(number)?.trim();
            (!said.is_empty()).then(|| said.to_owned())
        };
        if self.database == Database::Mysql {
            let port = option("port");
            let socket = option("socket").or_else(|| option_of_server(config?, "socket"));
            let usual = || MYSQL_SOCKETS.iter().find(|path| port.is_none() && !self.is_elsewhere && Path::new(path).exists());
            return match socket.or_else(|| usual().map(|path| (*path).to_owned())) {
                Some(socket) => format!("mysql://root@localhost/?socket={socket}"),
                None => format!("mysql://root@127.0.0.1:{}/", port.unwrap_or_else(|| "3306".to_owned())),
            };
        }
        // The PID file has the values that the server was started with. The configuration replaces
        // a PID file that may not be read.
        let port = option("port").or_else(|| line(3)).or_else(|| setting(config?, "port"));
        let folders = || setting(config?, "unix_socket_directories");
        let folder = line(4).or_else(|| folders()?.split(',').map(|folder| folder.trim().to_owned()).next());
        let host = folder.filter(|folder| !folder.is_empty()).map(|folder| format!("host={folder} ")).unwrap_or_default();
        let port = port.map(|port| format!("port={port} ")).unwrap_or_default();
        format!("{host}{port}user={} dbname=postgres", user_name(self.uid))
    }
}

/// Files that MySQL and MariaDB read if the command line names no others.
const MYSQL_FILES: &[&str] = &["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// Paths of the socket in packages of MariaDB and MySQL: Debian, Red Hat, the project's own.
const MYSQL_SOCKETS: &[&str] = &["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

/// A setting of an option file, in the sections that a server reads.
fn option_of_server(config: &str, wanted: &str) -> Option<String> {
    let mut ours = false;
    let mut found = None;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            ours = ["mysqld", "server", "client-server", "mariadb"].iter().any(|begin| section.starts_with(begin));
        } else if let Some((name, said)) = line.split_once('=').filter(|_| ours)
            && name.trim() == wanted
        {
            found = Some(said.trim().trim_matches(['\'', '"']).to_owned());
        }
    }
    found
}

/// The name of a user of this host; the user ID if the user has no name.
pub(crate) fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| uid.to_string())
}

/// Why the configuration of a server cannot be read; `None` if it can.
pub(super) fn unreadable(path: &Path) -> Option<&'static str> {
    match fs::File::open(path) {
        Ok(_) => None,
        Err(fault) if fault.kind() == ErrorKind::PermissionDenied => Some("this user may not read it"),
        Err(fault) if fault.kind() == ErrorKind::NotFound => {
            Some("it is not there for this user: a container, or a mount of its own")
        }
        Err(_) => Some("it cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates a process in a folder that replaces /proc.
    fn process(proc: &Path, pid: u32, parent: u32, line: &[&str], cwd: &Path) {
        let at = proc.join(pid.to_string());
        fs::create_dir(&at).unwrap();
        fs::write(at.join("cmdline"), line.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>())
            .unwrap();
        fs::write(at.join("comm"), format!("{}\n", line[0].rsplit('/').next().unwrap())).unwrap();
        fs::write(at.join("status"), format!("Name:\tx\nPPid:\t{parent}\n")).unwrap();
        symlink(cwd, at.join("cwd")).unwrap();
    }

    #[test]
    fn servers_are_found_by_their_processes_and_their_children_are_none() {
        let root = tempfile::tempdir().unwrap();
        let (proc, data) = (root.path().join("proc"), root.path().join("data"));
        fs::create_dir_all(&proc).unwrap();
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("PG_VERSION"), "15\n").unwrap();
        process(
            &proc,
            10,
            1,
            &["/usr/lib/postgresql/15/bin/postgres", "-D", "elsewhere", "-F", "-p5433", "--work_mem=1MB"],
            &data,
        );
        process(&proc, 11, 10, &["postgres: checkpointer "], &data);
        process(&proc, 12, 10, &["/usr/lib/postgresql/15/bin/postgres", "-D", "elsewhere"], &data);
        process(&proc, 20, 1, &["/usr/sbin/mariadbd", "--datadir=/srv/my", "--socket=/run/my.sock", "--skip-networking"], &data);
        process(&proc, 30, 1, &["bash", "-c", "postgres"], &data);
        // Of a comparison over Direct NFS: its files are nowhere on this host, its socket is.
        let socket = "/var/tmp/millrace-compare-4426-0128d3d7/run";
        process(&proc, 40, 1, &["/usr/bin/postgres", "-D", "/millrace-db/datadir", "-k", socket], &data);
        process(&proc, 41, 1, &["/usr/sbin/mariadbd", &format!("--socket={socket}/my.sock")], &data);
        let found = servers(&proc);
        let [postgres, maria] = found.as_slice() else { panic!("{found:?}") };
        let data = data.display().to_string();
        assert_eq!((postgres.pid, postgres.directory.as_deref()), (10, Some(data.as_str())));
        assert_eq!(postgres.config, Some(format!("{data}/postgresql.conf")));
        let set: Vec<(&str, &str)> = postgres.options.iter().map(|(name, said)| (name.as_str(), said.as_str())).collect();
        assert_eq!(set, [("fsync", "off"), ("port", "5433"), ("work_mem", "1MB")]);
        assert!(postgres.dsn(Some("10\n/data\n1\n5433\n/tmp\n*\n"), None).starts_with("host=/tmp port=5433 user="));
        assert_eq!((maria.pid, maria.directory.as_deref()), (20, Some("/srv/my")));
        assert_eq!(maria.dsn(None, None), "mysql://root@localhost/?socket=/run/my.sock");
    }

    fn running(database: Database, uid: u32) -> Running {
        Running::of(database, 7, uid)
    }

    #[test]
    fn a_server_is_asked_by_the_user_that_its_socket_lets_in() {
        const NOBODY: u32 = 4_000_000_000;
        let postgres = running(Database::Postgres, NOBODY);
        let conf = "port = 5441 # of this cluster\nunix_socket_directories = '/var/run/postgresql, /tmp'\n";
        let dsn = "host=/var/run/postgresql port=5441 user=4000000000 dbname=postgres";
        assert_eq!(postgres.ask(NOBODY, None, Some(conf)), format!("to ask it, add --db '{dsn}'"));
        assert_eq!(postgres.ask(0, None, Some(conf)), format!("to ask it: runuser -u 4000000000 -- millrace audit --db '{dsn}'"));
        assert_eq!(postgres.ask(1, None, Some(conf)), format!("to ask it, add --db '{dsn}' as user 4000000000"));
        // The values that the server was started with take precedence over a file that was changed
        // since.
        let pid_file = "7\n/data\n1\n5432\n/run/pg\n";
        assert!(postgres.ask(1, Some(pid_file), Some(conf)).contains("--db 'host=/run/pg port=5432 user="));
        let maria = running(Database::Mysql, NOBODY);
        let conf = "[client]\nsocket=/a\n[client-server]\nsocket = /run/my.sock\n[mysqld]\nport=1\n";
        assert_eq!(maria.ask(0, None, Some(conf)), "to ask it, add --db 'mysql://root@localhost/?socket=/run/my.sock'");
        assert!(maria.ask(1, None, Some(conf)).ends_with("as user root"));
    }

    #[test]
    fn the_file_that_a_command_line_names_is_the_configuration() {
        let root = tempfile::tempdir().unwrap();
        let line = ["postgres", "-D", "/var/lib/postgresql/15/main", "-c", "config_file=/etc/postgresql/15/main/postgresql.conf"];
        process(root.path(), 10, 1, &line, Path::new("/nowhere"));
        let found = servers(root.path());
        assert_eq!(found[0].config.as_deref(), Some("/etc/postgresql/15/main/postgresql.conf"));
        assert_eq!(found[0].directory.as_deref(), Some("/var/lib/postgresql/15/main"));
        assert_eq!(found[0].options, []);
    }

    #[test]
    fn a_server_whose_command_line_names_no_directory_has_that_of_its_environment() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 10, 1, &["postgres"], Path::new("/nowhere"));
        assert_eq!(servers(root.path())[0].directory, None);
        fs::write(root.path().join("10/environ"), "LANG=C\0PGDATA=/db/pg/\0").unwrap();
        assert_eq!(servers(root.path())[0].directory.as_deref(), Some("/db/pg"));
    }
}
