//! MariaDB with its defaults on a mount: root installs and starts it, it runs as another user, and
//! it is killed under load.
//!
//! `MILLRACE_E2E_SEEDS` kills (2 by default).

use crate::support::filer::Filer;
use crate::support::{
    Scratch, await_until, find_program, is_root, millrace, preload_library, seed_count, share_with_group, skip, succeed, text,
};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A user and a group that every host has.
const USER: &str = "nobody";
const GROUP: u32 = 65534;

/// Fields drop in this order: the server before the filer with its files.
struct World {
    server: Option<Ended>,
    filer: Filer,
    sockets: tempfile::TempDir,
    runtime: tempfile::TempDir,
    scratch: Scratch,
}

/// A process. Dropping it kills the process.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    /// Creates a data directory. `None`, with a message, if this host cannot run the test.
    fn new(label: &str) -> Option<Self> {
        if !is_root() {
            skip("only root can start a server that runs as another user");
            return None;
        }
        let Some(install) = find_program("mariadb-install-db") else {
            skip("no MariaDB server");
            return None;
        };
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        let open = |directory: &std::path::Path| std::fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).unwrap();
        open(filer.export());
        let folder = |parent: &str| tempfile::Builder::new().prefix("millrace-test-").tempdir_in(parent).unwrap();
        let (sockets, runtime) = (folder("/tmp"), folder("/dev/shm"));
        open(sockets.path());
        share_with_group(runtime.path(), GROUP);
        let world = Self { server: None, filer, sockets, runtime, scratch };
        let mut made = world.exec(&install);
        succeed(made.args(["--auth-root-authentication-method=normal", "--skip-test-db"]));
        Some(world)
    }

    /// One of MariaDB's own programs, with MariaDB's defaults.
    fn exec(&self, program: &PathBuf) -> Command {
        let mut command = millrace();
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.runtime.path()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}", self.filer.url), "--"]).arg(program);
        command.args(["--no-defaults", &format!("--user={USER}"), "--datadir=/db/my"]);
        command
    }

    fn socket(&self) -> PathBuf {
        self.sockets.path().join("sql")
    }

    fn start(&mut self) {
        let server = find_program("mariadbd").unwrap_or_else(|| "/usr/sbin/mariadbd".into());
        let (socket, log) = (self.socket(), self.scratch.path().join("said"));
        let _ = std::fs::remove_file(&socket);
        let mut command = self.exec(&server);
        command.args(["--skip-networking", "--log-error=/db/my.err"]);
        command.arg(format!("--pid-file={}", self.sockets.path().join("pid").display()));
        command.arg(format!("--socket={}", socket.display())).stderr(std::fs::File::create(log).unwrap());
        let mut server = Ended(command.spawn().unwrap());
        await_until("the server to answer", Duration::from_secs(90), || {
            assert!(server.0.try_wait().unwrap().is_none(), "{}", self.log());
            self.client().args(["-e", "select 1"]).output().ok().filter(|output| output.status.success())
        });
        self.server = Some(server);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.filer.export().join("my.err")).unwrap_or_default()
    }

    fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", "-BN", "--unbuffered", "-S"]).arg(self.socket());
        command
    }

    fn sql(&self, statements: &str) -> String {
        succeed(self.client().args(["-e", statements]))
    }

    fn shut_down(&mut self) {
        self.sql("shutdown");
        assert!(self.server.take().unwrap().0.wait().unwrap().success(), "{}", self.log());
    }
}

#[test]
fn a_server_with_its_defaults_that_root_starts_and_that_runs_as_its_user_is_one_mount() {
    let Some(mut world) = World::new("mariadb") else { return };
    world.start();
    let counted = world
        .sql("create database d; create table d.t(a int primary key); insert into d.t values (1), (2); select count(*) from d.t");
    let native = world.sql("select @@innodb_use_native_aio");
    // Root reads the attributes of files that the server has open, through the same mount.
    let mut look = millrace();
    look.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", world.runtime.path()).current_dir("/");
    look.args(["exec", "--mount", &format!("/db={}", world.filer.url), "--", "stat", "-c", "%u", "/db/my/d", "/db/my.err"]);
    assert_eq!((counted.trim(), native.trim(), succeed(&mut look).as_str()), ("2", "1", "65534\n65534\n"));
    world.shut_down();
}

/// Starts a connection that inserts rows one after the other until it breaks. The thread returns
/// the last acknowledged row. `who` is the number of the connection.
fn insert(world: &World, who: u64) -> std::thread::JoinHandle<u64> {
    let mut client = world.client().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::spawn(move || {
        let (mut into, mut from) = (client.stdin.take().unwrap(), BufReader::new(client.stdout.take().unwrap()));
        let mut acknowledged = 0;
        for row in 1.. {
            let statement = format!("insert into d.t values ({who}, {row}, repeat('x', 3000)); select {row};\n");
            let mut line = String::new();
            if into.write_all(statement.as_bytes()).is_err() || from.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
            assert_eq!(line.trim(), row.to_string());
            acknowledged = row;
        }
        drop(into);
        client.wait().unwrap();
        acknowledged
    })
}

fn kills(label: &str, count: u64) {
    let Some(mut world) = World::new(label) else { return };
    world.start();
    world.sql("create database d; create table d.t(who int, n int, filler text, primary key(who, n))");
    for round in 0..count {
        let first = round * 4;
        let clients: Vec<_> = (first..first + 4).map(|who| insert(&world, who)).collect();
        let rows = || world.sql("select count(*) from d.t").trim().parse::<u64>().unwrap();
        let before = rows();
        await_until("rows", Duration::from_secs(60), || (rows() > before + 150 + 97 * round % 200).then_some(()));
        drop(world.server.take()); // SIGKILL
        let acknowledged: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        world.start();
        for (who, last) in (first..).zip(acknowledged) {
            let there = world.sql(&format!("select count(*), coalesce(max(n), 0) from d.t where who = {who}"));
            let numbers: Vec<u64> = there.split_whitespace().map(|number| number.parse().unwrap()).collect();
            // One more row may be committed without an acknowledgement. No row before the last is missing.
            assert!(numbers[0] == numbers[1] && numbers[1] >= last, "round {round}: {there} of {last}: {}", world.log());
        }
        assert!(world.sql("check table d.t extended").contains("status\tOK"), "round {round}");
    }
    world.shut_down();
    let Some(check) = find_program("innochecksum") else { return skip("no innochecksum") };
    // The doublewrite buffer begins after page 63. A kill may leave its pages incomplete, on a
    // local disk too.
    for (file, pages) in [("ibdata1", &["--end-page=63"][..]), ("d/t.ibd", &[])] {
        let checked = Command::new(&check).args(pages).arg(world.filer.export().join("my").join(file)).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", text(&checked));
    }
}

#[test]
fn a_killed_server_keeps_every_row_that_was_acknowledged() {
    kills("mariadb-kills", seed_count());
}

#[test]
#[ignore = "nightly: many kills"]
fn a_server_killed_many_times_keeps_every_row_that_was_acknowledged() {
    kills("mariadb-many-kills", 10 * seed_count());
}

/// Runs sysbench's transactions and inserts rows, and kills the server five times. Every
/// acknowledged row must be there.
fn sysbench(label: &str, seconds: u64) {
    let Some(program) = find_program("sysbench") else { return skip("no sysbench") };
    let Some(mut world) = World::new(label) else { return };
    world.start();
    world.sql("create database sbtest; create database d; create table d.t(who int, n int, filler text, primary key(who, n))");
    let socket = format!("--mysql-socket={}", world.socket().display());
    let run = |what: &str| {
        let mut command = Command::new(&program);
        command.args(["oltp_read_write", "--tables=4", "--table-size=20000", "--threads=4", "--mysql-user=root", &socket]);
        command.arg(format!("--time={}", seconds * 2)).arg(what);
        command
    };
    succeed(&mut run("prepare"));
    for round in 0..5 {
        let mut load = Ended(run("run").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let rows = insert(&world, round);
        let begun = std::time::Instant::now();
        await_until("the round to end", Duration::from_secs(seconds), || {
            assert!(load.0.try_wait().unwrap().is_none(), "sysbench ended by itself: {}", world.log());
            (begun.elapsed() >= Duration::from_secs(seconds) / 5).then_some(())
        });
        drop(world.server.take()); // SIGKILL
        load.0.wait().unwrap();
        let acknowledged = rows.join().unwrap();
        world.start();
        let there: u64 = world.sql(&format!("select count(*) from d.t where who = {round}")).trim().parse().unwrap();
        assert!(acknowledged > 0 && there >= acknowledged, "round {round}: {there} of {acknowledged}");
        let checked = world.sql("check table d.t, sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3, sbtest.sbtest4 extended");
        assert_eq!(checked.matches("status\tOK").count(), 5, "{checked}");
    }
    world.shut_down();
}

#[test]
#[ignore = "nightly: five minutes of sysbench"]
fn sysbench_and_its_server_s_deaths_leave_every_table_whole() {
    sysbench("mariadb-sysbench", 300);
}
