use crate::support::any_server::{AnyServer, runtime};
use crate::support::swallow::Swallow;
use crate::support::{await_until, find_program, skip, text};
use nfs_proto::nfs3::Procedure;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const OVERDUE: Duration = Duration::from_secs(5);
const FENCE: Duration = Duration::from_secs(1);
/// `timeo`. After it the client would resend a call in any case.
const TIMEO: Duration = Duration::from_secs(60);

/// Waits for a line before the operation whose call is lost.
const BEGIN: &str = "import os, sys\nfd = os.open('/db/f', os.O_RDWR)\nprint('ready', flush=True)\nsys.stdin.readline()\n";
const KERNEL_AIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/kernel_aio.py");

/// A server that programs reach through a route. Each route has its own mount.
struct Routed<'a> {
    server: &'a AnyServer,
    route: Swallow,
    runtime: tempfile::TempDir,
}

impl<'a> Routed<'a> {
    fn new(server: &'a AnyServer, route: Swallow) -> Self {
        Self { server, route, runtime: runtime() }
    }

    /// Python on the mount, ready to begin. `options` are options of the URL.
    fn python(&self, options: &str, arguments: &[&str]) -> Program {
        let url = format!("{}{options}", self.route.url(self.server));
        let mut command = self.server.exec_by(&url, &self.runtime, "python3");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, said };
        if program.line() != "ready\n" {
            panic!("{}", text(&program.child.wait_with_output().unwrap()));
        }
        program
    }

    fn script(&self, options: &str, script: &str) -> Program {
        self.python(options, &["-c", &format!("{BEGIN}{script}")])
    }
}

/// A Python program on the mount.
struct Program {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn begin(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    /// Its standard output and standard error, after it has ended with success.
    fn end(mut self) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.said.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(self.child.wait().unwrap().success(), "{out}{err}");
        (out, err)
    }
}

/// Creates the file of the programs on a server. `None`, with a message, without Python.
fn laid_out(server: AnyServer) -> Option<AnyServer> {
    if find_program("python3").is_none() {
        skip("no python3");
        return None;
    }
    std::fs::write(server.export.join("f"), [b'0'; 16384]).unwrap();
    Some(server)
}

/// The log names the READ, which is answered under another xid on another connection.
fn a_read_is_answered(server: &AnyServer) {
    let routed = Routed::new(server, Swallow::for_ever(server));
    let mut program = routed.script("", "print(os.pread(fd, 4, 8192).decode())");
    routed.route.lose(Procedure::Read);
    let begun = Instant::now();
    program.begin();
    let (out, err) = program.end();
    let took = begun.elapsed();
    assert!(out == "0000\n" && took >= OVERDUE && took < TIMEO, "{out}{err}{took:?}");
    let sent = routed.route.sendings(Procedure::Read);
    let [first, second] = sent[..] else { panic!("{sent:?}") };
    assert!(first.xid != second.xid && first.port != second.port);
    let inode = std::fs::metadata(server.export.join("f")).unwrap().ino();
    assert!(!err.contains("does not answer") && err.lines().count() == 1, "{err}");
    let named = format!("has left READ of inode {inode} at offset 8192 unanswered for 5 s; sending it again under another xid");
    assert!(err.contains("(mount /db)") && err.contains(&named), "{named}\n{err}");
}

/// A WRITE keeps its blocks until the old connection has been closed for `fence_ms`.
fn a_write_is_answered(server: &AnyServer) {
    let routed = Routed::new(server, Swallow::for_ever(server));
    let write = |byte: char| format!("assert os.pwrite(fd, b'{byte}' * 4096, 0) == 4096\nos.fsync(fd)");
    let (mut first, mut second) = (routed.script("", &write('1')), routed.script("", &write('2')));
    routed.route.lose(Procedure::Write);
    first.begin();
    await_until("the first WRITE", TIMEO, || (!routed.route.sendings(Procedure::Write).is_empty()).then_some(()));
    second.begin();
    first.end();
    second.end();
    let sent = routed.route.sendings(Procedure::Write);
    let [swallowed, again, newer] = sent[..] else { panic!("{sent:?}") };
    assert!(swallowed.xid != again.xid && again.at - swallowed.at >= OVERDUE + FENCE && again.port != newer.port, "{sent:?}");
    assert_eq!(std::fs::read(server.export.join("f")).unwrap()[..4096], [b'2'; 4096]);
}

/// Many requests of kernel AIO are in flight on few connections, so that each closed connection has others.
fn kernel_aio_is_answered(server: &AnyServer) {
    if !std::process::Command::new("python3")
        .args(["-c", "import ctypes; ctypes.CDLL('libaio.so.1')"])
        .status()
        .unwrap()
        .success()
    {
        return skip("no libaio.so.1 (libaio1)");
    }
    let routed = Routed::new(server, Swallow::for_ever(server));
    let mut program = routed.python("", &[KERNEL_AIO, "/db", "/tmp", "begun"]);
    for (procedure, fence) in [(Procedure::Read, Duration::ZERO), (Procedure::Write, FENCE)] {
        routed.route.lose(procedure);
        let begun = Instant::now();
        program.begin();
        assert_eq!(program.line() + &program.line(), "16\n{8192}\n", "{procedure:?}");
        let took = begun.elapsed();
        assert!(took >= OVERDUE + fence && took < TIMEO, "{procedure:?} took {took:?}");
    }
    let (out, err) = program.end();
    assert!(out == "True True\n" && !err.contains("does not answer"), "{out}{err}");
}

#[test]
fn a_read_a_write_and_kernel_aio_that_another_server_swallows_are_answered_under_another_xid() {
    // The filer without program CHANNEL, and NFS-Ganesha.
    let servers: Vec<_> = [Some(AnyServer::filer("swallowed")), AnyServer::ganesha("swallowed-ganesha")]
        .into_iter()
        .filter_map(|server| laid_out(server?))
        .collect();
    // Each call has its own mount, and all run at the same time because they mostly wait.
    std::thread::scope(|scope| {
        for server in &servers {
            for call in [a_read_is_answered, a_write_is_answered, kernel_aio_is_answered] {
                scope.spawn(move || call(server));
            }
        }
    });
}

#[test]
fn a_call_to_our_filer_keeps_xid_and_port_and_is_named() {
    let Some(server) = laid_out(AnyServer::filer("own-filer")) else { return };
    let routed = Routed::new(&server, Swallow::once(&server));
    let mut program = routed.script("&timeo=70", "print(os.pread(fd, 4, 0).decode())");
    routed.route.lose(Procedure::Read);
    program.begin();
    let (out, err) = program.end();
    let sent = routed.route.sendings(Procedure::Read);
    let [first, second] = sent[..] else { panic!("{sent:?}") };
    assert!(first.xid == second.xid && first.port == second.port, "{first:?} {second:?}");
    assert!(out == "0000\n" && second.at - first.at >= Duration::from_secs(7), "{out}{err}");
    assert!(err.contains(" at offset 0 unanswered for 5 s; waiting\n") && err.lines().count() == 1, "{err}");
}

/// Reads and writes without an error while no data comes through for a time. Returns the log.
fn waits_for_a_route(server: &AnyServer, break_link: impl FnOnce(&Swallow), mend_link: impl FnOnce(&Swallow)) -> String {
    const OUTAGE: Duration = Duration::from_secs(8);
    let routed = Routed::new(server, Swallow::for_ever(server));
    let script = "for n in range(3):
    assert os.pwrite(fd, b'%d' % n * 4096, 0) == 4096; os.fsync(fd)
    print(os.pread(fd, 2, 0).decode(), len(os.listdir('/db')), flush=True)
    if n < 2: sys.stdin.readline()
";
    let mut program = routed.script("", script);
    program.begin();
    assert_eq!(program.line(), "00 1\n");
    break_link(&routed.route);
    let begun = Instant::now();
    program.begin();
    std::thread::sleep(OUTAGE); // the outage itself
    mend_link(&routed.route);
    assert_eq!(program.line(), "11 1\n");
    let took = begun.elapsed();
    assert!(took >= OUTAGE && took < OUTAGE + TIMEO, "{took:?}");
    program.begin();
    let (out, err) = program.end();
    assert_eq!(out, "22 1\n");
    assert!(err.contains("does not answer") && err.contains("answers again"), "{err}");
    assert_eq!(std::fs::read(server.export.join("f")).unwrap()[..4096], [b'2'; 4096]);
    err
}

#[test]
fn a_route_that_stands_still_and_a_link_that_is_down_for_eight_seconds_are_a_pause() {
    let Some(server) = laid_out(AnyServer::filer("stalled")) else { return };
    let ganesha = AnyServer::ganesha("down").and_then(laid_out);
    let link = |state: &str| {
        let ganesha = ganesha.as_ref().unwrap();
        assert!(ganesha.command("ip").args(["link", "set", "lo", state]).status().unwrap().success());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let logged = waits_for_a_route(&server, |route| route.stand_still(true), |route| route.stand_still(false));
            assert!(!logged.contains("answers others"), "{logged}"); // no call was answered
        });
        ganesha.as_ref().map(|ganesha| scope.spawn(|| waits_for_a_route(ganesha, |_| link("down"), |_| link("up"))));
    });
}
