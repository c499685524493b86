//! Programs whose server leaves one of their calls unanswered while it answers others (docs/design/027-unanswered-calls.md).

use crate::support::swallow::Swallow;
use crate::support::world::World;
use crate::support::{find_program, skip};
use nfs_proto::nfs3::Procedure;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const OVERDUE: Duration = Duration::from_secs(5);
const FENCE: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(5);

/// Waits for a line before it does what is to be lost.
const BEGIN: &str = "import os, sys\nfd = os.open('/db/f', os.O_RDWR)\nprint('ready', flush=True)\nsys.stdin.readline()\n";

/// A Python program on the mount, ready to begin.
struct Program {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    /// With these options of the URL. None, which is said, without Python.
    fn start(world: &World, options: &str, script: &str) -> Option<Self> {
        let Some(python) = find_program("python3") else {
            skip("no python3");
            return None;
        };
        let mut command = world.exec_with(options, python.to_str().unwrap());
        command.args(["-c", &format!("{BEGIN}{script}")]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        if line != "ready\n" {
            panic!("{}", crate::support::text(&child.wait_with_output().unwrap()));
        }
        Some(Self { child, said })
    }

    fn begin(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// What it said to standard output and to standard error, once it has ended well.
    fn end(mut self) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.said.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(self.child.wait().unwrap().success(), "{out}{err}");
        (out, err)
    }
}

/// A filer that programs reach by a route.
fn routed(label: &str, hides_attach: bool) -> (World, Swallow) {
    let mut world = World::new(label);
    std::fs::write(world.filer.export().join("f"), [b'0'; 16384]).unwrap();
    let route = Swallow::start(&world.filer, hides_attach);
    world.filer.url = route.url(&world.filer);
    (world, route)
}

#[test]
fn a_read_that_another_server_swallows_is_named_and_answered_under_another_xid() {
    let (world, route) = routed("swallowed-read", true);
    let Some(mut program) = Program::start(&world, "", "print(os.pread(fd, 4, 8192).decode())") else { return };
    route.lose(Procedure::Read);
    let begun = Instant::now();
    program.begin();
    let (out, err) = program.end();
    let took = begun.elapsed();
    assert!(out == "0000\n" && took >= OVERDUE && took < OVERDUE + SLACK, "{out}{err}{took:?}");
    let [first, second] = route.sendings(Procedure::Read)[..] else { panic!("{:?}", route.sendings(Procedure::Read)) };
    assert!(first.xid != second.xid && first.port != second.port);
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(world.filer.export().join("f")).unwrap());
    assert!(!err.contains("does not answer") && err.lines().count() == 1, "{err}");
    let named = format!("has left READ of inode {inode} at offset 8192 unanswered for 5 s; sending it again under another xid");
    assert!(err.contains("(mount /db)") && err.contains(&named), "{named}\n{err}");
}

#[test]
fn a_write_that_another_server_swallows_keeps_its_blocks_until_the_old_connection_has_been_closed_for_fence_ms() {
    let (world, route) = routed("swallowed-write", true);
    let write = |byte: char| format!("assert os.pwrite(fd, b'{byte}' * 8192, 0) == 8192\nos.fsync(fd)");
    let Some(mut first) = Program::start(&world, "", &write('1')) else { return };
    let Some(mut second) = Program::start(&world, "", &write('2')) else { return };
    route.lose(Procedure::Write);
    first.begin();
    crate::support::await_until("the first WRITE", SLACK, || (!route.sendings(Procedure::Write).is_empty()).then_some(()));
    second.begin();
    first.end();
    second.end();
    let sent = route.sendings(Procedure::Write);
    let [swallowed, again, newer] = sent[..] else { panic!("{sent:?}") };
    assert!(swallowed.xid != again.xid && again.at - swallowed.at >= OVERDUE + FENCE && again.port != newer.port, "{sent:?}");
    assert_eq!(world.exported("f")[..8192], [b'2'; 8192]);
}

#[test]
fn a_call_to_our_filer_keeps_xid_and_port_and_is_named() {
    let (world, route) = routed("own-filer", false);
    let Some(mut program) = Program::start(&world, "&timeo=70", "print(os.pread(fd, 4, 0).decode())") else { return };
    route.lose(Procedure::Read);
    program.begin();
    let (out, err) = program.end();
    let [first, second] = route.sendings(Procedure::Read)[..] else { panic!("{:?}", route.sendings(Procedure::Read)) };
    assert!(first.xid == second.xid && first.port == second.port, "{first:?} {second:?}");
    assert!(out == "0000\n" && second.at - first.at >= Duration::from_secs(7), "{out}{err}");
    assert!(err.contains(" at offset 0 unanswered for 5 s; waiting\n") && err.lines().count() == 1, "{err}");
}
