//! Several users on one mount share its locks and its state of each file. Every call has the
//! credentials of its caller.

use crate::support::filer::Filer;
use crate::support::{
    Scratch, await_until, environment_number, is_root, millrace, preload_library, share_with_group, skip, succeed, text,
};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const ALICE: u32 = 4001;
const BOB: u32 = 4002;
/// The group of both users.
const TEAM: u32 = 4100;

/// A filer, and a runtime directory that the group shares.
struct World {
    filer: Filer,
    runtime: tempfile::TempDir,
    query: &'static str,
    python: PathBuf,
    _scratch: Scratch,
}

impl World {
    /// `None`, with a message, if this host cannot run the test.
    fn new(label: &str, filer_options: &[&str], query: &'static str) -> Option<Self> {
        if !is_root() {
            skip("only root can be several users");
            return None;
        }
        // The distribution's Python, which every user may run.
        let python = PathBuf::from("/usr/bin/python3");
        if !python.is_file() {
            skip("no /usr/bin/python3");
            return None;
        }
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, filer_options);
        std::fs::set_permissions(filer.export(), PermissionsExt::from_mode(0o777)).unwrap();
        let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
        share_with_group(runtime.path(), TEAM);
        Some(Self { filer, runtime, query, python, _scratch: scratch })
    }

    /// `millrace exec … python3 -c script` as this user, who is in the group.
    fn python(&self, uid: u32, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        let id = uid.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--groups", &TEAM.to_string()]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.runtime.path()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}{}", self.filer.url, self.query), "--"]).arg(&self.python);
        command.args(["-c", script]);
        command
    }

    fn run(&self, uid: u32, script: &str) -> String {
        succeed(&mut self.python(uid, script))
    }

    fn on_disk(&self, name: &str) -> std::fs::Metadata {
        std::fs::metadata(self.filer.export().join(name)).unwrap()
    }
}

#[test]
fn one_sqlite_database_with_writers_of_two_users_is_whole() {
    sqlite("users-sqlite", environment_number("MILLRACE_SECONDS").unwrap_or(4));
}

#[test]
#[ignore = "nightly: a minute"]
fn one_sqlite_database_with_writers_of_two_users_is_whole_after_a_minute() {
    sqlite("users-sqlite-long", 60);
}

fn sqlite(label: &str, seconds: u64) {
    let Some(world) = World::new(label, &[], "") else { return };
    world.run(
        ALICE,
        "import sqlite3, os; c = sqlite3.connect('/db/d'); c.execute('create table t(who int, n int, primary key(who, n))'); \
         c.commit(); os.chmod('/db/d', 0o666); os.mkdir('/db/x')",
    );
    let writer = format!(
        "import sqlite3, os, time, sys
os.umask(0)
c = sqlite3.connect('/db/d', timeout=60, isolation_level=None)
n, end = 0, time.monotonic() + {seconds}
while time.monotonic() < end:
    c.execute('begin immediate')
    c.execute('insert into t values (?, ?)', (os.getuid(), n))
    c.execute('commit')
    n += 1
print(n)"
    );
    let mut writers: Vec<_> = [ALICE, BOB, ALICE, BOB]
        .into_iter()
        .enumerate()
        .map(|(number, uid)| {
            let script = writer.replace("os.getuid()", &format!("{number} * 10000 + os.getuid()"));
            world.python(uid, &script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<Output> = writers.drain(..).map(|writer| writer.wait_with_output().unwrap()).collect();
    let mut written = 0;
    for output in ended {
        assert!(output.status.success(), "{}", text(&output));
        let count: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        assert!(count > 0, "a writer got no turn");
        written += count;
    }
    let seen = world.run(
        BOB,
        "import sqlite3; c = sqlite3.connect('/db/d'); \
         print(c.execute('pragma integrity_check').fetchone()[0], c.execute('select count(*) from t').fetchone()[0])",
    );
    assert_eq!(seen.trim(), format!("ok {written}"));
}

/// A running script that has printed "ready" and waits for a line.
struct Waiting(std::process::Child);

impl Waiting {
    /// Starts `script` and waits until it calls `ready()`, which prints that and waits.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 6];
        let read = child.stdout.as_mut().unwrap().read_exact(&mut said);
        if read.is_err() || said != *b"ready\n" {
            panic!("{}", text(&child.wait_with_output().unwrap()));
        }
        Self(child)
    }

    /// Lets the script run to its end. Returns its output.
    fn finish(self) -> String {
        let output = self.0.wait_with_output().unwrap(); // closes its standard input
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Defines `ready()`.
const READY: &str = "import fcntl, os, subprocess, sys\ndef ready():\n    os.write(1, b'ready\\n'); sys.stdin.readline()\n";

#[test]
fn record_locks_and_flocks_of_users_exclude_each_other_and_sizes_are_one() {
    let Some(world) = World::new("users-locks", &[], "") else { return };
    let holder = "os.umask(0o077)
f = open('/db/f', 'wb'); os.chmod('/db/f', 0o666)
f.write(b'x' * 5000); f.flush()
fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX)
ready()";
    let holder = Waiting::start(&mut world.python(ALICE, &format!("{READY}{holder}")));
    let asker = "import fcntl
f = open('/db/f', 'rb+')
for lock in fcntl.lockf, fcntl.flock:
    try: lock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
    except BlockingIOError: print('taken')
print(f.seek(0, 2))";
    assert_eq!(world.run(BOB, asker), "taken\ntaken\n5000\n");
    holder.finish();
    assert_eq!(world.run(BOB, asker), "free\nfree\n5000\n");
}

#[test]
fn a_program_that_gives_up_root_keeps_what_it_has_open_and_is_its_user_for_all_else() {
    let Some(world) = World::new("users-drop", &[], "") else { return };
    let script = format!(
        "import errno, os, subprocess, sys
os.mkdir('/db/his'); os.chown('/db/his', {ALICE}, {ALICE})
log = os.open('/db/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
secret = os.open('/db/secret', os.O_RDWR | os.O_CREAT, 0o600); os.write(secret, b'secret')
os.setgroups([{TEAM}]); os.setgid({ALICE}); os.setuid({ALICE})
os.write(log, b'in process\\n')
assert os.pread(secret, 6, 0) == b'secret'
os.close(os.open('/db/his/mine', os.O_WRONLY | os.O_CREAT, 0o644))
def refused(call, *arguments):
    try: call(*arguments)
    except OSError as e: return e.errno in (errno.EACCES, errno.EPERM)
assert refused(os.open, '/db/secret', os.O_RDONLY)
assert refused(os.open, '/db/secret', os.O_WRONLY)
assert refused(os.fchmod, secret, 0o666), 'the right to that is not the descriptor\\'s'
os.fsync(log)
child = 'import os, sys; os.write(int(sys.argv[1]), b\"in child\\\\n\"); os.fsync(int(sys.argv[1]))'
subprocess.run([sys.executable, '-c', child, str(log)], pass_fds=[log], check=True)"
    );
    world.run(0, &script);
    assert_eq!(std::fs::read(world.filer.export().join("log")).unwrap(), b"in process\nin child\n");
    assert_eq!((world.on_disk("his/mine").uid(), world.on_disk("log").uid()), (ALICE, 0));
    assert_eq!(world.on_disk("secret").mode() & 0o777, 0o600);
}

#[test]
fn a_program_that_gives_up_root_by_the_numbers_of_the_calls_is_its_user_too() {
    let Some(world) = World::new("users-numbers", &[], "") else { return };
    let numbers = [libc::SYS_setgroups, libc::SYS_setresgid, libc::SYS_setresuid].map(|number| number.to_string()).join(", ");
    let script = format!(
        "import ctypes, os
call = ctypes.CDLL(None).syscall
groups, gid, uid = {numbers}
os.close(os.open('/db/root', os.O_WRONLY | os.O_CREAT, 0o600))
assert call(groups, 1, (ctypes.c_uint32 * 1)({TEAM})) == 0
assert call(gid, {ALICE}, {ALICE}, {ALICE}) == 0 and call(uid, {ALICE}, {ALICE}, {ALICE}) == 0
os.close(os.open('/db/alice', os.O_WRONLY | os.O_CREAT, 0o600))
try: os.open('/db/root', os.O_RDONLY)
except PermissionError: pass
else: raise SystemExit('still root')"
    );
    world.run(0, &script);
    assert_eq!((world.on_disk("root").uid(), world.on_disk("alice").uid(), world.on_disk("alice").gid()), (0, ALICE, ALICE));
}

#[test]
fn a_server_process_that_changes_its_user_for_each_request_is_that_user() {
    let Some(world) = World::new("users-toggle", &[], "") else { return };
    let script = format!(
        "import os
os.setgroups([{TEAM}])
for turn in range(20):
    uid = [{ALICE}, {BOB}][turn % 2]
    os.setegid(uid); os.seteuid(uid)
    os.close(os.open(f'/db/{{turn}}', os.O_WRONLY | os.O_CREAT, 0o600))
    os.seteuid(0); os.setegid(0)
os.close(os.open('/db/root', os.O_WRONLY | os.O_CREAT, 0o600))"
    );
    world.run(0, &script);
    for turn in 0..20 {
        let made = world.on_disk(&turn.to_string());
        let user = if turn % 2 == 0 { ALICE } else { BOB };
        assert_eq!((made.uid(), made.gid()), (user, user));
    }
    assert_eq!(world.on_disk("root").uid(), 0);
}

#[test]
fn sync_by_a_user_who_may_not_write_a_file_commits_it_and_takes_nothing_for_lost() {
    for query in ["&close=nothing", "&close=nothing&retain=0"] {
        let Some(world) = World::new("users-sync", &["--loss-layer"], query) else { return };
        let writer = "f = os.open('/db/f', os.O_RDWR | os.O_CREAT, 0o600); os.write(f, b'mine'); ready(); os.fsync(f)";
        let writer = Waiting::start(&mut world.python(ALICE, &format!("{READY}{writer}")));
        world.run(BOB, "import os; os.stat('/db'); os.sync()");
        assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
        writer.finish();
        assert_eq!(std::fs::read(world.filer.export().join("f")).unwrap(), b"mine", "{query}");
    }
}

#[test]
fn a_reader_who_may_not_write_reads_what_another_user_has_not_committed() {
    for query in ["&close=nothing", "&close=nothing&retain=0"] {
        let Some(world) = World::new("users-read", &[], query) else { return };
        let writer = "f = os.open('/db/f', os.O_RDWR | os.O_CREAT, 0o644); os.write(f, b'mine'); ready(); os.fsync(f)";
        let writer = Waiting::start(&mut world.python(ALICE, &format!("{READY}{writer}")));
        let read = "import os; f = os.open('/db/f', os.O_RDONLY); print(os.read(f, 9)); os.fsync(f)";
        assert_eq!(world.run(BOB, read), "b'mine'\n", "{query}");
        writer.finish();
    }
}

#[test]
fn a_file_unlinked_by_one_user_while_open_to_another_is_removed_at_its_last_close() {
    let Some(world) = World::new("users-hidden", &[], "") else { return };
    let directory =
        "import os; os.umask(0); os.mkdir('/db/d', 0o755); os.close(os.open('/db/d/f', os.O_CREAT | os.O_RDWR, 0o666))";
    world.run(ALICE, directory);
    let user = "f = os.open('/db/d/f', os.O_RDWR); ready(); os.write(f, b'still there'); print(os.pread(f, 20, 0))";
    let user = Waiting::start(&mut world.python(BOB, &format!("{READY}{user}")));
    world.run(ALICE, "import os; os.unlink('/db/d/f'); assert os.listdir('/db/d') == []");
    assert_eq!(user.finish(), "b'still there'\n");
    let left = || std::fs::read_dir(world.filer.export().join("d")).unwrap().count();
    await_until("the hidden name to be removed", Duration::from_secs(20), || (left() == 0).then_some(()));
}

#[test]
fn a_user_may_link_to_anothers_file_only_as_the_hosts_kernel_would_let_him() {
    let Some(world) = World::new("users-link", &[], "") else { return };
    let files = "import os; os.umask(0)
for name, mode in ('private', 0o600), ('read', 0o644), ('shared', 0o666), ('setuid', 0o4666), ('setgid', 0o2676):
    os.close(os.open(f'/db/{name}', os.O_CREAT | os.O_RDWR)); os.chmod(f'/db/{name}', mode)
os.symlink('shared', '/db/symlink')";
    world.run(ALICE, files);
    let links = "import os
for name in 'private', 'read', 'shared', 'setuid', 'setgid', 'symlink':
    try: os.link(f'/db/{name}', f'/db/link-{name}', follow_symlinks=False); print(name)
    except PermissionError as error: assert error.errno == 1, error";
    let local = Scratch::new("users-link-local");
    std::fs::set_permissions(local.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let by = |uid: u32, script: &str| {
        let script = script.replace("/db", local.path().to_str().unwrap());
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={uid}"), "--clear-groups"]).arg(&world.python).args(["-c", &script]);
        succeed(&mut command)
    };
    by(ALICE, files);
    let expected = by(BOB, links);
    assert_eq!(world.run(BOB, links), expected);
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap();
    assert_eq!(expected.lines().count(), if protected.trim() == "0" { 6 } else { 1 }, "{expected}");
    let all = "private\nread\nshared\nsetuid\nsetgid\nsymlink\n";
    assert_eq!(world.run(ALICE, &links.replace("link-", "own-")), all);
}

#[test]
fn o_direct_works_on_a_file_that_another_user_opened_first() {
    let Some(world) = World::new("users-direct", &["--loss-layer"], "") else { return };
    let first = "os.umask(0); f = os.open('/db/f', os.O_RDWR | os.O_CREAT, 0o666); ready()";
    let first = Waiting::start(&mut world.python(ALICE, &format!("{READY}{first}")));
    let direct = "f = os.open('/db/f', os.O_RDWR | os.O_DIRECT); os.pwrite(f, b'a' * 4096, 0)
g = os.open('/db/f', os.O_RDWR); fcntl.fcntl(g, fcntl.F_SETFL, os.O_DIRECT); os.pwrite(g, b'b' * 4096, 4096)
ready()";
    let direct = Waiting::start(&mut world.python(BOB, &format!("{READY}{direct}")));
    assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    let expected = [[b'a'; 4096], [b'b'; 4096]].concat();
    assert_eq!(std::fs::read(world.filer.export().join("f")).unwrap(), expected, "stable when the writes returned");
    direct.finish();
    first.finish();
}

#[test]
fn a_program_that_changes_its_user_without_a_group_is_told_what_to_do() {
    let Some(world) = World::new("users-alone", &[], "") else { return };
    std::fs::set_permissions(world.runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let script = format!("import os; os.stat('/db'); os.setgid({BOB}); os.setuid({BOB}); os.listdir('/db')");
    let output = world.python(0, &script).output().unwrap();
    assert!(!output.status.success());
    let said = text(&output);
    assert!(said.contains("belongs to another user") && said.contains("--group"), "{said}");
}

#[test]
fn a_user_who_mounts_what_another_has_mounted_apart_is_told_so_and_one_of_the_same_group_is_not() {
    let Some(world) = World::new("users-apart", &[], "") else { return };
    let holder = Waiting::start(&mut world.python(ALICE, &format!("{READY}open('/db/f', 'w').write('x'); ready()")));
    await_until("a keeper", Duration::from_secs(20), || {
        (!crate::support::keepers::of(world.filer.port).is_empty()).then_some(())
    });
    let told = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stderr)
            .contains(&format!("uid {ALICE} has this export mounted separately: file locks are not shared with it"))
    };
    let own = tempfile::tempdir().unwrap();
    std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(own.path(), Some(BOB), Some(BOB)).unwrap();
    let alone = || {
        let mut command = world.python(BOB, "");
        command.env("MILLRACE_RUNTIME_DIR", own.path());
        command
    };
    // A keeper publishes its name a moment after it has its lock.
    await_until("the warning", Duration::from_secs(20), || told(&mut alone()).then_some(()));
    assert!(!told(&mut world.python(BOB, "")), "they share the mount");
    holder.finish();
    // The keeper remains for some seconds. It holds no locks.
    let alone_said = told(&mut alone());
    assert!(!alone_said, "no program of the other user is left");
    crate::support::keepers::end(world.filer.port);
    await_until("no warning, as nobody else has it", Duration::from_secs(20), || (!told(&mut alone())).then_some(()));
}

#[test]
fn root_makes_the_directory_of_a_group_and_members_see_its_mounts() {
    let Some(world) = World::new("users-group", &[], "") else { return };
    // A group id that this host does not use.
    let group = 3_000_000 + std::process::id();
    let directory = PathBuf::from(format!("/dev/shm/millrace-group-{group}"));
    let mount = format!("/db={}", world.filer.url);
    let run = |user: &str, groups: u32, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--groups", &groups.to_string()]);
        command.arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
        command.env_remove("MILLRACE_RUNTIME_DIR"); // a run of all tests sets it
        command.args(arguments).output().unwrap()
    };
    let alice = ALICE.to_string();
    let group_text = group.to_string();
    let exec = |user: &str, groups: u32, script: &str| {
        let exec = ["exec", "--group", &group_text, "--mount", &mount, "--", world.python.to_str().unwrap(), "-c", script];
        run(user, groups, &exec)
    };
    for groups in [TEAM, group] {
        let refused = exec(&alice, groups, "");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused).contains("only root can make it for the group"), "{}", text(&refused));
        assert!(!directory.exists());
    }
    let by_root = exec("0", group, "");
    let done = exec(&alice, group, "import os; print(os.environ['MILLRACE_RUNTIME_DIR']); open('/db/f', 'w').write('x')");
    let counters = run(&alice, group, &["nfs", "counters", "--json"]);
    let no_member = run(&alice, TEAM, &["nfs", "counters", "--json"]);
    let made = std::fs::metadata(&directory);
    crate::support::keepers::end(world.filer.port);
    let given_up = run(&alice, group, &["nfs", "give-up", &mount["/db=".len()..]]);
    let _ = std::fs::remove_dir_all(&directory);
    assert!(by_root.status.success(), "{}", text(&by_root));
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(text(&done).trim(), directory.to_str().unwrap());
    assert!(counters.status.success() && text(&counters).contains(directory.to_str().unwrap()), "{}", text(&counters));
    assert!(!text(&no_member).contains(directory.to_str().unwrap()), "{}", text(&no_member));
    assert!(given_up.status.success() && text(&given_up).contains("gave up /db on"), "{}", text(&given_up));
    let made = made.unwrap();
    assert_eq!((made.mode() & 0o7777, made.uid(), made.gid()), (0o2770, 0, group));
}
