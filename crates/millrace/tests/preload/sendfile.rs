//! sendfile to sockets.

use crate::support::world::World;
use crate::support::{find_program, skip, succeed};
use std::process::Command;

/// A web server's loop: a non-blocking socket with a small buffer, a client that reads slowly, by
/// an offset or by the descriptor's offset. Meanwhile another process may write to the part of the
/// file that comes next. Prints a digest of what the client received.
const LOOP: &str = r#"
import hashlib, os, select, socket, subprocess, sys, threading, time
by_offset, change_at = sys.argv[1] == "offset", int(sys.argv[2])
fd = os.open("/db/large", os.O_RDONLY)
size = os.fstat(fd).st_size
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
listener.bind(("127.0.0.1", 0))
listener.listen(1)
out = socket.socket()
out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
out.connect(listener.getsockname())
client = listener.accept()[0]
out.setblocking(False)
received = hashlib.sha256()
def read():
    got = 0
    while got < size:
        piece = client.recv(16384)
        received.update(piece)
        got += len(piece)
        time.sleep(0.0005)
reader = threading.Thread(target=read)
reader.start()
sent = 0
while sent < size:
    if change_at and sent >= change_at:
        code = f"import os; os.pwrite(os.open('/db/large', os.O_WRONLY), b'new' * 30000, {sent})"
        subprocess.run([sys.executable, "-c", code], check=True)
        change_at = 0
    try: sent += os.sendfile(out.fileno(), fd, sent if by_offset else None, size - sent)
    except BlockingIOError: select.select([], [out], [])
reader.join()
assert os.lseek(fd, 0, os.SEEK_CUR) == (0 if by_offset else size)
print(received.hexdigest())
"#;

const DIGEST: &str = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";

#[test]
fn sendfile_to_a_slow_socket_reads_the_file_once_and_sends_what_was_written_meanwhile() {
    const BYTES: u64 = 4 << 20;
    /// Bytes that one call reads and keeps for the next calls. The library reads them again after
    /// another process has written to the file, and after its COMMIT.
    const KEPT_BYTES_MAX: u64 = 1 << 20;
    let world = World::new("sendfile");
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let bytes: Vec<u8> = (0..BYTES).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    let large = world.filer.export().join("large");
    std::fs::write(&large, bytes).unwrap();
    let read_bytes = || world.filer.admin(r#"{"op":"stats"}"#)["procedures"]["READ"]["bytes"].as_u64().unwrap();
    for (offset, change_at, again) in [("offset", "0", 0), ("own", "0", 0), ("offset", "2000000", 3 * KEPT_BYTES_MAX)] {
        let before = read_bytes();
        let received = succeed(world.exec(python.to_str().unwrap()).args(["-c", LOOP, offset, change_at]));
        let read = read_bytes() - before;
        assert_eq!(received, succeed(Command::new(&python).args(["-c", DIGEST]).arg(&large)), "{offset} {change_at}");
        assert!(read <= BYTES + again, "{offset} {change_at}: {read} bytes of READs for a file of {BYTES}");
    }
}

/// A server that sends one file to many clients at the same time. Each client takes 8 KiB at a time.
const MANY: &str = r#"
import os, socket, sys
count = int(sys.argv[1])
clients = []
for _ in range(count):
    out, client = socket.socketpair()
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
    out.setblocking(False)
    clients.append([out, client, os.open("/db/large", os.O_RDONLY), bytearray()])
with open("/db/large", "rb") as file: wanted = file.read()
while any(len(client[3]) < len(wanted) for client in clients):
    for client in clients:
        out, end, fd, got = client
        try: os.sendfile(out.fileno(), fd, None, 1 << 20)
        except BlockingIOError: pass
        if len(got) < len(wanted): got += end.recv(8192)
print(all(bytes(client[3]) == wanted for client in clients))
"#;

#[test]
fn sendfile_to_many_slow_sockets_reads_the_file_about_once_for_each() {
    const BYTES: u64 = 512 << 10;
    let world = World::new("sendfile-many");
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let bytes: Vec<u8> = (0..BYTES).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    std::fs::write(world.filer.export().join("large"), bytes).unwrap();
    let read_bytes = || world.filer.admin(r#"{"op":"stats"}"#)["procedures"]["READ"]["bytes"].as_u64().unwrap();
    // With more than 64 sockets, the library cannot keep the bytes that some sockets did not take.
    for (count, times) in [(20, 2), (80, 3)] {
        let before = read_bytes();
        assert_eq!(succeed(world.exec(python.to_str().unwrap()).args(["-c", MANY, &count.to_string()])), "True\n");
        let read = read_bytes() - before;
        assert!(read <= (count + 1) * BYTES * times, "{count}: {read} bytes of READs");
    }
}
