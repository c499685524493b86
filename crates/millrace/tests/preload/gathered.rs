//! Small sequential writes become few WRITEs. Every process of the host sees their data, even if
//! the writer is killed.

use crate::support::world::World;
use crate::support::{await_until, find_program, seed_count, skip, succeed};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

struct Writers {
    world: World,
    python: PathBuf,
}

impl Writers {
    fn new(label: &str) -> Option<Self> {
        Self::served(label, &[])
    }

    fn served(label: &str, options: &[&str]) -> Option<Self> {
        let Some(python) = find_program("python3") else {
            skip("no python3");
            return None;
        };
        Some(Self { world: World::served(label, options), python })
    }

    fn python(&self, script: &str) -> Command {
        let mut command = self.world.exec(self.python.to_str().unwrap());
        command.args(["-c", &format!("{TOOLS}\n{script}")]);
        command
    }

    fn run(&self, script: &str) -> String {
        succeed(&mut self.python(script))
    }

    /// A program that has the file open and executes lines.
    fn program(&self) -> Program {
        let mut child = self.python(LISTENER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Program { child, orders, answers }
    }

    fn writes(&self) -> u64 {
        self.world.filer.calls("WRITE")
    }

    fn at_the_server(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.world.filer.export().join(name)).unwrap_or_default()
    }
}

/// `opened` opens a file of the mount, `fill` writes small pieces one after the other, `elsewhere`
/// runs code in another process.
const TOOLS: &str = r#"
import errno, fcntl, os, signal, subprocess, sys, time
def opened(name, flags=os.O_RDWR | os.O_CREAT): return os.open("/db/" + name, flags, 0o644)
def piece(n, size=1000): return (b"%08d" % n) * (size // 8)
def fill(fd, count, size=1000, first=0):
    for n in range(first, first + count): assert os.write(fd, piece(n, size)) == size
def pieces(count, size=1000): return b"".join(piece(n, size) for n in range(count))
def elsewhere(code): return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
"#;

const LISTENER: &str = r#"
for line in sys.stdin:
    try: said = eval(line)
    except OSError as error: said = error.errno
    print(said, flush=True)
"#;

struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn say(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn small_writes_from_front_to_back_are_one_write_for_each_half_mebibyte() {
    let Some(writers) = Writers::new("gathered") else { return };
    let mut program = writers.program();
    program.say("globals().update(fd=opened('a'))");
    let before = writers.writes();
    assert_eq!(program.say("fill(fd, 2048, 8192)"), "None");
    assert_eq!(program.say("os.fsync(fd)"), "None");
    let sent = writers.writes() - before;
    assert!(sent <= 32 + 8, "{sent} WRITEs for 16 MiB");
    assert_eq!(program.say("os.pread(fd, 8192, 77 * 8192) == piece(77, 8192)"), "True");
    assert_eq!(writers.at_the_server("a").len(), 16 << 20);
    let before = writers.writes();
    assert_eq!(program.say("[os.pwrite(fd, piece(n, 8192), n * 7 % 2048 * 8192) for n in range(100)] == [8192] * 100"), "True");
    assert_eq!(writers.writes() - before, 100, "at random: each by itself");
}

#[test]
fn with_gather_off_each_write_is_sent_by_itself() {
    let Some(writers) = Writers::new("gather-off") else { return };
    let mut command = writers.world.exec_with("&gather=off", writers.python.to_str().unwrap());
    let before = writers.writes();
    succeed(command.args(["-c", &format!("{TOOLS}\nfill(opened('a'), 100)")]));
    assert!(writers.writes() - before >= 100);
}

#[test]
fn other_processes_see_bytes_size_and_time_of_each_write_that_returned() {
    let Some(writers) = Writers::new("gathered-seen") else { return };
    let (mut writer, mut reader) = (writers.program(), writers.program());
    writer.say("globals().update(fd=opened('a'))");
    reader.say("globals().update(fd=opened('a', os.O_RDONLY))");
    for n in 0..60 {
        writer.say(&format!("fill(fd, 1, 1000, {n})"));
        let size = (n + 1) * 1000;
        match n % 5 {
            0 => assert_eq!(reader.say(&format!("os.pread(fd, 1000, {n} * 1000) == piece({n})")), "True"),
            1 => assert_eq!(reader.say("os.fstat(fd).st_size"), size.to_string()),
            2 => assert_eq!(reader.say("os.stat('/db/a').st_size"), size.to_string()),
            3 => assert_eq!(reader.say("os.lseek(fd, 0, os.SEEK_END)"), size.to_string()),
            _ => assert_eq!(reader.say("open('/db/a', 'rb').read() == pieces(os.stat('/db/a').st_size // 1000)"), "True"),
        }
    }
    let before = reader.say("os.utime('/db/a', (1, 1)) or os.stat('/db/a').st_mtime_ns");
    assert_eq!(before, "1000000000");
    writer.say("fill(fd, 1, 1000, 60)");
    assert_ne!(reader.say("os.stat('/db/a').st_mtime_ns"), before);
    writer.say("fill(fd, 5, 1000, 61)");
    assert_eq!(writer.say("os.utime(fd, (5, 5)) or os.close(fd)"), "None");
    assert_eq!(reader.say("os.stat('/db/a').st_mtime_ns"), "5000000000", "nothing is sent after the time was set");
}

#[test]
fn every_write_that_returned_is_there_when_its_writer_was_killed() {
    let Some(writers) = Writers::new("gathered-kill") else { return };
    let mut reader = writers.program();
    for round in 0..seed_count().max(3) {
        let mut writer = writers.program();
        writer.say(&format!("globals().update(fd=opened('f{round}'))"));
        // Prints the number of writes that returned. It is killed while it adds data or sends it.
        let size = if round % 2 == 0 { 1000 } else { 20_000 };
        writeln!(writer.orders, "[fill(fd, 1, {size}, n) or print(n + 1, flush=True) for n in range(100000)] and 0").unwrap();
        let mut returned = 0;
        let enough = 100 + round * 37 % 200;
        let mut line = String::new();
        while returned < enough {
            line.clear();
            writer.answers.read_line(&mut line).unwrap();
            returned = line.trim().parse().unwrap();
        }
        end_hard(&mut writer.child);
        for left in writer.answers.by_ref().lines().map_while(Result::ok) {
            returned = left.trim().parse().unwrap_or(returned);
        }
        let seen = reader.say(&format!(
            "(lambda data: data[:{returned} * {size}] == pieces({returned}, {size}))(open('/db/f{round}', 'rb').read())"
        ));
        assert_eq!(seen, "True", "round {round}, {returned} writes returned");
    }
}

#[test]
fn what_a_killed_writer_wrote_is_at_the_server_soon_though_nobody_looks() {
    let Some(writers) = Writers::new("gathered-left") else { return };
    let mut writer = writers.program();
    writer.say("globals().update(fd=opened('a'))");
    await_until("a run", SOON, || {
        let before = writers.writes();
        writer.say("fill(fd, 50)");
        (writers.writes() - before < 50).then_some(())
    });
    let size = writer.say("os.lseek(fd, 0, 1)").parse::<usize>().unwrap();
    end_hard(&mut writer.child);
    await_until("the bytes", SOON, || (writers.at_the_server("a").len() == size).then_some(()));
}

/// Kills `timeout` and its children: `millrace exec` and the program.
fn end_hard(child: &mut Child) {
    let group = children_of(child.id());
    for pid in group.iter().rev().chain([&child.id()]) {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
    child.wait().unwrap();
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut found: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    for child in found.clone() {
        found.extend(children_of(child));
    }
    found
}

#[test]
fn forks_execs_ends_and_appends_lose_nothing_and_send_nothing_twice() {
    let Some(writers) = Writers::new("gathered-ends") else { return };
    let said = writers.run(
        r#"
fd = opened("fork")
fill(fd, 40)
if os.fork() == 0:
    fill(fd, 20, first=40)
    os._exit(0)
os.wait()
fill(fd, 20, first=60)
print(os.pread(fd, 100000, 0) == pieces(80))
for end in ["os._exit(3)", "sys.exit(3)", "os.abort()", "os.execv('/bin/true', ['true'])"]:
    if os.fork() == 0:
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        fill(opened("end"), 30)
        eval(end)
    os.wait()
    print(open("/db/end", "rb").read() == pieces(30))
    os.unlink("/db/end")
name = opened("append", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for who in range(2):
    if os.fork() == 0:
        mine = opened("append", os.O_WRONLY | os.O_APPEND)
        for n in range(300): assert os.write(mine, b"%d %05d\n" % (who, n)) == 8
        os._exit(0)
os.wait(); os.wait()
lines = open("/db/append").read().split("\n")
for who in range(2): print([line for line in lines if line.startswith("%d " % who)] == ["%d %05d" % (who, n) for n in range(300)])
a, b = opened("both"), opened("both")
fill(a, 10)
os.pwrite(b, b"X" * 10, 9000)
fill(a, 10, first=10)
os.pwrite(b, b"Y" * 10, 19990)
print(os.pread(a, 10, 9000), os.pread(a, 20, 19980), os.fstat(a).st_size)
os.ftruncate(b, 15500)
fill(a, 3, first=20)
print(os.fstat(b).st_size, os.pread(b, 600, 15000)[495:505], os.pread(b, 8, 20000))
os.rename("/db/both", "/db/renamed"); os.unlink("/db/renamed")
print(os.pread(b, 8, 20000), os.fstat(b).st_nlink)
"#,
    );
    assert!(said.starts_with(&"True\n".repeat(7)), "{said}");
    let rest: Vec<&str> = said.lines().skip(7).collect();
    assert_eq!(rest[0], "b'XXXXXXXXXX' b'0019000000YYYYYYYYYY' 20000");
    assert_eq!(rest[1], "23000 b'50000\\x00\\x00\\x00\\x00\\x00' b'00000020'");
    assert_eq!(rest[2], "b'00000020' 0");
}

/// Lets a writer write until its process holds data back: the server has fewer bytes than were written.
/// Returns the number of written bytes.
fn gathering(writers: &Writers, writer: &mut Program) -> usize {
    writer.say("globals().update(fd=opened('a'))");
    await_until("something gathered", SOON, || {
        writer.say("fill(fd, 10)");
        let written: usize = writer.say("os.lseek(fd, 0, 1)").parse().unwrap();
        (writers.at_the_server("a").len() < written).then_some(written)
    })
}

#[test]
fn a_full_server_is_told_by_fsync_by_close_and_by_the_next_write() {
    for (name, order) in [("fsync", "os.fsync(fd)"), ("close", "os.close(fd)"), ("write", "os.pwrite(fd, b'x' * 100000, 0)")] {
        let Some(writers) = Writers::new(&format!("gathered-full-{name}")) else { return };
        let mut writer = writers.program();
        gathering(&writers, &mut writer);
        let full = r#"{"op":"fault-add","fault":{"kind":"enospc","on":["write"],"path":"a"}}"#;
        assert_eq!(writers.world.filer.admin(full)["ok"], true);
        // The keeper may have sent the earlier data. The server does not have this data in any case.
        assert_eq!(writer.say("fill(fd, 3)"), "None", "gathered");
        assert_eq!(writer.say(order), libc::ENOSPC.to_string(), "{name}");
        assert_eq!(writers.world.filer.admin(r#"{"op":"fault-clear"}"#)["ok"], true);
        if name == "fsync" {
            assert_eq!(writer.say("os.fsync(fd)"), "None", "told once");
            let before = writers.writes();
            assert_eq!(writer.say("fill(fd, 20)"), "None");
            assert_eq!(writers.writes() - before, 20, "a file that was refused something is written as before");
        }
    }
}

#[test]
fn what_was_gathered_outlives_a_server_that_loses_power_is_killed_or_away() {
    let Some(mut writers) = Writers::served("gathered-cut", &["--loss-layer"]) else { return };
    let mut writer = writers.program();
    let mut written = gathering(&writers, &mut writer);
    let cut = |writers: &Writers| assert_eq!(writers.world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    for round in 0..4 {
        // The writer has sent some data without a COMMIT, and has not sent the rest.
        assert_eq!(writer.say("os.pread(fd, 1, 0) != b''"), "True");
        assert_eq!(writer.say("fill(fd, 30)"), "None");
        written += 30_000;
        match round {
            0 => cut(&writers),
            1 => {
                writers.world.filer.kill();
                writers.world.filer.restart();
            }
            2 => {
                writers.world.filer.kill();
                assert_eq!(writer.say("fill(fd, 30)"), "None", "kept in memory while the server is away");
                written += 30_000;
                writers.world.filer.restart();
            }
            _ => {}
        }
        assert_eq!(writer.say("os.fstat(fd).st_size"), written.to_string());
    }
    assert_eq!(writer.say("os.fsync(fd)"), "None");
    cut(&writers);
    assert_eq!(writer.say("len(os.pread(fd, 1 << 24, 0))"), written.to_string());
    let all = writers.at_the_server("a");
    assert_eq!(all.len(), written);
    assert!(all.chunks(8).all(|number| number.iter().all(u8::is_ascii_digit)), "no hole");
}
