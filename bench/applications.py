"""Unmodified programs over `millrace exec`, beside the tools of libnfs: the measurements of `make bench` about them. Used by run.py."""

import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time

import writes

BYTES = 1 << 30
SMALL_FILES = 2000
STARTS = 200
PREADS = 1000
MOUNT = "/millrace-bench"
MARK = "program"  # first word of a command that is run here
# Reads 8 KiB at places that do not follow each other.
READER = f"""
import os, sys
file = os.open("{MOUNT}/large", os.O_RDONLY)
for number in range(int(sys.argv[1])):
    assert len(os.pread(file, 8192, number * 7919 % {BYTES >> 13} * 8192)) == 8192
"""


def make_files(arguments, export):
    """A large file, in the export and beside it, and an archive of small ones."""
    block = os.urandom(1 << 20)
    for path in (export / "large", arguments.work / "large"):
        with open(path, "wb") as file:
            for _ in range(BYTES >> 20):
                file.write(block)
    with tarfile.open(arguments.work / "small.tar", "w") as archive:
        for number in range(SMALL_FILES):
            path = arguments.work / "small"
            path.write_bytes(block[: 100 + number])
            archive.add(path, f"small/{number % 20}/{number}")
    (export / "unpacked").mkdir(mode=0o777)
    (export / "unpacked").chmod(0o777)


def measurements(arguments, servers):
    """(name, server, command) as in run.py."""
    place = servers["millrace"]
    if place.why:
        return
    exec_ = [arguments.release / "millrace", "exec", "--mount", f"{MOUNT}={place.url}", "--"]
    local, copy, copied = arguments.work / "large", arguments.work / "copy", arguments.work / "export/copied"
    yield "cat of the mount", place, [MARK, None, *exec_, "cat", f"{MOUNT}/large"]
    yield "cp from the mount", place, [MARK, copy, *exec_, "cp", f"{MOUNT}/large", copy]
    yield "cp to the mount", place, [MARK, copied, *exec_, "cp", local, f"{MOUNT}/copied"]
    if shutil.which("nfs-cp"):
        yield "nfs-cp from the server", place, [MARK, copy, "nfs-cp", place.libnfs_file_url("large"), copy]
        yield "nfs-cp to the server", place, [MARK, copied, "nfs-cp", local, place.libnfs_file_url("copied")]
    unpack = ["tar", "xf", arguments.work / "small.tar", "-C", f"{MOUNT}/unpacked"]
    yield "tar of small files", place, [MARK, arguments.work / "export/unpacked/small", *exec_, *unpack]
    starts = f"i=0; while [ $i -lt {STARTS} ]; do /bin/true; i=$((i+1)); done"
    for count in (PREADS, 2 * PREADS):
        yield f"{count} preads", place, [MARK, None, "strace", "-f", "-c", "-o", arguments.work / "counted", *exec_, sys.executable, "-c", READER, str(count)]
    yield "starts under exec", place, [MARK, None, *exec_, "sh", "-c", starts]
    yield "starts", place, [MARK, None, "sh", "-c", starts]


def run(server, command):
    """Figures of one program that is run to its end; what it makes is removed before."""
    _, made, *program = command
    if made:
        subprocess.run(["rm", "-rf", made], check=True)
    os.sync()  # what the last measurement left unstable is not this one's
    server_s = server.cpu_s()
    before, calls = resource.getrusage(resource.RUSAGE_CHILDREN), total_calls(server)
    began = time.monotonic()
    ended = subprocess.run(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    took_s = time.monotonic() - began
    if ended.returncode != 0:
        raise RuntimeError(f"exit {ended.returncode}: {(ended.stderr.strip() or 'no message').splitlines()[0][:300]}")
    system_calls = counted(program) if "strace" in program else None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": took_s,
        "mib_per_s": BYTES / took_s / (1 << 20),
        "client_cpu_s": cpu_s,
        "calls": total_calls(server) - calls,
        "system_calls": system_calls,
        # What all measurements have: of one program run as one operation.
        "iops": 1 / took_s,
        "operations": 1,
        "p50_us": took_s * 1e6,
        "p99_us": took_s * 1e6,
        "client_cpu_us_per_op": cpu_s * 1e6,
        "server_cpu_us_per_op": (server.cpu_s() - server_s) * 1e6,
    }


def counted(program):
    """System calls of all kinds: the fourth column of the last line of `strace -c`."""
    return int(program[program.index("-o") + 1].read_text().strip().splitlines()[-1].split()[3])


def total_calls(server):
    return sum(procedure["calls"] for procedure in writes.admin_stats(server)["procedures"].values())


def judge(series, ratio, plain):
    """The lines about programs: `ratio` and `plain` are run.py's."""
    goal = (0.9, "at least")
    ratio("cat of 1 GiB over nfs-cp of libnfs", "cat of the mount", "nfs-cp from the server", "mib_per_s", *goal)
    ratio("cp of 1 GiB from the mount over nfs-cp of libnfs", "cp from the mount", "nfs-cp from the server", "mib_per_s", *goal)
    ratio("cp of 1 GiB to the mount over nfs-cp of libnfs", "cp to the mount", "nfs-cp to the server", "mib_per_s", *goal)
    rows = series.get("tar of small files")
    calls = sorted(row["calls"] / SMALL_FILES for row in rows) if rows else None
    plain("calls a file, tar x of small files", calls[len(calls) // 2] if calls else None, 5)
    pairs = list(zip(series.get(f"{2 * PREADS} preads") or [], series.get(f"{PREADS} preads") or []))
    each = sorted((a["system_calls"] - b["system_calls"]) / PREADS for a, b in pairs)
    plain("system calls of a pread of 8 KiB", each[len(each) // 2] if each else None, 3)
    pairs = list(zip(series.get("starts under exec") or [], series.get("starts") or []))
    added = sorted((a["seconds"] - b["seconds"]) / STARTS * 1000 for a, b in pairs)
    plain("start-up the preload adds to a program without a file of the mount (ms)", added[len(added) // 2] if added else None, 1.0)
