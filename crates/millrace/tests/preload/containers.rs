//! Programs of two containers. Each container has its own runtime directory, as with its own
//! /dev/shm, or both share one.

use crate::support::world::World;
use crate::support::{await_until, find_program, is_root, keepers, may_make_namespaces, skip, skip_unsupported, succeed, text};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A program in a container that executes lines of Python and answers each with a line.
struct Container {
    program: Child,
    told: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

const LOOP: &str = "import fcntl, os, sys, time\nfor line in sys.stdin:\n try: print(repr(eval(line)), flush=True)\n \
                    except Exception as error: print(repr(error), flush=True)\n";

impl Container {
    fn start(mut command: Command) -> Self {
        let mut program = command.args(["-c", LOOP]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, answers) = (program.stdin.take(), BufReader::new(program.stdout.take().unwrap()));
        Self { program, told, answers }
    }

    /// The value of the expression in the container.
    fn ask(&mut self, expression: &str) -> String {
        writeln!(self.told.as_mut().unwrap(), "{expression}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn end(mut self) {
        drop(self.told.take());
        assert!(self.program.wait().unwrap().success());
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A runtime directory for one user.
fn runtime(world: &World, name: &str) -> PathBuf {
    let folder = world.scratch.path().join(name);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

/// A command that runs Python in a container.
fn python(world: &World, options: &str, runtime_name: &str) -> Option<Command> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec_with(options, python.to_str().unwrap());
    command.env("MILLRACE_RUNTIME_DIR", runtime(world, runtime_name));
    Some(command)
}

#[test]
fn with_noac_programs_of_two_containers_see_each_others_changes_at_once() {
    let world = World::new("containers-noac");
    let start = |name| python(&world, "&noac", name).map(Container::start);
    let (Some(mut one), Some(mut other)) = (start("one"), start("other")) else { return };
    for program in [&mut one, &mut other] {
        assert_eq!(program.ask("os.open('/db/f', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)"), "3");
    }
    for round in 0..20 {
        assert_eq!(one.ask("os.write(3, b'one')"), "3");
        assert_eq!(other.ask("(os.fstat(3).st_size, os.lseek(3, 0, 2))"), format!("({0}, {0})", round * 8 + 3));
        assert_eq!(other.ask("os.write(3, b'other')"), "5");
        assert_eq!(one.ask("os.pread(3, 8, os.fstat(3).st_size - 8)"), "b'oneother'");
    }
    assert_eq!(one.ask("os.ftruncate(3, 4)"), "None");
    assert_eq!(other.ask("(os.fstat(3).st_size, os.pread(3, 100, 0))"), "(4, b'oneo')");
    assert_eq!(other.ask("os.write(3, b'!')"), "1");
    assert_eq!(one.ask("(os.stat('/db/f').st_size, os.pread(3, 100, 0))"), "(5, b'oneo!')");
    assert_eq!(one.ask("os.mkdir('/db/d') or os.rename('/db/f', '/db/d/g')"), "None");
    assert_eq!(other.ask("(os.listdir('/db'), os.listdir('/db/d'), os.path.exists('/db/f'))"), "(['d'], ['g'], False)");
    assert_eq!(other.ask("os.rename('/db/d', '/db/e')"), "None");
    assert_eq!(one.ask("(os.path.exists('/db/d/g'), open('/db/e/g').read())"), "(False, 'oneo!')");
    assert_eq!(other.ask("os.fchmod(3, 0o600)"), "None");
    assert_eq!(one.ask("oct(os.fstat(3).st_mode)"), "'0o100600'");
    assert_eq!(one.ask("os.unlink('/db/e/g')"), "None");
    assert_eq!(other.ask("os.path.exists('/db/e/g')"), "False");
    assert_eq!(other.ask("os.fstat(3).st_size"), "5", "it lives as long as the one who removed it has it open");
    assert_eq!(one.ask("os.close(3)"), "None");
    assert_eq!(other.ask("os.fstat(3)"), "OSError(116, 'Stale file handle')", "as on a kernel mount of another host");
    other.end();
    one.end();
    world.nothing_left_behind();
}

/// The command in its own PID namespace, after a script that is the namespace's first process. The
/// whole namespace ends when that process is killed.
fn apart(command: &Command, script: &str, arguments: &[&str]) -> Command {
    let mut apart = Command::new("unshare");
    // The arguments of `timeout` are left out: it would be another process to kill.
    apart.args(["--pid", "--mount-proc", "--kill-child", "--fork", "sh", "-ec", script, "sh"]).args(arguments);
    apart.args(command.get_args().skip(3));
    apart.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    apart
}

const AS_IT_IS: &str = "exec \"$@\"";

#[test]
fn containers_with_one_runtime_directory_exclude_each_other_and_look_after_what_a_killed_one_left() {
    if !may_make_namespaces() {
        return;
    }
    let world = World::new("containers-shared");
    let start = || python(&world, "", "shared").map(|command| Container::start(apart(&command, AS_IT_IS, &[])));
    let opened = "os.open('/db/f', os.O_RDWR | os.O_CREAT, 0o644)";
    let Some(mut one) = start() else { return };
    assert_eq!(one.ask(opened), "3");
    await_until("the keepers of the first", Duration::from_secs(20), || (keepers::of(world.filer.port).len() == 2).then_some(()));
    let Some(mut other) = start() else { return };
    assert_eq!(other.ask(opened), "3");
    assert_eq!((one.ask("os.getpid()"), other.ask("os.getpid()")), ("1".into(), "1".into()), "namespaces of their own");
    // Both containers see the same sizes and exclude each other's locks.
    assert_eq!(one.ask("os.write(3, b'unstable')"), "8");
    assert_eq!(other.ask("(os.fstat(3).st_size, os.pread(3, 8, 0))"), "(8, b'unstable')");
    for (lock, unlock) in [
        ("fcntl.lockf(3, fcntl.LOCK_EX | fcntl.LOCK_NB)", "fcntl.lockf(3, fcntl.LOCK_UN)"),
        ("fcntl.flock(3, fcntl.LOCK_EX | fcntl.LOCK_NB)", "fcntl.flock(3, fcntl.LOCK_UN)"),
    ] {
        assert_eq!(one.ask(lock), "None");
        assert_eq!(other.ask(lock), "BlockingIOError(11, 'Resource temporarily unavailable')", "{lock}");
        assert_eq!(one.ask(unlock), "None");
        assert_eq!(other.ask(lock), "None", "{lock}");
        assert_eq!(other.ask(unlock), "None");
        assert_eq!(one.ask(lock), "None");
    }
    // A removed file that is open, and a file that only the first container has open. Then the
    // first container is killed with its keepers.
    assert_eq!(one.ask("os.open('/db/gone', os.O_RDWR | os.O_CREAT)"), "4");
    assert_eq!(one.ask("os.unlink('/db/gone') or os.open('/db/left', os.O_RDWR | os.O_CREAT, 0o644)"), "5");
    assert_eq!(one.ask("os.write(5, b'left')"), "4");
    let commits = world.filer.calls("COMMIT");
    drop(one);
    await_until("a COMMIT of what it had written", Duration::from_secs(20), || {
        (world.filer.calls("COMMIT") > commits).then_some(())
    });
    let is_hidden = |name: &std::fs::DirEntry| name.file_name().to_string_lossy().starts_with(".nfs");
    let hidden = || std::fs::read_dir(world.filer.export()).unwrap().flatten().any(|name| is_hidden(&name));
    await_until("the removal of the file without a name", Duration::from_secs(20), || (!hidden()).then_some(()));
    for lock in ["fcntl.lockf(3, fcntl.LOCK_EX | fcntl.LOCK_NB)", "fcntl.flock(3, fcntl.LOCK_EX | fcntl.LOCK_NB)"] {
        assert_eq!(other.ask(lock), "None", "a lock of who was killed is gone");
    }
    assert_eq!(other.ask("open('/db/left').read()"), "'left'");
    // The next container is served as well, and locks of ended namespaces do not accumulate.
    let Some(mut next) = start() else { return };
    assert_eq!(next.ask("open('/db/f').read()"), "'unstable'");
    next.end();
    other.end();
}

/// The container has its own /dev/shm, which ends with it.
#[test]
fn a_container_that_is_killed_as_a_whole_loses_no_completed_write_older_than_50_ms() {
    if !may_make_namespaces() || !is_root() {
        return skip_unsupported("no root, or no namespaces");
    }
    const OWN: &str = "mount -t tmpfs -o mode=1777 none /dev/shm; exec \"$@\"";
    const LINES: &str = "len([os.write(3, b'acknowledged line\\n') for n in range(100)])";
    let world = World::new("containers-killed");
    let Some(command) = python(&world, "", "unused") else { return };
    let mut one = Container::start({
        let mut command = apart(&command, OWN, &[]);
        command.env_remove("MILLRACE_RUNTIME_DIR");
        command
    });
    assert_eq!(one.ask("os.open('/db/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)"), "3");
    let stored = || std::fs::metadata(world.filer.export().join("log")).unwrap().len();
    let mut written = 0;
    let mut ages = Vec::new();
    for _ in 0..15 {
        assert_eq!(one.ask(LINES), "100");
        written += 1800;
        let since = Instant::now();
        while stored() < written {
            assert!(since.elapsed() < Duration::from_secs(20), "{} of {written} bytes", stored());
            std::thread::sleep(Duration::from_millis(1));
        }
        ages.push(since.elapsed());
    }
    ages.sort();
    assert!(ages[ages.len() / 2] <= Duration::from_millis(50), "{ages:?}");
    let mut completed = Vec::new();
    for _ in 0..20 {
        assert_eq!(one.ask(&format!("time.sleep(0.02) or {LINES}")), "100");
        written += 1800;
        completed.push((Instant::now(), written));
    }
    let killed = Instant::now();
    drop(one);
    // The keeper may have to wait for a processor.
    let old_enough = completed.iter().rev().find(|(at, _)| killed - *at > Duration::from_millis(100));
    let (kept, expected) = (stored(), old_enough.map_or(0, |(_, written)| *written));
    assert!(kept >= expected, "{kept} of {written} bytes, {expected} of them older than 100 ms");
}

/// Other files fill the file system of the runtime directory, which is as large as a container's /dev/shm.
#[test]
fn a_full_dev_shm_kills_no_program_and_is_named_with_what_helps() {
    if !may_make_namespaces() || !is_root() {
        return skip_unsupported("no root, or no namespaces");
    }
    let world = World::new("containers-full");
    let Some(command) = python(&world, "", "full") else { return };
    let folder = runtime(&world, "full");
    let script = "
import os, subprocess
with open('FOLDER/fill', 'wb', 0) as fill:
    try:
        while True: fill.write(b'x' * 4096)
    except OSError as error: print(error.strerror)
os.mkdir('/db/d')
for n in range(600): open(f'/db/d/{n}', 'w').write(str(n))
print(len(os.listdir('/db/d')), open('/db/d/599').read())
held = []
try:
    for n in range(600): held.append(open(f'/db/d/{n}'))
except OSError as error: print(error.strerror, 200 < len(held) < 300)
print(held[7].read())
held.clear()
with open('/db/large', 'wb') as large:
    for n in range(32): large.write(b'y' * 1048576)
    os.fsync(large.fileno())
print(os.path.getsize('/db/large'))
os.unlink('FOLDER/fill')
held = [open(f'/db/d/{n}') for n in range(600)]
print(len(held))
"
    .replace("FOLDER", folder.to_str().unwrap());
    let small = "mount -t tmpfs -o size=3m,mode=700 none \"$1\"; shift; exec \"$@\"";
    let output = apart(&command, small, &[folder.to_str().unwrap()]).args(["-c", &script]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let expected = "No space left on device\n600 599\nNo space left on device True\n7\n33554432\n600\n";
    assert_eq!(told, expected, "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said.matches("cannot find memory for more files of the shared segment: No space left on device").count(),
        1,
        "{said}"
    );
    assert_eq!(said.matches("written data is not kept until COMMIT").count(), 1, "{said}");
    assert_eq!(said.matches("--shm-size").count(), 2, "{said}");
}

/// As Kubernetes' restricted profile and OpenShift run a container: a uid without a name, no
/// capability, a read-only root file system, and a /dev/shm of 64 MiB.
#[test]
fn an_arbitrary_uid_without_capabilities_on_a_read_only_root_has_its_mount() {
    if !may_make_namespaces() || !is_root() || find_program("setpriv").is_none() {
        return skip_unsupported("no root, no namespaces, or no setpriv");
    }
    let world = World::new("containers-uid");
    std::os::unix::fs::chown(world.filer.export(), Some(47_110), Some(47_110)).unwrap();
    let script = "mount -t tmpfs -o size=64m,mode=1777 none /dev/shm; mount -o remount,bind,ro /; exec setpriv --reuid 47110 --regid 47110 \
                  --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs env -u HOME -u USER \"$@\"";
    let work = "touch /var/tmp/x 2>&1; grep CapEff /proc/self/status; id -u; echo here >/db/f; sync /db/f; cat /db/f; stat -c %u /db/f; \
                ls /dev/shm";
    let told = succeed(apart(world.exec("/bin/sh").args(["-c", work]), script, &[]).env_remove("MILLRACE_RUNTIME_DIR"));
    let expected = "touch: cannot touch '/var/tmp/x': Read-only file system\nCapEff:\t0000000000000000\n47110\nhere\n47110\nmillrace-47110\n";
    assert_eq!(told, expected);
}
