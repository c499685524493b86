//! All mounts of one file system by one user are one mount, also with another path, another
//! spelling of the server, or a directory of the export.

use crate::support::any_server::{AnyServer, Server, runtime, segments};
use crate::support::filer::Filer;
use crate::support::{Scratch, is_root, millrace, preload_library, skip, succeed, text};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Executes each line of stdin as Python, and prints the value of `answer`.
const LINES: &str = "import errno, fcntl, os, sqlite3, sys
names = {}
exec('def sql(db, text):\\n    return db.execute(text).fetchall()\\n', names)
exec('def lock(f):\\n    try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); return True\\n    except BlockingIOError: return False\\n', names)
names.update(os=os, fcntl=fcntl, sqlite3=sqlite3)
for line in sys.stdin:
    names['answer'] = None
    try: exec(line, names)
    except Exception as error: names['answer'] = repr(error)
    print(names['answer'], flush=True)";

/// A server with a directory in its export.
struct World {
    server: AnyServer,
}

impl World {
    fn new(label: &str) -> Self {
        Self::of(AnyServer::filer(label))
    }

    fn of(server: AnyServer) -> Self {
        std::fs::create_dir(server.export.join("d")).unwrap();
        Self { server }
    }

    fn url(&self) -> &str {
        &self.server.url
    }

    /// The URL of a directory in the export.
    fn below(&self, name: &str) -> String {
        let (path, query) = self.url().split_once('?').unwrap();
        format!("{path}/{name}?{query}")
    }

    /// Python under `millrace exec` with these mounts.
    fn python(&self, mounts: &[(&str, &str)]) -> Command {
        let mut command = self.server.command("timeout");
        command.args(["-k", "5", "60"]).arg(millrace().get_program());
        command
            .env("MILLRACE_PRELOAD", preload_library())
            .env("MILLRACE_RUNTIME_DIR", self.server.runtime.path())
            .current_dir("/");
        command.arg("exec");
        for (path, url) in mounts {
            command.args(["--mount", &format!("{path}={url}")]);
        }
        command.args(["--", "python3", "-c"]);
        command
    }

    fn program(&self, mounts: &[(&str, &str)]) -> Program {
        Program::start(self.python(mounts).arg(LINES))
    }

    /// Number of segments in the runtime directory.
    fn segments(&self) -> usize {
        segments(self.server.runtime.path())
    }
}

/// A Python process that executes one line at a time.
struct Program(Child, BufReader<ChildStdout>);

impl Program {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self(child, stdout)
    }

    fn does(&mut self, line: &str) -> String {
        writeln!(self.0.stdin.as_ref().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.1.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Two programs reach a file by different paths. They share uncommitted data, sizes and locks.
fn share_all(world: &World, one: (&'static str, &str), other: (&'static str, &str)) {
    // The directory is `/db/d` in a mount of the export, and `/sub` in a mount of its own.
    let mount = |(directory, url): (&'static str, &str)| (directory.strip_suffix("/d").unwrap_or(directory), url.to_owned());
    let program = |(path, url): (&str, String)| world.program(&[(path, &url)]);
    let (mut writer, mut reader) = (program(mount(one)), program(mount(other)));
    assert_eq!(writer.does(&format!("f = open('{}/f', 'wb+', 0); f.write(b'abc'); answer = lock(f)", one.0)), "True");
    assert_eq!(
        reader.does(&format!("g = open('{}/f', 'rb+', 0); answer = os.fstat(g.fileno()).st_size, g.read()", other.0)),
        "(3, b'abc')"
    );
    assert_eq!(reader.does("answer = lock(g)"), "False", "{other:?}");
    assert_eq!(reader.does("g.write(b'def'); answer = os.pread(g.fileno(), 9, 0)"), "b'abcdef'");
    assert_eq!(writer.does("answer = os.fstat(f.fileno()).st_size, os.pread(f.fileno(), 9, 0)"), "(6, b'abcdef')");
    assert_eq!(writer.does("fcntl.lockf(f, fcntl.LOCK_UN)"), "None");
    assert_eq!(reader.does("answer = lock(g)"), "True");
    assert_eq!(world.segments(), 1, "{other:?}");
}

#[test]
fn an_export_and_a_directory_in_it_and_each_spelling_of_the_server_are_one_mount() {
    let world = World::new("one-mount");
    let (sub, localhost) = (world.below("d"), world.url().replace("127.0.0.1", "localhost"));
    share_all(&world, ("/db/d", world.url()), ("/sub", &sub));
    share_all(&world, ("/sub", &sub), ("/other/d", &localhost));
    share_all(&world, ("/db/d", world.url()), ("/db/d", &localhost));
}

#[test]
fn with_ganesha_an_export_and_a_directory_in_it_are_one_mount() {
    let Some(world) = AnyServer::ganesha("one-mount-ganesha").map(World::of) else { return };
    share_all(&world, ("/db/d", world.url()), ("/sub", &world.below("d")));
    share_all(&world, ("/sub", &world.below("d")), ("/db/d", world.url()));
}

#[test]
fn sqlite_in_wal_mode_loses_nothing_by_two_paths_into_one_export() {
    let world = World::new("one-mount-wal");
    let sub = world.below("d");
    for (one, other) in [
        (("/db", world.url(), "/db/d/s.db"), ("/sub", sub.as_str(), "/sub/s.db")),
        (("/a", world.url(), "/a/t.db"), ("/b", world.url(), "/b/t.db")),
    ] {
        let (mut first, mut second) = (world.program(&[(one.0, one.1)]), world.program(&[(other.0, other.1)]));
        let open = |path: &str| {
            format!(
                "db = sqlite3.connect('{path}', timeout=20, isolation_level=None); answer = sql(db, 'pragma journal_mode=wal')"
            )
        };
        assert_eq!(first.does(&open(one.2)), "[('wal',)]");
        assert_eq!(first.does("sql(db, 'create table t(i integer primary key, v)')"), "None");
        assert_eq!(second.does(&open(other.2)), "[('wal',)]");
        for round in 0..5 {
            assert_eq!(first.does(&format!("answer = sql(db, 'insert into t values({}, zeroblob(3000))')", 2 * round)), "[]");
            assert_eq!(second.does("answer = sql(db, 'select count(*) from t')"), format!("[({},)]", 2 * round + 1));
            assert_eq!(
                second.does(&format!("answer = sql(db, 'insert into t values({}, zeroblob(3000))')", 2 * round + 1)),
                "[]"
            );
            assert_eq!(first.does("answer = sql(db, 'select count(*) from t')"), format!("[({},)]", 2 * round + 2));
        }
        assert_eq!(first.does("answer = sql(db, 'pragma integrity_check')"), "[('ok',)]");
    }
}

#[test]
fn one_program_has_an_export_and_a_directory_in_it_each_with_its_own_root() {
    let world = World::new("one-mount-both");
    let sub = world.below("d");
    let mut program = world.program(&[("/db", world.url()), ("/sub", &sub)]);
    assert_eq!(
        program.does(
            "open('/db/d/f', 'w').write('x'); answer = open('/sub/f').read(), sorted(os.listdir('/db')), os.listdir('/sub')"
        ),
        "('x', ['d'], ['f'])"
    );
    assert_eq!(program.does("answer = os.path.samestat(os.stat('/db/d/f'), os.stat('/sub/f'))"), "True");
    assert_eq!(program.does("os.rename('/db/d/f', '/sub/g')"), "OSError(18, 'Invalid cross-device link')");
    assert_eq!(program.does("os.chdir('/sub'); open('h', 'w').write('y'); answer = os.getcwd(), os.path.exists('/db/d/h'), os.path.exists('/db/h')"), "('/sub', True, False)");
    assert_eq!(
        program.does(
            "os.chdir('/db'); open('i', 'w').write('z'); answer = os.getcwd(), os.path.exists('/db/i'), os.path.exists('/sub/i')"
        ),
        "('/db', True, False)"
    );
}

#[test]
fn a_directory_that_is_removed_and_made_again_is_found_and_the_mount_stays() {
    let world = World::new("one-mount-again");
    let sub = world.below("d");
    let mut holder = world.program(&[("/db", world.url())]);
    assert_eq!(holder.does("f = open('/db/kept', 'wb+', 0); answer = f.write(b'abc')"), "3");
    assert_eq!(succeed(world.python(&[("/sub", &sub)]).arg("import os; print(os.listdir('/sub'))")), "[]\n");
    std::fs::remove_dir(world.server.export.join("d")).unwrap();
    std::fs::create_dir(world.server.export.join("d")).unwrap();
    std::fs::write(world.server.export.join("d/new"), "").unwrap();
    assert_eq!(succeed(world.python(&[("/sub", &sub)]).arg("import os; print(os.listdir('/sub'))")), "['new']\n");
    assert_eq!(world.segments(), 1);
    assert_eq!(holder.does("f.write(b'def'); os.fsync(f.fileno()); answer = os.pread(f.fileno(), 9, 0)"), "b'abcdef'");
}

#[test]
fn a_program_whose_directory_is_removed_gets_estale_while_another_path_has_the_file_system() {
    const STALE: &str = "OSError(116, 'Stale file handle')";
    for (label, first) in [("one-mount-removed", 0), ("one-mount-removed-second", 1)] {
        let world = World::new(label);
        let sub = world.below("d");
        let mut programs = [world.program(&[("/sub", &sub)]), world.program(&[("/db", world.url())])];
        // The first program creates the segment.
        for number in [first, 1 - first] {
            assert_eq!(programs[number].does("answer = sum(map(os.path.exists, ['/sub', '/db']))"), "1");
        }
        let [below, above] = &mut programs;
        std::fs::remove_dir(world.server.export.join("d")).unwrap();
        // The keeper detects the removal within seconds.
        assert_eq!(below.does("os.listdir('/sub')"), STALE, "{label}");
        assert_eq!(above.does("answer = os.listdir('/db')"), "[]");
        std::fs::create_dir(world.server.export.join("d")).unwrap();
        assert_eq!(below.does("os.listdir('/sub')"), STALE, "as with a kernel client");
        assert_eq!(succeed(world.python(&[("/sub", &sub)]).arg("import os; print(os.listdir('/sub'))")), "[]\n");
    }
}

#[test]
fn a_program_waits_for_its_export_while_another_export_of_the_file_system_is_there() {
    let Some(mut world) = AnyServer::ganesha("one-mount-beside").map(World::of) else { return };
    let Server::Ganesha(ganesha) = &mut world.server.server else { unreachable!() };
    let beside = ganesha.offer_beside();
    let (mut waits, mut goes_on) = (world.program(&[("/beside", &beside)]), world.program(&[("/db", world.url())]));
    assert_eq!(waits.does("f = open('/beside/f', 'wb+', 0); answer = f.write(b'abc')"), "3");
    assert_eq!(goes_on.does("answer = os.listdir('/db')"), "['d']");
    assert_eq!(world.segments(), 1);
    let Server::Ganesha(ganesha) = &mut world.server.server else { unreachable!() };
    ganesha.withdraw_beside();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waits.does("answer = os.pread(f.fileno(), 3, 0), os.listdir('/beside')"));
        std::thread::sleep(std::time::Duration::from_secs(6)); // the keeper has asked twice
        assert!(!waiting.is_finished());
        assert_eq!(
            goes_on.does("g = open('/db/g', 'wb+', 0); g.write(b'x'); os.fsync(g.fileno()); answer = os.path.getsize('/db/g')"),
            "1"
        );
        ganesha.offer_beside();
        assert_eq!(waiting.join().unwrap(), "(b'abc', ['f'])");
    });
}

#[test]
fn a_mount_beside_another_users_record_locks_is_refused_unless_it_is_forced() {
    const ALICE: u32 = 4001;
    const BOB: u32 = 4002;
    if !is_root() {
        return skip("only root can be several users");
    }
    let world = World::new("one-mount-apart");
    std::fs::set_permissions(&world.server.export, PermissionsExt::from_mode(0o777)).unwrap();
    let directories = [ALICE, BOB].map(|user| {
        let own = runtime();
        std::os::unix::fs::chown(own.path(), Some(user), Some(user)).unwrap();
        own
    });
    let exec = |user: u32, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        let own = &directories[usize::from(user == BOB)];
        command
            .args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"])
            .arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", own.path()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}", world.url())]).args(arguments);
        command
    };
    let python = ["--", "/usr/bin/python3", "-c", LINES];
    let mut holder = Program::start(&mut exec(ALICE, &python));
    assert_eq!(holder.does("f = open('/db/f', 'wb+', 0); answer = f.write(b'x')"), "1");
    let other = |force: &[&str]| exec(BOB, &[force, &["--", "true"]].concat()).output().unwrap();
    let separately = format!("uid {ALICE} has this export mounted separately");
    // The keeper answers the query, and it starts a moment after the mount.
    crate::support::await_until("the warning", std::time::Duration::from_secs(20), || {
        text(&other(&[])).contains(&separately).then_some(())
    });
    assert!(other(&[]).status.success(), "without locks it is a warning");
    assert_eq!(holder.does("answer = lock(f)"), "True");
    let refused = other(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains(&separately) && text(&refused).contains("--group"), "{}", text(&refused));
    assert!(other(&["--force"]).status.success());
    assert_eq!(holder.does("fcntl.lockf(f, fcntl.LOCK_UN)"), "None");
    assert!(other(&[]).status.success(), "{}", text(&other(&[])));
}

#[test]
fn record_locks_on_a_volume_that_replaced_another_keep_other_mounts_away() {
    let mut world = World::new("one-mount-replaced");
    let mut holder = world.program(&[("/db", world.url())]);
    assert_eq!(holder.does("f = open('/db/f', 'wb+', 0); answer = lock(f)"), "True");
    let port = world.server.port();
    if let Server::Filer(old, _) = &mut world.server.server {
        old.kill();
    }
    let scratch = Scratch::new("one-mount-replacement");
    let _new = Filer::start_on(&scratch, port, &[]);
    assert_eq!(holder.does("f = open('/db/f', 'wb+', 0); answer = lock(f)"), "True");
    let elsewhere = runtime();
    let other = || world.python(&[("/db", world.url())]).arg("").env("MILLRACE_RUNTIME_DIR", elsewhere.path()).output().unwrap();
    // The keeper of the old volume becomes the new volume's keeper within some seconds.
    crate::support::await_until("the refusal", std::time::Duration::from_secs(20), || {
        let other = other();
        (other.status.code() == Some(2) && text(&other).contains("holds file locks")).then_some(())
    });
}
