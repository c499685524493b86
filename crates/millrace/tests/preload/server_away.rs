//! The messages that programs on a mount and their administrators get when a server stops answering.

use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, find_program, may_make_namespaces, millrace, preload_library, skip};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server is reported after 5 s.
const SOON: Duration = Duration::from_secs(40);

/// Asks the server every moment, until it is killed.
const ASKS: &str = "import os, sys, time\nopen('/db/here', 'w').write('x')\nopen(sys.argv[1], 'w').close()\nwhile True: os.stat('/db/here'); time.sleep(0.05)";

/// A program that asks. Dropping it kills the program.
struct Program {
    child: Child,
    ready: PathBuf,
}

impl Program {
    fn start(mut command: Command, ready: PathBuf) -> Self {
        Self { child: command.arg(&ready).stdout(Stdio::null()).spawn().unwrap(), ready }
    }

    fn start_with(mut command: Command, ready: PathBuf, stderr: Stdio) -> Self {
        command.stderr(stderr);
        Self::start(command, ready)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn exec(filer: &Filer, python: &Path) -> Command {
    let mut command = millrace();
    command.args(["exec", "--mount", &format!("/db={}", filer.url), "--"]).arg(python).args(["-c", ASKS]);
    command.env("MILLRACE_PRELOAD", preload_library()).env_remove("MILLRACE_LOG").current_dir("/");
    command
}

/// Mounts a private /dev with a socket at /dev/log, whose datagrams go to a file, and runs the
/// program with its standard error on the mount.
const WITH_SYSLOG: &str = r#"set -e
dev=$1; datagrams=$2; shift 2
mount -t tmpfs none "$dev"; mkdir "$dev/shm"; mount --rbind /dev/shm "$dev/shm"
for node in null zero random urandom; do : > "$dev/$node"; mount --bind "/dev/$node" "$dev/$node"; done
mount --rbind "$dev" /dev
python3 -c 'import socket, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); log.bind("/dev/log")
while True: open(sys.argv[1], "ab").write(log.recv(2000) + b"\n")' "$datagrams" &
while [ ! -S /dev/log ]; do sleep 0.05; done
"$@""#;

/// Asserts that the log has `server 127.0.0.1:PORT (mount /db) does not answer; waiting since TIME`
/// and `server … answers again at TIME, after N s`.
fn tells_which_mount_when_and_how_long(text: &str) {
    let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
    let (away, back) = (line("does not answer"), line("answers again"));
    assert!(away.contains(" (mount /db) ") && back.contains(" (mount /db) "), "{text}");
    let moment = |line: &str, before: &str| {
        let moment = line.split(before).nth(1).unwrap().split([',', '\n']).next().unwrap();
        let date = Command::new("date").args(["-u", "+%s", "-d", moment]).output().unwrap();
        String::from_utf8(date.stdout).unwrap().trim().parse::<u64>().unwrap_or_else(|_| panic!("{moment}: {text}"))
    };
    let took = back.rsplit_once(", after ").unwrap().1.strip_suffix(" s").unwrap().parse::<u64>().unwrap();
    let between = moment(back, " at ") - moment(away, " since ");
    assert!(took >= 5 && took.abs_diff(between) <= 1, "{text}");
}

#[test]
fn a_server_that_stops_answering_is_told_of_once_and_so_is_its_return() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("server-away");
    let mut filer = Filer::start(&scratch, &[]);
    let file = |name: &str| scratch.path().join(name);
    let stderr = |name: &str| Stdio::from(std::fs::File::create(file(name)).unwrap());
    let mut programs = Vec::new();
    for (name, log) in [("default", None), ("silent", Some("0".into())), ("to-file", Some(file("log").into_os_string()))] {
        let mut command = exec(&filer, &python);
        command.stderr(stderr(name)).envs(log.map(|log| ("MILLRACE_LOG", log)));
        programs.push(Program::start(command, file(&format!("{name}-ready"))));
    }
    let with_syslog = may_make_namespaces();
    // No process reads this program's stderr. That must not end the program.
    let mut unheard = Program::start_with(exec(&filer, &python), file("unheard-ready"), Stdio::piped());
    drop(unheard.child.stderr.take());
    if with_syslog {
        let asks = exec(&filer, &python);
        let mut command = Command::new("unshare");
        // All processes there end with the first one. They do not see the other programs'
        // processes, so the program has its own runtime directory.
        command.args(["--mount", "--pid", "--mount-proc", "--kill-child", "--fork", "sh", "-c", WITH_SYSLOG, "sh"]);
        command.arg(scratch.folder("dev")).arg(file("datagrams")).arg(asks.get_program());
        let on_mount = ASKS.replace("open(sys", "os.dup2(os.open('/db/stderr', os.O_WRONLY | os.O_CREAT), 2)\nopen(sys");
        command.args(asks.get_args().map(|argument| if argument == ASKS { on_mount.as_ref() } else { argument }));
        let runtime = scratch.folder("runtime");
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime);
        command.current_dir("/").stderr(stderr("syslog"));
        programs.push(Program::start(command, file("syslog-ready")));
    }
    for program in programs.iter().chain([&unheard]) {
        await_until("the programs", SOON, || program.ready.exists().then_some(()));
    }
    filer.kill();
    let told = |name: &str, what: &str| {
        let text = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(text.matches(what).count() <= 1, "{name}: {text}");
        text.contains(what).then_some(())
    };
    let heard = if with_syslog { &["default", "log", "datagrams"][..] } else { &["default", "log"] };
    for name in heard {
        await_until(name, SOON, || told(name, "does not answer; waiting since 2"));
    }
    filer.restart();
    for name in heard {
        await_until(name, SOON, || told(name, "answers again at 2"));
        tells_which_mount_when_and_how_long(&std::fs::read_to_string(file(name)).unwrap());
    }
    assert_eq!(unheard.child.try_wait().unwrap(), None, "it lives");
    for name in ["silent", "to-file", "syslog"] {
        let text = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(!text.contains("answer"), "{name}: {text}");
    }
    if with_syslog {
        assert_eq!(std::fs::metadata(filer.export().join("stderr")).unwrap().len(), 0, "nothing on the mount");
        assert!(std::fs::read_to_string(file("datagrams")).unwrap().starts_with("<28>millrace: server 127.0.0.1:"));
    }
}

/// Uses the mount for the first time once the file of the second argument exists.
const USES_LATER: &str = "import os, sys, time\nopen(sys.argv[2], 'w').close()\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\nos.stat('/db/here')";

/// A program that begins to use a mount while its server is away. The `silence` of the filer is a kill or a stop.
fn begins_while_away(label: &str, silence: impl FnOnce(&mut Filer), end: impl FnOnce(&mut Filer)) {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new(label);
    let mut filer = Filer::start(&scratch, &[]);
    let file = |name: &str| scratch.path().join(name);
    // Another program of the mount keeps its shared state.
    let other = Program::start_with(exec(&filer, &python), file("other-ready"), Stdio::null());
    await_until("the other program", SOON, || other.ready.exists().then_some(()));
    let mut command = exec(&filer, &python);
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    command = millrace();
    command.args(arguments.iter().map(|argument| if argument == ASKS { USES_LATER.as_ref() } else { argument.as_os_str() }));
    command.env("MILLRACE_PRELOAD", preload_library()).env_remove("MILLRACE_LOG").current_dir("/");
    command.arg(file("begin")).stderr(std::fs::File::create(file("log")).unwrap());
    let mut program = Program::start(command, file("ready"));
    await_until("the program", SOON, || program.ready.exists().then_some(()));
    silence(&mut filer);
    std::fs::write(file("begin"), "").unwrap();
    let begun = std::time::Instant::now();
    let log = || std::fs::read_to_string(file("log")).unwrap();
    await_until("a line", SOON, || log().contains("does not answer; waiting since 2").then_some(()));
    // Later questions wait longer, and must not report the same wait again.
    await_until("more questions", SOON, || (begun.elapsed() >= Duration::from_secs(15)).then_some(()));
    let silent_s = begun.elapsed().as_secs();
    end(&mut filer);
    await_until("the program to end", SOON, || program.child.try_wait().unwrap());
    let text = log();
    tells_which_mount_when_and_how_long(&text);
    assert_eq!((text.matches("does not answer").count(), text.matches("answers again").count()), (1, 1), "{text}");
    let took_s: u64 = text.rsplit_once(", after ").unwrap().1.trim().strip_suffix(" s").unwrap().parse().unwrap();
    // The program begins a moment later, and the line has whole seconds.
    assert!(took_s + 1 >= silent_s, "{silent_s} s: {text}");
}

#[test]
fn a_program_that_first_uses_a_mount_whose_server_is_killed_reports_the_whole_wait_once() {
    begins_while_away("server-first-killed", Filer::kill, Filer::restart);
}

#[test]
fn a_program_that_first_uses_a_mount_whose_server_is_stopped_reports_the_whole_wait_once() {
    let signal = |filer: &mut Filer, name: &str| {
        crate::support::succeed(Command::new("kill").args([name, &filer.pid().to_string()]));
    };
    begins_while_away("server-first-stopped", |filer| signal(filer, "-STOP"), |filer| signal(filer, "-CONT"));
}

#[test]
fn a_server_that_comes_back_with_another_volume_is_told_of() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("server-other");
    let mut filer = Filer::start(&scratch, &[]);
    let (log, ready) = (scratch.path().join("log"), scratch.path().join("ready"));
    let stderr = Stdio::from(std::fs::File::create(&log).unwrap());
    let program = Program::start_with(exec(&filer, &python), ready, stderr);
    await_until("the program", SOON, || program.ready.exists().then_some(()));
    filer.kill();
    let elsewhere = Scratch::new("server-other-volume");
    let _other = Filer::start_on(&elsewhere, filer.port, &[]);
    let text = await_until("what it says", SOON, || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.contains("another volume").then_some(text)
    });
    let server = format!("millrace: server 127.0.0.1:{} (mount /db): the server exports another volume as /vol", filer.port);
    assert!(text.contains(&server), "{text}");
}

/// `millrace exec --wait TIME`, with its standard error in a file.
fn waits(filer: &Filer, time: &str, export: &str, stderr: &Path) -> Child {
    let mut command = millrace();
    let mount = format!("/db={}", filer.url.replace("/vol", export));
    command.args(["exec", "--wait", time, "--mount", &mount, "--", "/bin/sh", "-c", "echo written > /db/f"]);
    command.env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
    command.stderr(std::fs::File::create(stderr).unwrap()).spawn().unwrap()
}

#[test]
fn a_server_that_is_away_at_start_is_waited_for_and_named() {
    let scratch = Scratch::new("server-later");
    let mut filer = Filer::start(&scratch, &[]);
    filer.kill();
    let log = scratch.path().join("log");
    let mut program = waits(&filer, "90s", "/vol", &log);
    let said = || std::fs::read_to_string(&log).unwrap();
    await_until("a line", SOON, || said().contains("waiting for nfs://127.0.0.1").then_some(()));
    assert!(said().contains("Connection refused"), "{}", said());
    filer.restart();
    let status = await_until("the program", SOON, || program.try_wait().unwrap());
    assert!(status.success(), "{}", said());
    assert_eq!(std::fs::read_to_string(filer.export().join("f")).unwrap(), "written\n");
}

#[test]
fn the_wait_for_a_server_ends_with_2_when_its_time_is_over() {
    let scratch = Scratch::new("server-never");
    let mut filer = Filer::start(&scratch, &[]);
    let log = scratch.path().join("log");
    let ends = |mut program: Child, cause: &str| {
        let status = await_until("the program", SOON, || program.try_wait().unwrap());
        let said = std::fs::read_to_string(&log).unwrap();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains("did not serve it within 1s") && said.contains(cause), "{said}");
    };
    ends(waits(&filer, "1s", "/none", &log), "the server exports: /vol");
    filer.kill();
    ends(waits(&filer, "1s", "/vol", &log), "Connection refused");
}
