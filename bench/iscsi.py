"""LUNs of our target beside tgt's: the measurements of `make bench` about iSCSI. Used by run.py."""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

LUN_BYTES = 256 << 20
TGT_NAME = "iqn.2026-11.test:bench"
TGT_CONTROL = "7"  # tgtadm finds its tgtd by it, in the /run that only this bench sees
FILL_TIMEOUT_S = 120


def start_target(stack, arguments, start_process, server):
    """Our target, with one LUN that is written all over: what was never written is read faster than the page cache. Its volume is
    `write-around`: tgt, too, reads through the page cache and is durable before it answers."""
    binary, work = arguments.release / "millrace", arguments.work
    folder, admin = work / "luns", work / "admin-luns"
    folder.mkdir()
    command = [binary, "serve", folder, "--listen", "127.0.0.1:0", "--iscsi", "127.0.0.1:0", "--state", work / "state-luns"]
    command += ["--cache", "write-around"]
    process = start_process(stack, [*command, "--admin", admin, "--json"], work / "target.log", stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline():
        raise RuntimeError(f"millrace serve --iscsi said nothing: {(work / 'target.log').read_text().strip()[-300:]}")
    said([binary, "lun", "create", "vol/bench", "--size", str(LUN_BYTES), "--admin", admin])
    luns = re.search(r"iscsi://\S+", said([binary, "lun", "list", "--admin", admin]))
    if not luns:
        raise RuntimeError("millrace lun list shows no URL")
    fill(binary, luns.group())
    return server(process, luns.group(), admin=admin)


def start_tgt(stack, arguments, start_process, server):
    """tgt with its default store on a file of as many bytes, beside ours."""
    for program in ("tgtd", "tgtadm"):
        if not shutil.which(program):
            raise RuntimeError(f"{program} is not installed (make setup-test)")
    store = arguments.work / "tgt-store"
    with open(store, "wb") as file:
        for _ in range(LUN_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["tgtd", "-f", "-C", TGT_CONTROL, "--iscsi", f"portal=127.0.0.1:{port}"]
    process = start_process(stack, command, arguments.work / "tgtd.log", stdout=subprocess.DEVNULL)
    admin = ["tgtadm", "-C", TGT_CONTROL, "--lld", "iscsi"]
    deadline = time.monotonic() + 20
    while subprocess.run([*admin, "--op", "show", "--mode", "sys"], capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"tgtd does not run: {(arguments.work / 'tgtd.log').read_text().strip()[-300:]}")
        time.sleep(0.05)
    said([*admin, "--op", "new", "--mode", "target", "--tid", "1", "-T", TGT_NAME])
    said([*admin, "--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", store])
    said([*admin, "--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"])
    return server(process, f"iscsi://127.0.0.1:{port}/{TGT_NAME}/1")


def said(command):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name}: {(ended.stderr or ended.stdout).strip()[:300]}")
    return ended.stdout


def fill(binary, url):
    """Writes each block of the LUN at least once, in their order."""
    seconds, deadline = 2, time.monotonic() + FILL_TIMEOUT_S
    while time.monotonic() < deadline:
        command = [binary, "iscsi", "bench", url, "--rw", "write", "--bs", "1MiB", "--depth", "8", "--overwrite", "--json"]
        written = re.search(r'"ops":(\d+)', said([*command, "--seconds", str(seconds)]))
        if written and int(written.group(1)) << 20 >= LUN_BYTES:
            return
        seconds *= 2
    raise RuntimeError(f"the LUN was not filled in {FILL_TIMEOUT_S} s")


def measurements(arguments, servers):
    """(name, server, command) as in run.py."""
    seconds = str(arguments.seconds)
    for server in ("target", "tgt"):
        place = servers.get(server)
        if place is None or place.why:
            continue
        for depth in (1, 32):
            for action in ("read", "write"):
                command = [arguments.release / "millrace", "iscsi", "bench", place.url, "--rw", f"rand{action}", "--bs", "8k"]
                command += ["--depth", str(depth), "--seconds", seconds, "--json"]
                command += ["--fua", "--overwrite"] if action == "write" else []
                yield f"iscsi {action} {depth} on {server}", place, command
        if shutil.which("iscsi-perf"):
            whole = str(max(1, round(arguments.seconds)))  # it counts in seconds
            yield f"iscsi-perf read 32 on {server}", place, ["iscsi-perf", "-m", "32", "-b", "16", "-t", whole, "-r", place.url]


def perf_figures(output, command, cpu_s):
    """What iscsi-perf said: its rate; latencies it does not measure."""
    rate = re.search(r"iops average (\d+) \(\d+ MB/s\)\s*\n\s*finished", output.replace("\r", "\n"))
    if not rate or int(rate.group(1)) == 0:
        raise RuntimeError(f"iscsi-perf: {output.strip()[-200:]}")
    iops = int(rate.group(1))
    operations = iops * int(command[command.index("-t") + 1])
    return {"iops": iops, "operations": operations, "p50_us": 0.0, "p99_us": 0.0, "client_cpu_us_per_op": cpu_s * 1e6 / operations}


def judge(series, ratio, plain):
    """The lines about iSCSI: `ratio` and `plain` are run.py's."""
    ours, theirs = "iscsi {} {} on target".format, "iscsi {} {} on tgt".format
    cpu = "server_cpu_us_per_op"
    rows = series.get(ours("read", 32))
    plain("target CPU of a read, depth 32 (us)", sorted(row[cpu] for row in rows)[len(rows) // 2] if rows else None, 6)
    # Theirs over ours: reads are the inverse of the CPU of one.
    ratio("LUN reads per server CPU second over tgt, depth 32", theirs("read", 32), ours("read", 32), cpu, 4, "at least")
    ratio("p50 of a LUN read over tgt, depth 1", ours("read", 1), theirs("read", 1), "p50_us", 0.8)
    ratio("LUN read IOPS over tgt, depth 32", ours("read", 32), theirs("read", 32), "iops")
    ratio("FUA write IOPS over tgt, depth 1", ours("write", 1), theirs("write", 1), "iops", 1.5, "at least")
    all_rows = [series.get(name) for name in (ours("write", 32), theirs("write", 32), "fio write 32")]
    values = sorted(a["iops"] / min(3 * b["iops"], 0.7 * c["iops"]) for a, b, c in zip(*all_rows)) if all(all_rows) else None
    what = "FUA write IOPS over min(3 tgt, 0.7 fio), depth 32"
    if values:
        plain(what, values[len(values) // 2], 1.0, "at least", low=values[0], high=values[-1])
    else:
        plain(what, None, 1.0, "at least")
    for server in ("target", "tgt"):
        a, b = f"iscsi read 32 on {server}", f"iscsi-perf read 32 on {server}"
        goal = 0.5 if server == "target" else None
        ratio(f"initiator CPU of a read over iscsi-perf, depth 32, {server}", a, b, "client_cpu_us_per_op", goal)
