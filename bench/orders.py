"""What an order costs the processors: PostgreSQL on a local disk and over Direct NFS, by `millrace compare`. Used by run.py."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import writes

MARK = "compare"  # first word of a command that is run here
USERS = 4
DATABASE_BYTES = 256 << 20  # of the file that the raw server works on: two warehouses; and of its log
PLAN = ["--warehouses", "2", "--users", str(USERS), "--warmup", "3", "--seconds", "10", "--repeats", "1"]
# The same, and once more with the same orders per minute on both paths.
BOTH_LOADS = Path(__file__).with_name("orders.toml")


def measurements(arguments, servers):
    """(name, server, command) as in run.py: one row holds both sides."""
    if not shutil.which("psql"):
        return
    program = [arguments.release / "millrace", "compare"]
    yield "orders on PostgreSQL", None, [MARK, arguments.work, *program, BOTH_LOADS]
    place = servers["millrace"]
    if not place.why:
        yield "calls of orders", place, [MARK, arguments.work, *program, *PLAN, "--path", f"dnfs={place.url}"]


def run(server, command, programs):
    """Processor time of one comparison; with a server, of the filer that served it, beside a raw server that does as many calls."""
    _, work, *program = command
    os.sync()  # what the last measurement left unstable is not this one's
    if not server:
        return for_an_order(compare(work, program)[0])
    spread(server.process.pid)
    try:
        calls, cpu_s = Calls(server), server.cpu_s()
        _, took_s = compare(work, program)
        cpu_us, done = (server.cpu_s() - cpu_s) * 1e6, calls.since()
    finally:
        server.pin()
    path = work / "export/raw"
    kinds = [f"{kind}:{size}:{count}" for kind, size, count in done if count > 0]
    raw = subprocess.run(
        [programs / "raw_calls", path, str(DATABASE_BYTES), str(USERS + 4), f"{took_s:.1f}", *kinds],
        capture_output=True, text=True, timeout=600, check=False, preexec_fn=spread,
    )
    for made in (path, work / "export/raw.log"):
        made.unlink(missing_ok=True)
    if raw.returncode != 0:
        raise RuntimeError(f"raw_calls: exit {raw.returncode}: {raw.stderr.strip()[:300]}")
    figures = json.loads(raw.stdout)
    return {
        "filer_over_raw": cpu_us / figures["server_cpu_us"],
        "raw_cpu_us_per_op": figures["server_cpu_us"] / figures["calls"],
        **of_all(took_s, 0, cpu_us / figures["calls"]),
    }


class Calls:
    """What a filer was asked for since this was made, as kinds of raw_calls.c."""

    def __init__(self, server):
        self.server = server
        self.before = self.now()

    def now(self):
        stats = writes.admin_stats(self.server)
        rows = {name: (row["calls"], row["bytes"]) for name, row in stats["procedures"].items()}
        return {**rows, "stable": (stats["stable_writes"], 0)}

    def since(self):
        """(kind, bytes, count) of each."""
        none = (0, 0)
        changed = {name: [b - a for a, b in zip(self.before.get(name, none), row)] for name, row in self.now().items()}
        (reads, read), (writes_, written) = changed.get("READ", none), changed.get("WRITE", none)
        stable, commits = changed["stable"][0], changed.get("COMMIT", none)[0]
        others = sum(row[0] for name, row in changed.items() if name not in ("READ", "WRITE", "COMMIT", "stable"))
        size = written // max(1, writes_)
        yield "read", read // max(1, reads), reads
        yield "write", size, writes_ - stable
        yield "stable", size, stable
        yield "flush", 0, commits
        yield "other", 0, others


def spread(pid=0):
    """Lets a process, and all its threads, run on every processor: the other measurements keep clients on one and servers off it."""
    everywhere = range(os.cpu_count())
    for thread in os.listdir(f"/proc/{pid or 'self'}/task"):
        os.sched_setaffinity(int(thread), everywhere)


def compare(work, program):
    """The record of one comparison, and how long it took in s."""
    out = work / "compared"
    shutil.rmtree(out, ignore_errors=True)
    options = ["--no-gates", "--json", "--out", out]
    began = time.monotonic()
    ended = subprocess.run([*program, *options], capture_output=True, text=True, timeout=600, check=False, preexec_fn=spread)
    if ended.returncode != 0:
        raise RuntimeError(f"exit {ended.returncode}: {(ended.stderr.strip() or 'no message').splitlines()[-1][:300]}")
    return json.loads(ended.stdout), time.monotonic() - began


def for_an_order(record):
    """Processor seconds for 1,000 orders, by owner and path; `fixed`: at the same orders per minute on both paths."""

    def seconds(paths, path, owner):
        return next(one for one in paths if one["name"] == path)["cpu"]["by_owner"][owner]["s_per_1000_orders"]

    paths, fixed = record["paths"], record["regimes"][0]["paths"]
    database_s = seconds(paths, "dnfs", "database")
    filer_s = seconds(paths, "dnfs", "filer")
    return {
        "database_local_s": seconds(paths, "local", "database"),
        "database_dnfs_s": database_s,
        "database_local_fixed_s": seconds(fixed, "local", "database"),
        "database_dnfs_fixed_s": seconds(fixed, "dnfs", "database"),
        "filer_s": filer_s,
        **of_all(record["elapsed_s"], database_s * 1e3, filer_s * 1e3),
    }


def of_all(took_s, client_us, server_us):
    """What all measurements have, of one comparison as one operation."""
    both = {"client_cpu_us_per_op": client_us, "server_cpu_us_per_op": server_us}
    return {"iops": 1 / took_s, "p50_us": took_s * 1e6, "p99_us": took_s * 1e6, **both}


def judge(series, plain):
    """The lines about orders: `plain` is run.py's."""
    rows = series.get("orders on PostgreSQL") or []

    def median(figures):
        figures = sorted(figures)
        return figures[len(figures) // 2] if figures else None

    over = median(row["database_dnfs_s"] / row["database_local_s"] for row in rows)
    plain("database CPU of an order over Direct NFS, over local", over, 1.05)
    over = median(row["database_dnfs_fixed_s"] / row["database_local_fixed_s"] for row in rows)
    plain("the same at the same orders per minute", over, 1.05)
    plain("filer CPU of 1,000 orders (s)", median(row["filer_s"] for row in rows))
    over = median(row["filer_over_raw"] for row in series.get("calls of orders") or [])
    plain("filer CPU of the calls of orders, over a raw TCP server", over, 1.5)
