"""Durable writes, names and sequential transfers: the measurements of `make bench` about them, and how the flushes they
cause are counted. Used by run.py."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

NAMES = 10_000
NAMES_DEPTH = 32
IDLE_CONNECTIONS = 1_000
SECTOR_FLUSHES = 15  # field of a block device's stat: flush requests completed


class Flushes:
    """Flush requests to the disk under a directory. Of the whole disk: the host has to be quiet."""

    def __init__(self, directory):
        device = os.stat(directory).st_dev
        place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        # A partition has no flushes of its own.
        self.stat = place.resolve().parent / "stat" if (place / "partition").exists() else place / "stat"

    def count(self):
        with contextlib.suppress(OSError):
            fields = self.stat.read_text().split()
            if len(fields) > SECTOR_FLUSHES:
                return int(fields[SECTOR_FLUSHES])
        return None


def admin_stats(server):
    """What our filer says of itself; none of a foreign one."""
    if not server.admin:
        return None
    with socket.socket(socket.AF_UNIX) as talk:
        talk.connect(str(server.admin))
        talk.sendall(b'{"op":"stats"}\n')
        with talk.makefile() as answer:
            return json.loads(answer.readline())


def flush_calls(server, command, log):
    """System calls that flush, of a run of `command`, by strace; tracing slows the server, so the run counts for nothing else.
    RWF_DSYNC and RWF_SYNC are flushes too, one to a write."""
    tracer = shutil.which("strace")
    if not tracer:
        return None
    traced = "fsync,fdatasync,syncfs,sync_file_range,pwritev2"
    # Into a file: a pipe that nobody empties would stop the server.
    tracing = subprocess.Popen([tracer, "-f", "-qq", "-o", log, "-e", f"trace={traced}", "-e", "signal=none",
                                "-p", str(server.process.pid)])
    try:
        wait_until_traced(server.process.pid, tracing)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    finally:
        tracing.send_signal(signal.SIGINT)
        tracing.wait()
    if ran.returncode != 0:
        return None
    figures = json.loads(ran.stdout.strip().splitlines()[-1])
    calls = len(re.findall(r"\b(?:fsync|fdatasync|syncfs|sync_file_range)\(|pwritev2\([^\n]*RWF_D?SYNC", log.read_text()))
    return calls / figures["operations"] if figures["operations"] else None


def wait_until_traced(pid, tracing):
    deadline = time.monotonic() + 10
    while tracing.poll() is None and time.monotonic() < deadline:
        states = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
                states.append((task / "status").read_text())
        if states and all(f"TracerPid:\t{tracing.pid}" in state for state in states):
            return
        time.sleep(0.02)
    raise RuntimeError(f"strace does not trace process {pid}")


def fio_command(work, depth, seconds, file_bytes):
    """The baseline of stable writes: O_DIRECT and O_DSYNC at random places of an allocated file."""
    return ["fio", "--name=stable", f"--filename={work / 'fio'}", f"--size={file_bytes}", "--rw=randwrite", "--bs=8k", "--direct=1",
            "--sync=dsync", "--ioengine=psync", f"--numjobs={depth}", "--thread", "--group_reporting", "--time_based",
            f"--runtime={seconds}", "--overwrite=1", "--allow_file_create=1", "--randrepeat=0", "--output-format=json"]


def run_fio(command):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        raise RuntimeError((ended.stderr or ended.stdout).strip().splitlines()[0][:300])
    write = json.loads(ended.stdout[ended.stdout.index("{"):])["jobs"][0]["write"]
    latency = write["clat_ns"]
    percentiles = latency.get("percentile", {})
    return {"iops": write["iops"], "operations": write["total_ios"], "p50_us": percentiles.get("50.000000", latency["mean"]) / 1e3,
            "p99_us": percentiles.get("99.000000", latency["max"]) / 1e3, "client_cpu_us_per_op": 0.0, "server_cpu_us_per_op": 0.0}


def measurements(arguments, servers, file_bytes):
    """(name, server, command) as in run.py."""
    programs, seconds = arguments.programs, str(arguments.seconds)
    for depth in (1, 32):
        if shutil.which("fio"):
            yield f"fio write {depth}", None, fio_command(arguments.work, depth, seconds, file_bytes)
    for server, place in servers.items():
        if place.why:
            continue
        load = lambda action, depth, path, size=file_bytes, connections=1: [
            programs / "libnfs_load", place.libnfs_url(), path, action, str(depth), seconds, str(size), str(connections)]
        if server != "battery":
            for depth in (1, 32):
                yield f"libnfs extend {depth} on {server}", place, load("extend", depth, f"/extended-{server}")
            for action in ("read", "write"):
                yield f"libnfs {action} 32 by 4 on {server}", place, load(action, 8, "/data", connections=4)
            for action in ("seqread", "seqwrite"):
                yield f"libnfs {action} 4 on {server}", place, load(action, 4, "/sequential")
        yield f"libnfs names {NAMES_DEPTH} on {server}", place, load("names", NAMES_DEPTH, f"/name-{server}", size=NAMES)


def count_flushes(arguments, servers, file_bytes):
    """Flush calls per operation, each by a short traced run."""
    runs = []
    for name, server, command in measurements(arguments, servers, file_bytes):
        if server and re.search(r"extend|names", name):
            short = [str(word) for word in command]
            short[5], short[6] = "1", str(NAMES // 10) if "names" in name else short[6]
            runs.append((name, server, short))
    for server, place in servers.items():
        if not place.why and server != "battery":
            for depth in ("1", "32"):
                command = [arguments.programs / "libnfs_load", place.libnfs_url(), "/data", "write", depth, "1", str(file_bytes)]
                runs.append((f"libnfs write {depth} on {server}", place, command))
    counted = {}
    for name, server, command in runs:
        with contextlib.suppress(subprocess.TimeoutExpired, RuntimeError):
            counted[name] = flush_calls(server, command, arguments.work / "strace")
    return {name: value for name, value in counted.items() if value is not None}


def idle_memory_mib(server):
    """Resident memory of a server while 1,000 clients are connected and say nothing."""
    port = int(re.search(r"nfsport=(\d+)", server.url).group(1))
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        deadline = time.monotonic() + 20
        while admin_stats(server)["connections"] < IDLE_CONNECTIONS and time.monotonic() < deadline:
            time.sleep(0.05)
        if admin_stats(server)["connections"] < IDLE_CONNECTIONS:
            raise RuntimeError(f"the filer did not take {IDLE_CONNECTIONS} connections")
        return server.status_kib("VmRSS") / 1024


def judge(series, ratio, plain, flushes):
    """The lines about writes: `ratio` and `plain` are run.py's."""
    libnfs = "libnfs {} {} on {}".format
    for depth in (1, 32):
        ours, theirs = libnfs("write", depth, "millrace"), libnfs("write", depth, "ganesha")
        if depth == 1:
            ratio("stable write IOPS over Ganesha, depth 1", ours, theirs, "iops", 1.5, "at least")
        else:
            least_of_two(series, plain, ours, theirs, f"fio write {depth}")
        ratio(f"stable write IOPS over fio direct+dsync, depth {depth}", ours, f"fio write {depth}", "iops")
        a, b = libnfs("extend", depth, "millrace"), libnfs("extend", depth, "ganesha")
        ratio(f"extending stable write IOPS over Ganesha, depth {depth}", a, b, "iops", 1.0, "at least")
    ratio("p50 of a read over Ganesha, depth 1", libnfs("read", 1, "millrace"), libnfs("read", 1, "ganesha"), "p50_us", 0.9)
    for action in ("seqread", "seqwrite"):
        a, b = libnfs(action, 4, "millrace"), libnfs(action, 4, "ganesha")
        ratio(f"sequential {action[3:]}s of 1 MiB over Ganesha", a, b, "iops", 1.0, "at least")
    for action in ("read", "write"):
        a, b = libnfs(action, "32 by 4", "millrace"), libnfs(action, "32 by 4", "ganesha")
        sort = "stable write" if action == "write" else action
        ratio(f"{sort} IOPS over Ganesha, depth 32, 4 connections", a, b, "iops")
    ours, theirs = (libnfs("names", NAMES_DEPTH, server) for server in ("millrace", "ganesha"))
    # Compared like with like: where it does not flush names, what counts is ours without flushes.
    flushes_too = flushes.get(theirs, 0) > 0
    ratio("creates and removes over Ganesha, flushing", ours, theirs, "iops", 2.0 if flushes_too else None, "at least")
    without = libnfs("names", NAMES_DEPTH, "battery")
    ratio("creates and removes over Ganesha, by battery", without, theirs, "iops", None if flushes_too else 2.0, "at least")
    for name, value in sorted(flushes.items()):
        plain(f"flush calls per operation: {name}", value)
    for name, rows in sorted(series.items()):
        counted = [row["disk_flushes_per_op"] for row in rows if row.get("disk_flushes_per_op") is not None]
        if counted and re.search("write|extend|names", name):
            plain(f"disk flushes per operation: {name}", sorted(counted)[len(counted) // 2])


def least_of_two(series, plain, ours, theirs, fio):
    """At least the smaller of 3 times Ganesha and 0.7 of fio, in each round."""
    rows = [series.get(name) for name in (ours, theirs, fio)]
    what = "stable write IOPS over min(3 Ganesha, 0.7 fio), depth 32"
    if not all(rows):
        plain(what, None, 1.0, "at least")
        return
    values = sorted(a["iops"] / min(3 * b["iops"], 0.7 * c["iops"]) for a, b, c in zip(*rows))
    plain(what, values[len(values) // 2], 1.0, "at least", low=values[0], high=values[-1])
