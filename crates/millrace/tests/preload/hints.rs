//! Hints of a program about its next reads and writes: the library answers as the kernel does, and
//! follows those that help.

use crate::support::tls::Pki;
use crate::support::world::{LIMIT_S, World, compile};
use crate::support::{Scratch, find_program, skip, succeed};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// `call` for libc's functions with errno, `admin` for the filer, `calls` for its counters, and
/// `until` to wait for a fact.
const SCRIPT: &str = r#"
import ctypes, errno, json, os, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, fd, *numbers):
    arguments = [ctypes.c_long(n) for n in numbers[:2]] + [ctypes.c_int(n) for n in numbers[2:]]
    done = getattr(libc, name)(fd, *arguments)
    return errno.errorcode.get(ctypes.get_errno() if done == -1 else done, done)
def admin(request):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1]); s.sendall(request + b"\n")
        return json.loads(s.makefile().readline())
def calls(procedure): return admin(b'{"op":"stats"}')["procedures"][procedure]["calls"]
def until(fact):
    end = time.monotonic() + 30
    while not fact(): assert time.monotonic() < end, "waited for 30 s"
"#;

/// Runs a script on a mount and returns its output. `argv[1]` is the admin socket, `argv[2]` a
/// local folder. `None`, with a message, without Python.
fn python(world: &World, options: &str, script: &str) -> Option<String> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec_with(options, python.to_str().unwrap());
    command.args(["-c", &format!("{SCRIPT}{script}")]).arg(&world.filer.admin).arg(world.scratch.path());
    Some(succeed(&mut command))
}

#[test]
fn hints_are_refused_as_the_kernel_refuses_them() {
    let world = World::new("hints-refused");
    let script = r#"
def answers(path):
    file = os.open(path + "/file", os.O_RDWR | os.O_CREAT); os.write(file, b"x" * 100)
    out = os.open(path + "/file", os.O_WRONLY)
    said = []
    for fd in [file, out, os.pipe()[0], 999, -1]:
        for start, length in [(0, 0), (0, 100), (50, 1 << 40), (-1, 5), (5, -1), (1 << 62, 1 << 62), (1 << 62, (1 << 62) - 1)]:
            said += [call("sync_file_range", fd, start, length, flags) for flags in [0, 1, 2, 3, 4, 6, 7, 8, 9]]
            said += [call("posix_fadvise", fd, start, length, advice) for advice in [0, 1, 2, 3, 4, 5, 6, -1, 99]]
            said.append(call("readahead", fd, start, length))
    return said
mount, local = answers("/db"), answers(sys.argv[2])
print([(n, m, l) for n, (m, l) in enumerate(zip(mount, local)) if m != l], len(mount))"#;
    let Some(out) = python(&world, "", script) else { return };
    assert_eq!(out, "[] 665\n");
}

#[test]
fn sync_file_range_starts_a_commit_and_waits_for_it_when_it_is_told_to() {
    let world = World::new("hints-sync-range");
    let script = r#"
fd = os.open("/db/file", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x" * 8192)
until(lambda: call("sync_file_range", fd, 0, 0, 2) == 0 and calls("COMMIT") == 1)
print(call("sync_file_range", fd, 0, 0, 4))
os.fsync(fd); print(calls("COMMIT"))
os.write(fd, b"y" * 8192)
print(call("sync_file_range", fd, 0, 0, 7), calls("COMMIT"))
os.fsync(fd); print(calls("COMMIT"))"#;
    let Some(out) = python(&world, "", script) else { return };
    assert_eq!(out, "0\n1\n0 2\n2\n");
}

/// A file of 8 MiB whose blocks of 8 KiB begin with their number, a reader of blocks, and a counter of READs.
const FILE: &str = r#"
import random, struct
PIECE, PIECES = 8192, 1024
def block(n): return struct.pack("<q", n) * (PIECE // 8)
with open("/db/file", "wb") as file:
    for n in range(PIECES): file.write(block(n))
def reads(work, least=0):
    before = calls("READ"); work()
    until(lambda: calls("READ") - before >= least)  # nobody may have waited for a READ
    return calls("READ") - before
def hint(fd, n, count=1, advice=3): assert call("posix_fadvise", fd, n * PIECE, count * PIECE, advice) == 0
def check(fd, n, count=1):
    assert os.pread(fd, count * PIECE, n * PIECE) == b"".join(block(m) for m in range(n, n + count)), n
fd = os.open("/db/file", os.O_RDONLY)
"#;

#[test]
fn what_was_hinted_at_is_read_once_and_what_was_not_as_before() {
    let world = World::new("hints-once");
    let script = r#"
scattered = [n * 37 % PIECES for n in range(60)]
writer = os.open("/db/file", os.O_RDWR)
for reader in [fd, writer]:
    print(reads(lambda: [hint(reader, n) for n in scattered + scattered] and [check(reader, n) for n in scattered]))
os.pwrite(writer, block(1000), 1000 * PIECE)  # not committed: hints help none the less
print(reads(lambda: [hint(writer, n) for n in scattered] and [check(writer, n) for n in scattered]))
print(reads(lambda: (call("readahead", fd, 0, 1 << 20), [check(fd, n) for n in range(0, 128, 2)])))
print(reads(lambda: (hint(fd, 200), hint(fd, 200, advice=4), check(fd, 200)), 2), "DONTNEED")
print(reads(lambda: (hint(fd, 300), os.pwrite(writer, block(300), 300 * PIECE), check(fd, 300)), 2), "written since")
again = os.open("/db/file", os.O_RDONLY)
print(reads(lambda: (hint(fd, 400), check(again, 400)), 2), "another open")
direct = os.open("/db/file", os.O_RDONLY | os.O_DIRECT)
print(reads(lambda: hint(direct, 500)), "O_DIRECT")
def count(advice):
    hint(fd, 0, PIECES, advice=4); hint(fd, 0, advice=advice)
    return reads(lambda: [check(fd, n) for n in range(0, PIECES)])
print(count(1), "RANDOM")
print(count(2) < 30, count(0) < 40)
def with_gaps(own):
    for n in range(PIECES):
        if n % 7: check(own, n)
print(reads(lambda: with_gaps(os.open("/db/file", os.O_RDONLY))) < 60, "pages left out")
print(reads(lambda: (hint(fd, PIECES - 1, 100), check(fd, PIECES - 1), hint(fd, PIECES + 5))), "at the end")
"#;
    let Some(out) = python(&world, "", &format!("{FILE}{script}")) else { return };
    let wanted = "60\n60\n60\n2\n2 DONTNEED\n2 written since\n2 another open\n0 O_DIRECT\n1024 RANDOM\nTrue True\nTrue pages left out\n1 at the end\n";
    assert_eq!(out, wanted);
    let Some(out) = python(&world, "&noac", &format!("{FILE}print(reads(lambda: hint(fd, 5)))")) else { return };
    assert_eq!(out, "0\n");
}

#[test]
fn hints_and_sequential_reads_never_bring_what_is_older_than_a_write_of_this_host() {
    let world = World::new("hints-races");
    // Each block has the version that its writer reports after the write. A reader gets the
    // reported version before it reads.
    let script = r#"
import mmap
said = open(sys.argv[2] + "/said", "w+b"); said.truncate(8 * PIECES)
said = mmap.mmap(said.fileno(), 8 * PIECES)
BLOCKS = 256
def version(n): return struct.unpack_from("<q", said, 8 * n)[0]
for n in range(BLOCKS): struct.pack_into("<q", said, 8 * n, n)
children = []
for writer in range(2):
    pid = os.fork()
    if pid == 0:
        own = os.open("/db/file", os.O_RDWR)
        for step in range(1, 1 << 30):
            n = random.randrange(BLOCKS // 2) * 2 + writer
            v = version(n) + 1
            os.pwrite(own, block(v), n * PIECE)
            struct.pack_into("<q", said, 8 * n, v)
            if os.getppid() == 1: os._exit(0)
    children.append(pid)
wrong, steps = [], [0]
def reader(number):
    own = os.open("/db/file", [os.O_RDONLY, os.O_RDWR][number % 2])
    chance = random.Random(number)
    for step in range(150):
        start, count = chance.randrange(BLOCKS), chance.randrange(1, 40)
        if chance.random() < 0.5:
            order = [chance.randrange(BLOCKS) for n in range(count)]
            for n in order: hint(own, n)
        else: order = range(start, min(start + count, BLOCKS))
        for n in order:
            least = version(n)
            found = os.pread(own, PIECE, n * PIECE)
            steps[0] += 1
            # A block may hold words of a write that goes on meanwhile, beside those of the one before: none older than it.
            if min(struct.unpack("<1024q", found)) < least: wrong.append((n, least))
threads = [threading.Thread(target=reader, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for pid in children: os.kill(pid, 9); os.waitpid(pid, 0)
print(wrong, steps[0] > 1000)
"#;
    let Some(out) = python(&world, "", &format!("{FILE}{script}")) else { return };
    assert_eq!(out, "[] True\n");
}

#[test]
fn threads_and_children_that_read_ahead_together_read_the_right_bytes() {
    let world = World::new("hints-forks");
    let script = r#"
for number in range(4):
    with open(f"/db/{number}", "wb") as file:
        for n in range(PIECES): file.write(block(n + number * PIECES))
def whole(number):
    own = os.open(f"/db/{number}", os.O_RDONLY)
    for n in range(PIECES): assert os.read(own, PIECE) == block(n + number * PIECES), (number, n)
    os.close(own)
failed = []
def guarded(number):
    try: whole(number)
    except BaseException as error: failed.append(error)
def together():
    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(4)]
    for thread in threads: thread.start()
    children = []
    for child in range(6):
        for n in range(20): hint(fd, (child * 20 + n) * 3)
        pid = os.fork()
        if pid == 0:
            try:
                for n in range(20): check(fd, (child * 20 + n) * 3)
                whole(child % 4)
                os._exit(0)
            except BaseException as error: print(error, flush=True)
            os._exit(1)
        children.append(pid)
        for n in range(20): check(fd, (child * 20 + n) * 3)
    for thread in threads: thread.join()
    print([os.waitpid(pid, 0)[1] for pid in children], failed)
together()
"#;
    let Some(out) = python(&world, "", &format!("{FILE}{script}")) else { return };
    assert_eq!(out, "[0, 0, 0, 0, 0, 0] []\n");
}

#[test]
fn a_server_that_is_killed_with_hints_on_their_way_costs_nothing_but_them() {
    let mut world = World::new("hints-killed");
    let script = r#"
for round in range(3):
    for n in range(64): hint(fd, n * 7 + round)
    print("hinted", flush=True)
    sys.stdin.readline()
    for n in range(64): check(fd, n * 7 + round)
    for n in range(300): assert os.read(fd, PIECE) == block(n)
    os.lseek(fd, 0, 0)
"#;
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let mut command = world.exec_with("", python.to_str().unwrap());
    command.args(["-c", &format!("{SCRIPT}{FILE}{script}")]).arg(&world.filer.admin);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        assert_eq!(lines.next().unwrap().unwrap(), "hinted");
        world.filer.kill();
        world.filer.restart();
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn signal_handlers_that_read_while_their_thread_reads_ahead_wait_for_nothing_it_holds() {
    let world = World::new("hints-signals");
    let Some(program) = compile(&world.scratch, "ahead_signals", &[]) else { return };
    let data: Vec<u8> = (0..1024u64).flat_map(|number| number.to_ne_bytes().repeat(1024)).collect();
    std::fs::write(world.filer.export().join("file"), data).unwrap();
    assert_eq!(succeed(world.exec(program.to_str().unwrap()).arg("/db/file")), "right\n");
}

#[test]
fn what_was_hinted_at_comes_over_an_encrypted_connection_as_well() {
    let scratch = Scratch::new("hints-tls");
    let pki = Pki::new(&scratch);
    let world = World { filer: pki.filer(&scratch, "required"), scratch, limit_s: LIMIT_S };
    let script = r#"
order = [n * 37 % PIECES for n in range(60)]
print(reads(lambda: [hint(fd, n) for n in order] and [check(fd, n) for n in order]))
print(reads(lambda: [check(fd, n) for n in range(PIECES)]) < 60)
print(reads(lambda: [hint(fd, n, 4) for n in range(0, 400, 8)] and [check(fd, n) for n in range(0, 400, 3)]) > 50)"#;
    let Some(out) = python(&world, &pki.tls(), &format!("{FILE}{script}")) else { return };
    assert_eq!(out, "60\nTrue\nTrue\n");
}
