//! The audit sees mounts of Direct NFS: on this host and in a capture of it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::filer::Filer;
use crate::support::postgres::{as_database_user, give_to_database_user, server_programs};
use crate::support::{Scratch, millrace, preload_library, skip, succeed, text};
use results::audit::{Audit, Finding, Verdict};

/// A program with the name of a database server that has a file on the mount open.
struct Database {
    child: Child,
    runtime: PathBuf,
}

impl Database {
    fn start(scratch: &Scratch, mount: &str) -> Self {
        let runtime = scratch.folder("runtime");
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        let program = scratch.path().join("postgres");
        symlink("/bin/sh", &program).unwrap();
        let mut command = millrace();
        command.args(["exec", "--mount", mount, "--"]).arg(&program);
        command.args(["-c", "echo x >/db/file && exec 3</db/file && echo open && read line"]);
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", &runtime).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "open\n");
        Self { child, runtime }
    }

    fn millrace(&self, arguments: &[&str]) -> Output {
        let mut command: Command = millrace();
        command.args(arguments).env("MILLRACE_RUNTIME_DIR", &self.runtime).stdin(Stdio::null()).output().unwrap()
    }

    fn audit(&self, more: &[&str]) -> Audit {
        let output = self.millrace(&[&["audit", "--json", "--passed"], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rules about this mount with their verdicts. The common prefix of the rules' names is removed.
fn verdicts(audit: &Audit) -> Vec<(&str, Verdict)> {
    let of_mount = audit.findings.iter().filter(|finding| finding.subject.as_deref() == Some("direct_nfs_mount /db"));
    let mut found: Vec<(&str, Verdict)> =
        of_mount.map(|finding| (finding.rule.strip_prefix("linux-direct-nfs-").unwrap(), finding.verdict)).collect();
    found.sort_by_key(|(rule, _)| *rule);
    found
}

#[test]
fn a_database_on_direct_nfs_is_judged_by_the_options_and_the_state_of_its_mount() {
    let scratch = Scratch::new("audit-direct-nfs");
    let filer = Filer::start(&scratch, &[]);
    let database = Database::start(&scratch, &format!("/db={}&soft&gone=error&retain=0&slots=4", filer.url));
    let (passed, finding) = (Verdict::Passed, Verdict::Finding);
    // The filer is on this host, so no rule about encryption applies.
    let wanted = [
        ("close-sends-no-commit", finding),
        ("hard", finding),
        ("keeper", passed),
        ("retains-written-data", finding),
        ("server-answers", passed),
        ("shared-memory-has-room", passed),
        ("waits-for-the-export", finding),
        ("without-limits-of-old-clients", finding),
    ];
    assert_eq!(verdicts(&database.audit(&[])), wanted);

    let capture = scratch.path().join("capture.tar.gz");
    let capture = capture.to_str().unwrap();
    let collected = database.millrace(&["collect", "--out", capture]);
    assert!(collected.status.success(), "{}", text(&collected));
    assert_eq!(verdicts(&database.audit(&["--facts", capture])), wanted);
}

/// A rule that tests the file system of the data.
const FILE_SYSTEM: &str = r#"schema = 1
layer = "db"
[[rule]]
id = "postgres-test-file-system"
title = "The data is on NFS"
platforms = ["postgres"]
test = "postgres.data_fstype == 'nfs'"
severity = "low"
reason = "A test."
sources = [{ name = "a test" }]
status = "valid"
[[rule.fires]]
facts = { "postgres.version" = 150000, "postgres.data_fstype" = "ext4" }
[[rule.silent]]
facts = { "postgres.version" = 150000, "postgres.data_fstype" = "nfs" }
"#;

/// PostgreSQL with its data on a Direct NFS mount and its configuration on local disk, as on
/// Debian. Dropping it stops the server.
struct Server {
    scratch: Scratch,
    filer: Filer,
    programs: PathBuf,
}

impl Server {
    fn start(programs: PathBuf) -> Self {
        let scratch = Scratch::new("audit-direct-nfs-server");
        let filer = Filer::start(&scratch, &[]);
        give_to_database_user(filer.export());
        std::fs::write(scratch.folder("rules").join("test.toml"), FILE_SYSTEM).unwrap();
        for name in ["runtime", "other", "sockets"] {
            let folder = scratch.folder(name);
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
            give_to_database_user(&folder);
        }
        let server = Self { scratch, filer, programs };
        succeed(&mut server.inside("initdb", &["--no-sync", "-A", "trust", "-U", "postgres", "-D", "/db/pg"]));
        let config = server.scratch.folder("etc").join("postgresql.conf");
        let files = ["hba", "ident"].map(|name| format!("{name}_file = '/db/pg/pg_{name}.conf'\n")).concat();
        std::fs::write(&config, format!("data_directory = '/db/pg'\n{files}")).unwrap();
        let options = format!("-k {} -c listen_addresses='' -c config_file={}", server.path("sockets"), config.display());
        let log = server.path("sockets/log");
        succeed(&mut server.inside("pg_ctl", &["start", "-w", "-s", "-D", "/db/pg", "-l", &log, "-o", &options]));
        server
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// A command that runs a program of PostgreSQL with the mount.
    fn inside(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = as_database_user(env!("CARGO_BIN_EXE_millrace"));
        command
            .args(["exec", "--mount", &format!("/db={}", self.filer.url), "--"])
            .arg(self.programs.join(program))
            .args(arguments);
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.path("runtime"));
        command
    }

    /// An audit of the running server by the database's user, with its mounts in this runtime directory.
    fn audit(&self, runtime: &str) -> Audit {
        let dsn = format!("host={} user=postgres dbname=postgres", self.path("sockets"));
        self.audit_with(runtime, &["--db", &dsn])
    }

    fn audit_with(&self, runtime: &str, more: &[&str]) -> Audit {
        let mut command = as_database_user(env!("CARGO_BIN_EXE_millrace"));
        command.args(["audit", "--json", "--passed", "--rules", &self.path("rules")]).args(more);
        let output = command.env("MILLRACE_RUNTIME_DIR", self.path(runtime)).stdin(Stdio::null()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.inside("pg_ctl", &["stop", "-m", "immediate", "-w", "-s", "-D", "/db/pg"]).status();
        // The keeper has files open in the runtime directory, which is removed next.
        crate::support::keepers::end(self.filer.port);
    }
}

#[test]
fn data_on_direct_nfs_has_the_file_system_of_the_mount_and_without_the_mount_is_elsewhere() {
    let Some(programs) = server_programs() else { return skip("PostgreSQL is not installed") };
    let server = Server::start(programs);
    // This host may have other clusters.
    let is_asked = |finding: &&Finding| finding.server.as_ref().is_some_and(|name| name.contains(&server.path("sockets")));
    let verdict = |audit: &Audit| audit.findings.iter().filter(is_asked).map(|finding| finding.verdict).collect::<Vec<_>>();
    let said = |audit: &Audit| audit.remarks.iter().any(|remark| remark.contains("the data directory /db/pg of PostgreSQL at "));

    let seen = server.audit("runtime");
    assert_eq!((verdict(&seen), said(&seen)), (vec![Verdict::Passed], false), "{seen:?}");
    let unseen = server.audit("other");
    assert_eq!((verdict(&unseen), said(&unseen)), (vec![Verdict::Unknown], true), "{unseen:?}");
}

#[test]
fn a_server_that_runs_with_its_data_on_direct_nfs_does_not_count_as_stopped() {
    let Some(programs) = server_programs() else { return skip("PostgreSQL is not installed") };
    let server = Server::start(programs);
    let seen = |runtime: &str| {
        let audit = server.audit_with(runtime, &[]);
        let names = audit.findings.into_iter().filter_map(|finding| finding.server);
        let names: Vec<String> = names.filter(|name| name.contains(&server.path("etc"))).collect();
        (names, audit.remarks.into_iter().find(|remark| remark.contains("the data directory /db/pg of ")))
    };
    let name = format!("PostgreSQL in {} (from files)", server.path("etc"));
    assert_eq!(seen("runtime"), (vec![name.clone()], None));
    let (names, remark) = seen("other");
    assert_eq!(names, [name]);
    assert!(remark.as_ref().is_some_and(|remark| remark.contains("the server runs, so it may be")), "{remark:?}");
}
