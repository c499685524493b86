//! Locks: between programs on the mount, and with those under `millrace exec`.

use crate::mounted::Mounted;
use crate::support::{await_until, succeed};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A Python program that locks a range of a file for writing and prints the result. With a further
/// argument it holds the lock until its stdin ends.
const LOCK: &str = "import fcntl, sys
f = open(sys.argv[1], 'r+')
try:
    fcntl.lockf(f, fcntl.LOCK_EX | (0 if sys.argv[2] == 'wait' else fcntl.LOCK_NB), int(sys.argv[4]), int(sys.argv[3]))
    print('locked', flush=True)
    if len(sys.argv) > 5: sys.stdin.read()
except OSError as error:
    print('errno', error.errno, flush=True)";

/// Runs [`LOCK`] on a file of the mount, or on that file in `/db` under `millrace exec`.
fn locker(mounted: &Mounted, beside: bool, arguments: &[&str]) -> Command {
    let (mut command, file) =
        if beside { (mounted.world.exec("python3"), "/db/f".into()) } else { (Command::new("python3"), mounted.path("f")) };
    command.args(["-c", LOCK]).arg(file).args(arguments);
    command
}

struct Held(Child);

impl Held {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(child)
    }

    fn let_go(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn record_locks_exclude_each_other_on_the_mount_and_beside_it() {
    let Some(mounted) = Mounted::new("fuse-records") else { return };
    mounted.shell(": >f");
    for (holder, other) in [(false, false), (false, true), (true, false)] {
        let held = Held::start(locker(&mounted, holder, &["now", "10", "10", "hold"]));
        assert_eq!(succeed(&mut locker(&mounted, other, &["now", "19", "1"])), "errno 11\n", "{holder} {other}");
        assert_eq!(succeed(&mut locker(&mounted, other, &["now", "20", "5"])), "locked\n", "{holder} {other}");
        held.let_go();
        assert_eq!(succeed(&mut locker(&mounted, other, &["now", "10", "10"])), "locked\n", "{holder} {other}");
    }
}

#[test]
fn who_waits_for_a_lock_gets_it_when_it_is_given_up_and_can_be_killed_meanwhile() {
    let Some(mounted) = Mounted::new("fuse-lock-wait") else { return };
    mounted.shell(": >f");
    let held = Held::start(locker(&mounted, false, &["now", "0", "0", "hold"]));
    let waits = || locker(&mounted, false, &["wait", "0", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut killed, patient) = (waits(), waits());
    let asleep = |child: &Child| {
        let state = crate::support::keepers::stat(child.id()).and_then(|fields| fields.into_iter().next());
        let system_call = std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap_or_default();
        (state.as_deref() == Some("S") && system_call.starts_with("72 ")).then_some(()) // fcntl
    };
    for child in [&killed, &patient] {
        await_until("a program to wait for the lock", Duration::from_secs(20), || asleep(child));
    }
    killed.kill().unwrap();
    assert!(!killed.wait().unwrap().success());
    held.let_go();
    assert_eq!(patient.wait_with_output().unwrap().stdout, b"locked\n");
}

#[test]
fn flock_excludes_on_the_mount_and_beside_it_and_ends_with_its_description() {
    let Some(mounted) = Mounted::new("fuse-flock") else { return };
    mounted.shell(": >f");
    let here = || mounted.shell("flock -n f echo locked || echo refused");
    let beside = || mounted.world.shell("flock -n /db/f echo locked || echo refused");
    let file = std::fs::File::open(mounted.path("f")).unwrap();
    file.lock().unwrap();
    let copy = file.try_clone().unwrap();
    drop(file);
    assert_eq!((here(), beside()), ("refused\n".into(), "refused\n".into()), "a copy of the descriptor holds it");
    drop(copy);
    // The kernel sends RELEASE after the close has returned.
    await_until("the lock to end", Duration::from_secs(30), || (here() == "locked\n").then_some(()));
    assert_eq!(beside(), "locked\n");
    let shared = std::fs::File::open(mounted.path("f")).unwrap();
    shared.lock_shared().unwrap();
    assert_eq!(mounted.shell("flock -s -n f echo locked"), "locked\n");
    assert_eq!(here(), "refused\n");
}

/// Adds one to a number sixty times, each time in a transaction that also adds a row to a second table.
const SQLITE: &str = r#"
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for turn in range(60):
    database.execute("BEGIN IMMEDIATE")
    number = database.execute("SELECT number FROM counter").fetchone()[0]
    database.execute("UPDATE counter SET number = ?", (number + 1,))
    database.execute("INSERT INTO log VALUES (?, ?)", (sys.argv[2], turn))
    database.execute("COMMIT")
"#;

#[test]
#[ignore = "nightly: writers for fifteen seconds"]
fn sqlite_loses_no_update_of_writers_on_the_mount_and_beside_it() {
    let Some(mounted) = Mounted::new("fuse-sqlite") else { return };
    let sql = |journal: &str, statement: &str| {
        let script = format!(
            "import sqlite3; db = sqlite3.connect('{journal}.db', isolation_level=None); print(*db.execute(\"{statement}\").fetchall())"
        );
        mounted.shell(&format!("python3 -c '{}'", script.replace('\'', "'\\''")))
    };
    // The index of a write-ahead log is a shared mapping, which only one side of the host can have.
    for (journal, beside) in [("delete", true), ("wal", false)] {
        if !beside && !mounted.maps_files() {
            return;
        }
        sql(journal, &format!("PRAGMA journal_mode={journal}"));
        sql(journal, "CREATE TABLE counter AS SELECT 0 AS number");
        sql(journal, "CREATE TABLE log(name, turn)");
        let here = |name: &str| {
            let mut command = Command::new("python3");
            command.args(["-c", SQLITE]).arg(mounted.path(&format!("{journal}.db"))).arg(name).spawn().unwrap()
        };
        let mut writers = vec![here("one"), here("two")];
        if beside {
            let mut command = mounted.world.exec("python3");
            writers.push(command.args(["-c", SQLITE, &format!("/db/{journal}.db"), "beside"]).spawn().unwrap());
        }
        let all = writers.len() * 60;
        for mut writer in writers {
            assert!(writer.wait().unwrap().success(), "{journal}");
        }
        assert_eq!(
            sql(journal, "SELECT number, (SELECT count(*) FROM log) FROM counter"),
            format!("({all}, {all})\n"),
            "{journal}"
        );
        assert_eq!(sql(journal, "PRAGMA integrity_check"), "('ok',)\n", "{journal}");
    }
}

/// As [`LOCK`], with a lock of the open file description (F_OFD_SETLK), which a duplicate of the
/// descriptor keeps.
const DESCRIPTION: &str = "import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.fcntl(f, 37, struct.pack('hhqqi4x', 1, 0, int(sys.argv[3]), int(sys.argv[4]), 0))
    print('locked', flush=True)
    copy = os.dup(f); os.close(f)
    if len(sys.argv) > 5: sys.stdin.read()
except OSError as error:
    print('errno', error.errno, flush=True)";

#[test]
fn locks_of_a_description_exclude_those_of_processes_on_the_mount_and_beside_it() {
    let Some(mounted) = Mounted::new("fuse-descriptions") else { return };
    mounted.shell(": >f");
    let description = |beside: bool, arguments: &[&str]| {
        let mut command = locker(&mounted, beside, arguments);
        let arguments: Vec<_> =
            command.get_args().map(|word| if word == LOCK { DESCRIPTION.as_ref() } else { word }.to_owned()).collect();
        let mut same = Command::new(command.get_program());
        same.args(arguments).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
        command = same;
        command
    };
    for (holder, other) in [(false, false), (false, true), (true, false)] {
        let held = Held::start(description(holder, &["now", "10", "10", "hold"]));
        assert_eq!(succeed(&mut locker(&mounted, other, &["now", "19", "1"])), "errno 11\n", "{holder} {other}");
        assert_eq!(succeed(&mut description(other, &["now", "19", "1"])), "errno 11\n", "{holder} {other}");
        assert_eq!(succeed(&mut locker(&mounted, other, &["now", "20", "1"])), "locked\n", "{holder} {other}");
        held.let_go();
        let free = || (succeed(&mut locker(&mounted, other, &["now", "10", "10"])) == "locked\n").then_some(());
        await_until("the lock to end with its description", Duration::from_secs(30), free);
        let held = Held::start(locker(&mounted, holder, &["now", "0", "5", "hold"]));
        assert_eq!(succeed(&mut description(other, &["now", "4", "1"])), "errno 11\n", "{holder} {other}");
        held.let_go();
    }
}
