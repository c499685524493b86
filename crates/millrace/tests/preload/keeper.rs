//! What the keeper does for programs that have ended or run on (COMMIT, removal), and that there is
//! a keeper as long as one is needed.

use crate::support::filer::Filer;
use crate::support::postgres::server_programs;
use crate::support::remote::RemoteCluster;
use crate::support::{Scratch, await_until, find_program, keepers, millrace, preload_library, skip};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time limit, on a busy host, of what a keeper does within seconds.
const SOON: Duration = Duration::from_secs(30);
/// Number of bytes that the programs write.
const BYTES: usize = 100_000;

/// A filer that can lose its power, and programs on it.
struct World {
    filer: Filer,
    _scratch: Scratch,
    runtime: PathBuf,
    python: PathBuf,
}

impl World {
    fn new(label: &str) -> Option<Self> {
        let Some(python) = find_program("python3") else {
            skip("no python3");
            return None;
        };
        let scratch = Scratch::new(label);
        let runtime = scratch.folder("millrace-of-a-test");
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        Some(Self { filer: Filer::start(&scratch, &["--loss-layer"]), _scratch: scratch, runtime, python })
    }

    /// A Python script under `millrace exec` with the export at /db.
    fn python(&self, options: &str, script: &str) -> Command {
        let mut command = millrace();
        command.args(["exec", "--mount", &format!("/db={}{options}", self.filer.url), "--"]).arg(&self.python);
        command.args(["-c", script]).env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
        command.env("MILLRACE_RUNTIME_DIR", &self.runtime);
        command
    }

    /// A program that has opened a file and executes lines until its stdin ends.
    fn user(&self, options: &str) -> User {
        let script = format!("import os, sys\nf = os.open('/db/f', os.O_RDWR | os.O_CREAT)\n{}", User::SCRIPT);
        self.user_by(self.python(options, &script))
    }

    fn user_by(&self, mut command: Command) -> User {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        User { child, answers }
    }

    fn await_commit(&self) {
        // A COMMIT that the server refused does not count.
        await_until("a COMMIT", SOON, || {
            let commits = &self.filer.admin(r#"{"op":"stats"}"#)["procedures"]["COMMIT"];
            (commits["calls"].as_u64() > commits["errors"].as_u64()).then_some(())
        });
    }

    fn cut(&self) {
        assert_eq!(self.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    }

    /// Length of a file as the host sees it.
    fn length(&self, name: &str) -> usize {
        std::fs::metadata(self.filer.export().join(name)).map_or(0, |found| found.len() as usize)
    }

    fn await_keepers(&self, count: usize) -> Vec<u32> {
        await_until(&format!("{count} keepers"), SOON, || Some(keepers::of(self.filer.port)).filter(|found| found.len() == count))
    }
}

/// A running program. Dropping it kills the program.
struct User {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl User {
    const SCRIPT: &str = "print('ready', flush=True)\nfor line in sys.stdin:\n  exec(line)\n  print('done', flush=True)\n";

    fn await_line(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program ended");
    }

    fn order(&mut self, statement: &str) {
        self.child.stdin.as_mut().unwrap().write_all(format!("{statement}\n").as_bytes()).unwrap();
        self.await_line();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The script that a package runs before its removal.
#[test]
#[ignore = "nightly: twenty seconds of waiting for keepers"]
fn shared_memory_that_programs_use_stays_and_they_are_named_until_they_end() {
    let Some(world) = World::new("forget-segments") else { return };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dist/forget-segments");
    let forget = || Command::new(&script).arg(world.runtime.parent().unwrap()).output().unwrap();
    let mut user = world.user("");
    user.await_line();
    let refused = forget();
    let said = crate::support::text(&refused);
    assert!(refused.status.success(), "{said}");
    assert!(said.contains("still in use by ") && said.contains(&format!("(pid {})", user.child.id())), "{said}");
    assert!(world.runtime.is_dir());
    drop(user.child.stdin.take());
    user.child.wait().unwrap();
    await_until("the shared memory to be forgotten", SOON, || {
        forget();
        (!world.runtime.exists()).then_some(())
    });
}

/// The same script, after a keeper was killed before it had saved everything.
#[test]
fn shared_memory_with_data_that_no_keeper_saved_stays_and_is_named() {
    let Some(mut world) = World::new("forget-unsaved") else { return };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dist/forget-segments");
    let mut user = world.user("");
    user.await_line();
    world.filer.kill();
    user.kill();
    keepers::end(world.filer.port);
    let refused = Command::new(&script).arg(world.runtime.parent().unwrap()).output().unwrap();
    let said = crate::support::text(&refused);
    assert!(said.contains("may hold written data that the server does not have"), "{said}");
    assert!(world.runtime.is_dir(), "{said}");
    world.filer.restart();
    assert!(world.python("", "import os; os.stat('/db/f')").status().unwrap().success());
    await_until("the shared memory to be forgotten", SOON, || {
        Command::new(&script).arg(world.runtime.parent().unwrap()).output().unwrap();
        (!world.runtime.exists()).then_some(())
    });
}

/// A writer with much data asks the keeper for COMMITs. While the keeper is stopped or killed, the
/// writer sends them itself.
#[test]
fn a_writer_of_more_than_is_kept_goes_on_whatever_becomes_of_the_keeper_and_loses_nothing() {
    let Some(world) = World::new("keeper-space") else { return };
    let script = "import os, sys
f = os.open('/db/f', os.O_RDWR | os.O_CREAT)
for part in range(4):
    print(part, flush=True); sys.stdin.readline()
    for n in range(64): os.write(f, bytes([part * 64 + n]) * 65536)
os.fsync(f)";
    let mut user = world.user_by(world.python("&retain=1MiB", script));
    let begins = |user: &mut User, part: usize| {
        let mut line = String::new();
        user.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), part.to_string());
    };
    begins(&mut user, 0);
    let keeper = world.await_keepers(2)[0];
    let go_on = |user: &mut User| user.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    go_on(&mut user);
    begins(&mut user, 1);
    // Of 4 MiB at most the last one is kept, and a COMMIT frees at most what is kept.
    assert!(world.filer.calls("COMMIT") >= 3, "1 MiB is kept of 4");
    world.cut();
    let stop = |signal: &str| assert!(Command::new("kill").args([signal, &keeper.to_string()]).status().unwrap().success());
    stop("-STOP");
    go_on(&mut user);
    begins(&mut user, 2);
    stop("-CONT");
    keepers::kill(keeper);
    go_on(&mut user);
    begins(&mut user, 3);
    world.cut();
    go_on(&mut user);
    assert!(user.child.wait().unwrap().success());
    world.cut();
    let bytes = std::fs::read(world.filer.export().join("f")).unwrap();
    assert_eq!(bytes.len(), 256 * 65536);
    assert!(bytes.chunks(65536).zip(0..=u8::MAX).all(|(chunk, number)| chunk.iter().all(|byte| *byte == number)));
}

#[test]
fn what_a_program_wrote_and_did_not_close_is_stable_soon_after_its_end_by_exit_kill_or_exec() {
    for (way, end) in [("exit", "os._exit(0)"), ("kill", "os.kill(os.getpid(), 9)"), ("exec", "os.execv('/bin/true', ['true'])")]
    {
        for options in ["", "&retain=0"] {
            let Some(world) = World::new(&format!("keeper-{way}")) else { return };
            let script = format!("import os\nf = os.open('/db/f', os.O_RDWR | os.O_CREAT)\nos.write(f, b'x' * {BYTES})\n{end}");
            let ended = world.python(options, &script).status().unwrap();
            assert_eq!(ended.success(), way != "kill", "{way}");
            world.await_commit();
            world.cut();
            let stats = world.filer.admin(r#"{"op":"stats"}"#);
            assert_eq!(world.length("f"), BYTES, "{way} {options}: {stats}");
        }
    }
}

#[test]
fn a_file_without_a_name_is_removed_though_nobody_is_left_after_its_last_holder_was_killed() {
    let Some(world) = World::new("keeper-hidden") else { return };
    let mut user = world.user("");
    user.await_line();
    user.order("os.unlink('/db/f')");
    let has_hidden = || {
        let mut names = std::fs::read_dir(world.filer.export()).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with(".nfs"))
    };
    assert!(has_hidden());
    user.kill();
    await_until("the hidden name to be gone", SOON, || (!has_hidden()).then_some(()));
}

#[test]
fn what_was_written_is_committed_by_age_while_its_file_stays_open() {
    let Some(world) = World::new("keeper-age") else { return };
    for options in ["", "&close=nothing"] {
        let commits = world.filer.calls("COMMIT");
        let mut command =
            world.python(options, &format!("import os, sys\nf = os.open('/db/f', os.O_RDWR | os.O_CREAT)\n{}", User::SCRIPT));
        let mut user = world.user_by({
            command.env("MILLRACE_DIRTY_EXPIRE_MS", "1500");
            command
        });
        user.await_line();
        user.order("os.write(f, b'x')");
        await_until("a COMMIT", SOON, || (world.filer.calls("COMMIT") > commits).then_some(()));
        user.kill();
        keepers::end(world.filer.port); // the next keeper gets the new age
    }
}

#[test]
#[ignore = "nightly: fifteen seconds of waiting for keepers"]
fn keepers_that_are_killed_in_turn_are_replaced_and_the_last_one_does_the_work() {
    let Some(world) = World::new("keeper-killed") else { return };
    let mut user = world.user("");
    user.await_line();
    for round in 0..20 {
        let both = world.await_keepers(2);
        keepers::kill(both[round % 2]); // alternately the keeper and the one that waits
        await_until("its end", SOON, || (!keepers::of(world.filer.port).contains(&both[round % 2])).then_some(()));
    }
    user.order(&format!("os.write(f, b'x' * {BYTES})"));
    user.kill();
    world.await_commit();
    world.cut();
    assert_eq!(world.length("f"), BYTES);
}

#[test]
fn keepers_end_when_nobody_uses_the_mount_and_when_its_directory_is_removed() {
    let Some(world) = World::new("keeper-end") else { return };
    let mut user = world.user("");
    user.await_line();
    world.await_keepers(2);
    drop(user);
    world.await_keepers(0);

    let mut user = world.user("");
    user.await_line();
    world.await_keepers(2);
    user.order(&format!("os.write(f, b'x' * {BYTES})")); // so that the keeper would have work
    // A keeper that begins to wait may create its lock file at the same time.
    let is_gone = || std::fs::remove_dir_all(&world.runtime).map_or_else(|error| error.kind() == ErrorKind::NotFound, |()| true);
    await_until("the directory to be removed", SOON, || is_gone().then_some(()));
    world.await_keepers(0);
}

#[test]
fn a_keeper_has_a_session_of_its_own_and_no_descriptor_but_the_null_device_and_its_own() {
    let Some(world) = World::new("keeper-alone") else { return };
    let mut user = world.user("");
    user.await_line();
    // A keeper that was just forked still has the image of its parent, and is in its session.
    let leads = |pid: &u32| keepers::stat(*pid).is_some_and(|stat| stat[3] == pid.to_string());
    let both = await_until("two keepers, each of a session of its own", SOON, || {
        Some(keepers::of(world.filer.port)).filter(|found| found.len() == 2 && found.iter().all(leads))
    });
    for pid in both {
        let standard = (0..3).map(|fd| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap());
        assert!(standard.into_iter().all(|target| target == std::path::Path::new("/dev/null")));
        let pipes =
            std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let foreign: Vec<_> = pipes.filter(|target| target.to_string_lossy().starts_with("pipe:")).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), std::path::Path::new("/"));
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains("LD_PRELOAD"));
    }
}

#[test]
fn a_postmaster_sees_no_child_that_it_did_not_start_and_no_keeper_stays_a_zombie() {
    let Some(programs) = server_programs() else {
        skip("PostgreSQL server programs are not installed");
        return;
    };
    let scratch = Scratch::new("keeper-postgres");
    let filer = Filer::start(&scratch, &[]);
    let cluster = RemoteCluster::create(&scratch, &filer, &programs, "");
    cluster.start();
    cluster.sql("create table t as select generate_series(1, 1000)");
    await_until("two keepers", SOON, || (keepers::of(filer.port).len() == 2).then_some(()));
    let zombies: Vec<_> =
        cluster.pids().into_iter().filter(|pid| keepers::stat(*pid).is_some_and(|stat| stat[0] == "Z")).collect();
    assert!(zombies.is_empty(), "{zombies:?}");
    let servers = cluster.pids();
    for pid in keepers::of(filer.port) {
        let parent: u32 = keepers::stat(pid).unwrap()[1].parse().unwrap();
        assert!(!servers.contains(&parent), "a keeper is a child of {parent}");
        keepers::kill(pid);
    }
    cluster.sql("checkpoint");
    cluster.stop("fast");
    let log = std::fs::read_to_string(filer.export().join("log")).unwrap();
    assert!(!log.contains("untracked") && !log.contains("unknown child"), "{log}");
}
