"""What an order costs the processors: PostgreSQL on a local disk and over Direct NFS, by `millrace compare`. Used by run.py."""

import json
import os
import shutil
import subprocess
import time

MARK = "compare"  # first word of a command that is run here
PLAN = ["--warehouses", "2", "--users", "4", "--warmup", "3", "--seconds", "10", "--repeats", "1"]


def measurements(arguments):
    """(name, server, command) as in run.py: one row holds both paths."""
    if shutil.which("psql"):
        out = arguments.work / "compared"
        yield "orders on PostgreSQL", None, [MARK, out, arguments.release / "millrace", "compare", "--paths", "local,dnfs", *PLAN]


def run(command):
    """Processor seconds for 1,000 orders, by owner and path."""
    _, out, *program = command
    shutil.rmtree(out, ignore_errors=True)
    os.sync()  # what the last measurement left unstable is not this one's
    options = ["--no-gates", "--json", "--out", out]
    began = time.monotonic()
    # The other measurements keep clients on one processor; a database and its load share all of them.
    spread = lambda: os.sched_setaffinity(0, range(os.cpu_count()))  # noqa: E731
    ended = subprocess.run([*program, *options], capture_output=True, text=True, timeout=600, check=False, preexec_fn=spread)
    if ended.returncode != 0:
        raise RuntimeError(f"exit {ended.returncode}: {(ended.stderr.strip() or 'no message').splitlines()[-1][:300]}")
    paths = {path["name"]: path["cpu"]["by_owner"] for path in json.loads(ended.stdout)["paths"]}

    def seconds(path, owner):
        return paths[path][owner]["s_per_1000_orders"]

    took_s = time.monotonic() - began
    return {
        "database_local_s": seconds("local", "database"),
        "database_dnfs_s": seconds("dnfs", "database"),
        "filer_s": seconds("dnfs", "filer"),
        # What all measurements have: of 1,000 orders as one operation.
        "iops": 1 / took_s,
        "p50_us": took_s * 1e6,
        "p99_us": took_s * 1e6,
        "client_cpu_us_per_op": seconds("dnfs", "database") * 1e6,
        "server_cpu_us_per_op": seconds("dnfs", "filer") * 1e6,
    }


def judge(series, plain):
    """The lines about orders: `plain` is run.py's."""
    rows = series.get("orders on PostgreSQL") or []

    def median(figures):
        figures = sorted(figures)
        return figures[len(figures) // 2] if figures else None

    over = median(row["database_dnfs_s"] / row["database_local_s"] for row in rows)
    plain("database CPU of an order over Direct NFS, over local", over, 1.05)
    plain("filer CPU of 1,000 orders (s)", median(row["filer_s"] for row in rows))
