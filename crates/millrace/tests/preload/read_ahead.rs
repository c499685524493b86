//! Sequential reads are answered from memory, and never with older data than a process of this host
//! has written.

use crate::support::world::World;
use crate::support::{find_program, skip, succeed};

/// A reader in pieces of 8 KiB, and writers in other processes.
const SCRIPT: &str = r#"
import os, subprocess, sys
PIECE, PIECES = 8192, 512
name = "/db/front-to-back"
def blocks(letter): return letter * PIECE
def elsewhere(code): subprocess.run([sys.executable, "-c", "import os; fd = os.open('/db/front-to-back', os.O_RDWR); " + code], check=True)
with open(name, "wb") as file: file.write(blocks(b"a") * PIECES)
fd = os.open(name, os.O_RDONLY)
seen = [os.read(fd, PIECE) for _ in range(64)]
print(all(piece == blocks(b"a") for piece in seen))
elsewhere("os.pwrite(fd, b'b' * 8192, 64 * 8192); os.pwrite(fd, b'c' * 8192, 300 * 8192)")
print(os.read(fd, PIECE) == blocks(b"b"))
rest = [os.read(fd, PIECE) for _ in range(65, 302)]
print(rest[300 - 65] == blocks(b"c"), rest[301 - 65] == blocks(b"a"))
other = os.open(name, os.O_RDWR)
for piece in range(302, 400):
    if piece % 7 == 0: os.pwrite(other, blocks(b"d"), piece * PIECE)
    assert os.read(fd, PIECE) == blocks(b"d" if piece % 7 == 0 else b"a"), piece
elsewhere("os.ftruncate(fd, 405 * 8192 + 100)")
print([len(os.read(fd, PIECE)) for _ in range(7)])
elsewhere("os.pwrite(fd, b'e' * 8192, 405 * 8192)")
print(len(os.read(fd, PIECE)), os.read(fd, PIECE))
os.lseek(fd, 0, 0)
print(sum(len(os.read(fd, PIECE)) for _ in range(500)))
"#;

#[test]
fn a_sequential_reader_sees_what_others_wrote_before_it_asked() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("read-ahead");
    let mut command = world.exec(python.to_str().unwrap());
    let said = succeed(command.args(["-c", SCRIPT]));
    let wanted = "True\nTrue\nTrue True\n[8192, 8192, 8192, 8192, 8192, 100, 0]\n8092 b''\n3325952\n";
    assert_eq!(said, wanted);
}

#[test]
fn small_reads_from_front_to_back_are_few_reads_of_the_server_and_those_that_jump_are_their_own() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("read-ahead-calls");
    std::fs::write(world.filer.export().join("file"), vec![7; 8 << 20]).unwrap();
    let reads = |order: &str| {
        let before = world.filer.calls("READ");
        let script = format!(
            "import os; fd = os.open('/db/file', os.O_RDONLY)\nfor n in {order}: assert len(os.pread(fd, 8192, n * 8192)) == 8192"
        );
        succeed(world.exec(python.to_str().unwrap()).args(["-c", &script]));
        world.filer.calls("READ") - before
    };
    assert!(reads("range(1024)") < 40);
    assert_eq!(reads("[n * 37 % 1024 for n in range(1024)]"), 1024);
}
