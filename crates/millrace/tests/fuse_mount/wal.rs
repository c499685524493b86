//! SQLite in WAL mode: its index is a shared mapping, which only one side of the host can have.

use crate::mounted::Mounted;
use crate::support::{await_until, millrace, succeed};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Executes a statement for each line of stdin, and prints its rows or its error.
const SQL: &str = "import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
for line in sys.stdin:
    try: print(database.execute(line).fetchall(), flush=True)
    except Exception as error: print(error, flush=True)";

const REFUSED: &str = "unable to open database file";

/// A program that has a database open.
struct Sql {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Sql {
    /// Starts this command, which runs `python3`, on a database.
    fn start(mut command: Command, database: &Path) -> Self {
        command.args(["-c", SQL]).arg(database);
        let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn does(&mut self, statement: &str) -> String {
        writeln!(self.stdin.as_ref().unwrap(), "{statement}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Closes the database, and returns what the program printed on stderr.
    fn end(mut self) -> String {
        drop(self.stdin.take());
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut said).unwrap();
        self.child.wait().unwrap();
        said
    }
}

fn beside(mounted: &Mounted) -> Sql {
    Sql::start(mounted.world.exec("python3"), Path::new("/db/s.db"))
}

fn through(directory: &Path) -> Sql {
    Sql::start(Command::new("python3"), &directory.join("s.db"))
}

#[test]
fn a_database_in_wal_mode_has_one_side_at_a_time_and_the_error_names_the_other() {
    let Some(mut mounted) = Mounted::new("fuse-wal") else { return };
    if !mounted.maps_files() {
        return;
    }
    // The mount is made again, with a log.
    let log = mounted.world.scratch.path().join("log");
    assert!(mounted.unmount().status.success());
    mounted.mount("", &["--log", log.to_str().unwrap()]);
    let mut program = beside(&mounted);
    assert_eq!(program.does("pragma journal_mode=wal"), "[('wal',)]");
    assert_eq!(program.does("create table t(i integer primary key)"), "[]");
    let mut here = through(&mounted.directory);
    assert_eq!(here.does("select count(*) from t"), REFUSED, "exec has it");
    let named = || fs::read_to_string(&log).unwrap_or_default().contains("millrace exec").then_some(());
    await_until("the log to name the other side", Duration::from_secs(30), named);
    assert_eq!(program.does("insert into t values(1)"), "[]");
    assert_eq!(program.end(), "");
    assert_eq!(here.does("insert into t values(2)"), "[]", "exec has it no more");
    assert_eq!(here.does("select count(*) from t"), "[(2,)]");
    let mut program = beside(&mounted);
    assert_eq!(program.does("select count(*) from t"), REFUSED, "the mount has it");
    let said = program.end();
    assert!(said.contains("/db/s.db-shm") && said.contains("`millrace mount` (process"), "{said}");
    here.end();
    let mut program = beside(&mounted);
    assert_eq!(program.does("insert into t values(3)"), "[]");
    assert_eq!(program.does("select count(*) from t"), "[(3,)]");
    assert_eq!(program.does("pragma integrity_check"), "[('ok',)]");
    program.end();
}

#[test]
fn two_mounts_of_one_export_are_two_sides_of_a_database_in_wal_mode() {
    let Some(mounted) = Mounted::new("fuse-wal-two") else { return };
    if !mounted.maps_files() {
        return;
    }
    let second = mounted.world.scratch.folder("second");
    succeed(millrace().args(["mount", &mounted.filer().url]).arg(&second));
    let mut one = through(&mounted.directory);
    assert_eq!(one.does("pragma journal_mode=wal"), "[('wal',)]");
    assert_eq!(one.does("create table t(i integer primary key)"), "[]");
    let mut same = through(&mounted.directory);
    assert_eq!(same.does("insert into t values(1)"), "[]", "programs of one mount share it");
    let mut other = through(&second);
    assert_eq!(other.does("insert into t values(2)"), REFUSED);
    assert_eq!(one.does("select count(*) from t"), "[(1,)]");
    one.end();
    same.end();
    assert_eq!(other.does("insert into t values(2)"), "[]");
    assert_eq!(other.does("pragma integrity_check"), "[('ok',)]");
    other.end();
    succeed(millrace().arg("unmount").arg(&second));
}
