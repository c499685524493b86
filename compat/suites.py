"""Suites that exercise a file system: every call a program may make (stress-ng), and loads of many files."""

import re

from tools import version_of
from world import MOUNT, Failed, need

# stress-ng's that work on files, locks, directories and pipes, and check what they did. Those that fill the disk are left out.
STRESSORS = """access aio aiol chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fcntl fiemap fifo file-ioctl filename
flock fpunch fsize fstat getdent handle hdd inode-flags io iomix lease link locka lockf lockofd mknod mmap mmapfork msync open readahead
rename revio seek sendfile splice symlink sync-file touch utime""".split()
# What a mount has not; preload.md names each.
WITHOUT = {"inotify": "no watch for changes (ENOSYS)", "xattr": "no extended attributes"}
POSTMARK = "set location {folder}\nset number 500\nset transactions 1000\nset size 500 20000\nrun\nquit\n"


def cases(seconds):
    yield "stress-ng", f"{len(STRESSORS)} stressors of files, one after the other, 2 s each, `--verify`", stressed
    for name, limit in WITHOUT.items():
        yield "stress-ng", f"`--{name} 1 --verify`", lambda world, name=name, limit=limit: without(world, name, limit)
    yield "dbench", f"4 clients, {seconds} s", lambda world: dbench(world, seconds)
    yield "bonnie++", "a file of 128 MiB, 4,096 small ones", bonnie
    yield "fs_mark", "1,000 files of 16 KiB in 10 directories, fsync before each close", fs_mark
    yield "postmark", "500 files, 1,000 transactions", postmark
    yield "sysbench", f"fileio: random reads and writes of 64 files for {seconds} s, `--file-fsync-all`, `--validate`", lambda world: fileio(world, seconds)


def folder_of(world, name):
    """A new directory of the export, and where programs see it."""
    (world.export / name).mkdir()
    return f"{MOUNT}/{name}"


def stress(world, folder, name, seconds=2, **how):
    options = [f"--{name}", "1", "--timeout", str(seconds), "--verify", "--temp-path", folder]
    return world.run([need("stress-ng"), *options], timeout=180, **how)


def stressed(world):
    need("stress-ng")
    folder, wrong = folder_of(world, "stress"), []
    for name in STRESSORS:
        done = stress(world, folder, name, accept=True)
        if done.returncode:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "fail:" in line or "error:" in line]
            wrong.append(f"{name}: exit code {done.returncode}: {(said or [''])[0]}")
    if wrong:
        raise Failed("; ".join(wrong))
    return version_of(world, "stress-ng"), "no stressor found a fault"


def without(world, name, limit):
    need("stress-ng")
    done = stress(world, folder_of(world, f"stress-{name}"), name, accept=True)
    if done.returncode == 0:
        raise Failed("it works: this is no limit any more")
    return version_of(world, "stress-ng"), f"limit: {limit}, as documented"


def dbench(world, seconds):
    done = world.run([need("dbench"), "-D", folder_of(world, "dbench"), "-t", str(seconds), "4"], timeout=seconds + 180)
    rate = re.search(r"Throughput ([\d.]+) MB/sec", done.stdout)
    if not rate or "failed" in done.stdout.lower():
        raise Failed("no throughput, or an operation that failed")
    return version_of(world, "dbench"), "no operation failed"


def bonnie(world):
    options = ["-u", "root", "-s", "128", "-r", "64", "-n", "4", "-q"]
    done = world.run([need("bonnie++"), "-d", folder_of(world, "bonnie"), *options])
    if not done.stdout.strip():
        raise Failed("it printed no result")
    return version_of(world, "bonnie++"), "each part ended"


def fs_mark(world):
    options = ["-d", folder_of(world, "fs-mark"), "-n", "1000", "-s", "16384", "-D", "10", "-S", "1", "-k", "-v"]
    world.run([need("fs_mark"), *options])
    files = sum(1 for file in (world.export / "fs-mark").rglob("*") if file.is_file() and file.stat().st_size == 16384)
    if files != 1000:
        raise Failed(f"{files} whole files on the export, not 1,000")
    return version_of(world, "fs_mark"), "1,000 whole files on the export"


def postmark(world):
    folder = folder_of(world, "postmark")
    done = world.run([need("postmark")], input=POSTMARK.format(folder=folder))
    if "Deletion alone" not in done.stdout or "Error" in done.stdout:
        raise Failed("it did not come to its end without an error")
    if left := list((world.export / "postmark").iterdir()):
        raise Failed(f"{len(left)} files are left")
    return version_of(world, "postmark"), "each transaction done, no file left"


def fileio(world, seconds):
    folder = folder_of(world, "sysbench")
    program = [need("sysbench"), "fileio", "--file-total-size=128M", "--file-num=64", "--file-test-mode=rndrw", "--validate=on"]
    timed = [f"--time={seconds}", "--file-fsync-all=on", "--threads=4"]
    for step in (["prepare"], [*timed, "run"], ["cleanup"]):
        # It works where it stands.
        world.run(["sh", "-c", 'cd "$0" && exec "$@"', folder, *program, *step], timeout=seconds + 180)
    if left := list((world.export / "sysbench").iterdir()):
        raise Failed(f"{len(left)} files are left")
    return version_of(world, "sysbench"), "each block read was as it was written"
