//! sendfile to sockets.

use crate::support::world::World;
use crate::support::{find_program, skip, succeed};

/// A web server's loop: a socket that does not wait and has little room, a client that reads slowly; by an offset and by that of the descriptor. In the
/// midst another process writes to the part of the file that comes next.
const LOOP: &str = r#"
import hashlib, os, select, socket, subprocess, sys, threading, time
def send(by_offset, change_at):
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
    print(received.hexdigest() == hashlib.sha256(open("/db/large", "rb").read()).hexdigest(), os.lseek(fd, 0, os.SEEK_CUR) in (0, size))
send(True, 0)
send(False, 0)
send(True, 2000000)
"#;

#[test]
fn sendfile_to_a_slow_socket_reads_the_file_once_and_sends_what_was_written_meanwhile() {
    const BYTES: u64 = 4 << 20;
    let world = World::new("sendfile");
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let bytes: Vec<u8> = (0..BYTES).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    std::fs::write(world.filer.export().join("large"), bytes).unwrap();
    assert_eq!(succeed(world.exec(python.to_str().unwrap()).args(["-c", LOOP])), "True True\n".repeat(3));
    // Three files sent, and read once more to compare.
    let read = world.filer.admin(r#"{"op":"stats"}"#)["procedures"]["READ"]["bytes"].as_u64().unwrap();
    assert!(read < 7 * BYTES + BYTES / 2, "{read} bytes of READs for 6 x {BYTES}");
}
