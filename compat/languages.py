"""Python, Node.js, Java, SQLite, and programs that the library cannot reach."""

import sys

from tools import SAME, version_of
from world import MOUNT, SOURCES, Failed, need

ROOT = SOURCES.parent.parent
TORTURE = ROOT / "crates/millrace/tests/preload/sqlite_torture.py"
TORTURE_S = 5
ROWS = 20000


def cases():
    yield "Python", "pathlib, shutil, zipfile, tempfile, mmap, private and shared, fcntl locks between two processes, subprocess", python
    yield "Node.js", "`fs` by callbacks, promises and synchronously, streams, `cp` and `rm` recursive", node
    yield "Java (NIO)", "FileChannel read, write, force, lock, transferTo; Files copy, move, walk; AsynchronousFileChannel", java
    copy = "Files.copy with COPY_ATTRIBUTES"
    yield "Java (NIO)", copy, lambda world: java(world, "attributes")
    yield "Java (NIO)", "MappedByteBuffer, shared; `transferFrom` of a file of the mount, which maps it", java_mapped
    yield "SQLite", f"CLI: import of {ROWS:,} rows, index, vacuum, backup, `integrity_check`, dump", sqlite
    for mode in ("delete", "truncate", "persist", "wal"):
        what = f"two writers and three readers for {TORTURE_S} s, `journal_mode={mode}`"
        yield "SQLite", what, lambda world, mode=mode: torture(world, mode)
    yield "a static program", "looks for a file on the mount", static
    yield "a Go program", "looks for a file on the mount", go


def python(world):
    lines = world.compare("python", [sys.executable, SOURCES / "files.py"])
    return sys.version.split()[0], told(lines)


def told(lines):
    """The result, with what the program said on stderr of what differs by intent."""
    said = [line.removeprefix("differs: ") for line in lines if line.startswith("differs: ")]
    return "; ".join([SAME, *said])


def node(world):
    program = need("node", "nodejs")
    lines = world.compare("node", [program, SOURCES / "files.js"])
    return version_of(world, program), told(lines)


def compiled(world):
    classes = world.work / "classes"
    if not classes.exists():
        world.run([need("javac"), "-d", classes, SOURCES / "Nio.java", SOURCES / "Mapped.java"], mount=False)
    return [need("java"), "-XX:+UseSerialGC", "-Xmx256m", "-cp", classes]


def java(world, *parts):
    program = compiled(world)
    return version_of(world, program[0], "-version").strip('"'), told(world.compare("java", [*program, "Nio"], *parts))


def java_mapped(world):
    program = compiled(world)
    (world.export / "mapped").mkdir()
    said = world.run([*program, "Mapped", f"{MOUNT}/mapped"]).stdout.strip()
    version = version_of(world, program[0], "-version").strip('"')
    if said != SAME:
        raise Failed(said)
    return version, said


def sqlite(world):
    program = need("sqlite3")
    rows = world.work / "rows.csv"
    rows.write_text("".join(f"{n},name {n * 7919 % ROWS},{'x' * (n % 90)}\n" for n in range(ROWS)))
    world.compare("sqlite", ["bash", SOURCES / "sqlite.sh"], rows, tree=False)
    return version_of(world, program), SAME + "; `integrity_check` ok"


def torture(world, mode):
    folder = world.export / f"torture-{mode}"
    folder.mkdir()
    done = world.run([sys.executable, TORTURE, f"{MOUNT}/{folder.name}/data", mode, TORTURE_S])
    if done.stdout.splitlines()[0] != "ok 20000":
        raise Failed(f"`integrity_check` and the sum of all accounts: {done.stdout!r}, not 'ok 20000'")
    import sqlite3

    return sqlite3.sqlite_version, "`integrity_check` ok, the sum of all accounts right in each read"


def unreached(world, program):
    """A program that libc cannot be replaced for: it must find nothing, and not something else."""
    (world.export / "there").write_text("there\n")
    if world.run(["cat", f"{MOUNT}/there"]).stdout != "there\n":
        raise Failed("cat does not see what the program should not")
    # As a child: given to `millrace exec` itself, it is refused before it starts.
    done = world.run(["sh", "-c", '"$0" "$1"; exit $?', program, f"{MOUNT}/there"], accept=True)
    if done.returncode == 0 or "no such file" not in (done.stdout + done.stderr).lower():
        raise Failed(f"it says {done.stdout + done.stderr!r}, not that there is no such file")
    return "limit: it finds nothing there (ENOENT), as documented; `millrace mount` is for such programs"


def static(world):
    program = world.work / "seen"
    world.run([need("cc"), "-static", "-O2", "-o", program, SOURCES / "seen.c"], mount=False)
    return version_of(world, "cc"), unreached(world, program)


def go(world):
    program = world.work / "seen-go"
    folders = {"GOCACHE": str(world.work / "go-cache"), "GOPATH": str(world.work / "go")}
    environment = folders | {"CGO_ENABLED": "0", "GO111MODULE": "off"}
    compiler = need("go")
    world.run([compiler, "build", "-o", program, SOURCES / "seen.go"], mount=False, env=environment)
    return version_of(world, compiler, "version"), unreached(world, program)
