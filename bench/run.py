"""Runs the rounds of `make bench` and prints ratios, each with its goal. Started by scripts/bench, which has
made the name spaces and the work directory; see bench/README.md for what is measured and why."""

import argparse
import contextlib
import json
import os
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import applications
import iscsi
import orders
import writes

BLOCK_BYTES = 8192
FILE_BYTES = 256 << 20
MEMORY_CONNECTIONS = 64
NFS_SERVERS = ("millrace", "battery", "ganesha")
READY_TIMEOUT_S = 20
ALL_CPUS = frozenset(os.sched_getaffinity(0))
CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.sched_setaffinity(0, client_cpus())  # and of every load started from here
    with contextlib.ExitStack() as stack:
        export = make_export(arguments.work)
        applications.make_files(arguments, export)
        servers = start_servers(stack, arguments, export)
        series = measure(arguments, servers)
        memory = measure_memory(arguments, servers)
        files = {name: server for name, server in servers.items() if name in NFS_SERVERS}
        flushes = writes.count_flushes(arguments, files, FILE_BYTES) if not arguments.only else {}
    lines = judge(series, memory, flushes)
    record = {
        "schema": 1,
        "environment": environment(),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "file_bytes": FILE_BYTES,
        "unavailable": {name: server.why for name, server in servers.items() if server.why},
        "series": series,
        "memory": memory,
        "flush_calls_per_operation": flushes,
        "lines": lines,
    }
    print_report(record)
    if arguments.record:
        Path(arguments.record).write_text(json.dumps(record, indent=1) + "\n")
    missed = any(line["verdict"] == "missed" for line in lines)
    return 1 if missed and arguments.strict else 0


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Speed and memory as ratios against peers.")
    parser.add_argument("--programs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--release", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each measurement (default 2)")
    parser.add_argument("--only", default="", help="measurements whose name contains this")
    parser.add_argument("--record", metavar="FILE", help="write every figure there")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a goal is missed")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.seconds <= 0:
        parser.error("rounds and seconds must be positive")
    return arguments


def make_export(work):
    """A directory with two files that fit the page cache: of reads, the disk is not what is measured."""
    export = work / "export"
    export.mkdir()
    export.chmod(0o777)
    block = os.urandom(1 << 20)
    for name in ("data", "sequential"):
        data = export / name
        with open(data, "wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(block)
            os.fsync(file.fileno())
        data.chmod(0o666)
    return export


def client_cpus():
    """One CPU for the clients, the others for the servers. Left to the scheduler, a pair at depth 1 sometimes
    shares a core and sometimes wakes the other one, and p50 jumps between 9 and 60 us from round to round."""
    cpus = sorted(ALL_CPUS)
    return {cpus[0]} if len(cpus) > 1 else set(cpus)


def server_cpus():
    return set(ALL_CPUS) - client_cpus() or set(ALL_CPUS)


class Server:
    """A running server, or the reason why there is none."""

    def __init__(self, process=None, url=None, why=None, admin=None):
        self.process, self.url, self.why, self.admin = process, url, why, admin

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * CLOCK_TICK_S

    def pin(self):
        """Puts all its threads on the processors of servers."""
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(thread), server_cpus())

    def status_kib(self, field):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise RuntimeError(f"no {field} in the status of {self.process.pid}")

    def libnfs_url(self):
        """Version 4 of libnfs takes a port only as an option, not behind the host."""
        return re.sub(r"^(nfs://[^/:]+):\d+/", r"\1/", self.url)

    def libnfs_file_url(self, name):
        address, question, options = self.libnfs_url().partition("?")
        return f"{address}/{name}{question}{options}"

    def file_url(self, name):
        address, question, options = self.url.partition("?")
        return f"{address}/{name}{question}{options}"


def start_servers(stack, arguments, export):
    servers = {}
    for name, start in (("millrace", start_millrace), ("battery", start_battery), ("ganesha", start_ganesha)):
        try:
            servers[name] = start(stack, arguments, export)
        except (OSError, RuntimeError, ValueError) as error:
            servers[name] = Server(why=str(error))
            print(f"bench: {name} is left out: {error}", file=sys.stderr)
    for name, start in (("target", iscsi.start_target), ("tgt", iscsi.start_tgt)):
        try:
            servers[name] = start(stack, arguments, start_process, Server)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            servers[name] = Server(why=str(error))
            print(f"bench: {name} is left out: {error}", file=sys.stderr)
    return servers


def start_process(stack, command, log, **options):
    with open(log, "wb") as sink:
        process = subprocess.Popen(command, stderr=sink, stdin=subprocess.DEVNULL, **options)
    os.sched_setaffinity(process.pid, server_cpus())
    stack.callback(stop, process)
    return process


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_battery(stack, arguments, export):
    """Ours without flushes, for what a peer does not flush either. A directory is served by one filer: it has its own, without data."""
    own = export.with_name("export-battery")
    own.mkdir()
    own.chmod(0o777)
    return start_millrace(stack, arguments, own, "battery")


def start_millrace(stack, arguments, export, durability="sync"):
    binary = arguments.release / "millrace"
    if not binary.exists():
        raise RuntimeError(f"{binary} is not built (make build)")
    log, admin = arguments.work / f"millrace-{durability}.log", arguments.work / f"admin-{durability}"
    command = [binary, "serve", export, "--listen", "127.0.0.1:0", "--state", arguments.work / f"state-{durability}"]
    command += ["--admin", admin, "--json", "--no-root-squash", "--durability", durability]
    process = start_process(stack, command, log, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"millrace serve said nothing: {log.read_text().strip()[-300:]}")
    return Server(process, json.loads(line)["nfs"], admin=admin)


def start_ganesha(stack, arguments, export):
    """rpcbind first (Ganesha ends without one), both on a /run that nobody else sees."""
    work = arguments.work
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    for folder in ("/run/rpcbind", "/run/ganesha"):
        os.makedirs(folder)
    start_process(stack, ["rpcbind", "-f", "-i"], work / "rpcbind.log", stdout=subprocess.DEVNULL)
    wait_for_port(111, "rpcbind")
    config = work / "ganesha.conf"
    config.write_text(f"""
NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_RQUOTA = false; Enable_NLM = false; mount_path_pseudo = false; }}
EXPORT {{ Export_Id = 1; Path = {export}; Pseudo = /vol; Access_Type = RW; Squash = No_Root_Squash;
  Protocols = 3; Transports = TCP; SecType = sys; FSAL {{ Name = VFS; }} }}
""")
    log = work / "ganesha.log"
    command = ["ganesha.nfsd", "-F", "-f", config, "-L", log, "-p", work / "ganesha.pid", "-N", "NIV_EVENT"]
    process = start_process(stack, command, work / "ganesha.out", stdout=subprocess.DEVNULL)
    wait_for_port(2049, "NFS-Ganesha", process, log)
    wait_for_port(20048, "NFS-Ganesha's MOUNT", process, log)
    return Server(process, f"nfs://127.0.0.1{export}?nfsport=2049&mountport=20048")


def wait_for_port(port, name, process=None, log=None):
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process and process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}: {log.read_text()[-300:] if log.exists() else ''}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{name} did not answer on port {port} within {READY_TIMEOUT_S} s")


def measurements(arguments, servers):
    """(name, server, command) of each measurement of a round, in the order they run."""
    programs, seconds = arguments.programs, str(arguments.seconds)
    for depth in (1, 32):
        raw = [programs / "raw_tcp", str(depth), seconds, str(min(server_cpus()))]
        yield f"raw TCP {depth}", None, raw
        yield f"raw TCP {depth} with pread", None, [*raw, arguments.work / "export/data"]
    for depth in (1, 32):
        for server in ("millrace", "ganesha"):
            for action in ("read", "write"):
                for client in ("libnfs", "dnfs"):
                    place = servers[server]
                    if place.why:
                        continue
                    if client == "libnfs":
                        command = [programs / "libnfs_load", place.libnfs_url(), "/data", action]
                        command += [str(depth), seconds, str(FILE_BYTES)]
                    elif servers["millrace"].why or (action, server) == ("write", "ganesha"):
                        continue  # our client's writes to a peer say nothing of our filer
                    else:
                        command = [arguments.release / "millrace", "nfs", "bench", "--rw", f"rand{action}", "--bs", "8k"]
                        command += ["--depth", str(depth), "--seconds", seconds, "--json", place.file_url("data")]
                        command += ["--stable", "file", "--overwrite"] if action == "write" else []
                    yield f"{client} {action} {depth} on {server}", place, command
    files = {name: server for name, server in servers.items() if name in NFS_SERVERS}
    yield from writes.measurements(arguments, files, FILE_BYTES)
    yield from iscsi.measurements(arguments, servers)
    yield from applications.measurements(arguments, servers)
    yield from orders.measurements(arguments, servers)


def measure(arguments, servers):
    plan = [row for row in measurements(arguments, servers) if arguments.only in row[0]]
    total = arguments.rounds * len(plan)
    series, broken, done, began = {}, {}, 0, time.monotonic()
    flushes = writes.Flushes(arguments.work)
    for round_number in range(arguments.rounds):
        # Every other round runs backwards, so that a drift of the host hits no series always first.
        for name, server, command in plan if round_number % 2 == 0 else reversed(plan):
            done += 1
            if name in broken:
                continue
            left_s = (total - done + 1) * arguments.seconds * 1.05
            progress(f"[{done}/{total}] round {round_number + 1}: {name}, about {left_s:.0f} s left")
            try:
                series.setdefault(name, []).append(run_load(server, command, arguments.seconds, flushes, arguments.programs))
            except RuntimeError as error:
                broken[name] = str(error)
                print(f"bench: {name} is left out: {error}", file=sys.stderr)
    for name in broken:
        series.pop(name, None)
    progress(f"measured in {time.monotonic() - began:.0f} s", last=True)
    return series


def run_load(server, command, seconds, flushes=None, programs=None):
    if command[0] == "fio":
        return writes.run_fio(command)
    if command[0] == applications.MARK:
        return applications.run(server, command)
    if command[0] == orders.MARK:
        return orders.run(server, command, programs)
    os.sync()  # what the last measurement left unstable is not this one's
    before_s, flushed = server.cpu_s() if server else 0, flushes.count() if flushes else None
    is_perf, client_s = command[0] == "iscsi-perf", children_cpu_s()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds * 4 + 120, check=False)
    if ended.returncode != 0:
        said = ended.stderr.strip() or "no message"
        raise RuntimeError(f"exit {ended.returncode}: {said.splitlines()[0][:300]}")
    if is_perf:
        figures = iscsi.perf_figures(ended.stdout, command, children_cpu_s() - client_s)
    else:
        figures = json.loads(ended.stdout.strip().splitlines()[-1])
    if server:
        operations = figures.get("operations") or figures["iops"] * seconds
        if flushed is not None:
            figures["disk_flushes_per_op"] = (flushes.count() - flushed) / operations
        figures["server_cpu_us_per_op"] = (server.cpu_s() - before_s) * 1e6 / operations
    return figures


def children_cpu_s():
    """Processor time of the programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_memory(arguments, servers):
    """Resident memory of each server while 64 connections read from it, and what the preload adds to a process."""
    memory = {}
    # The server restarted would be fairer still; but high-water marks only rise, so this can only look worse.
    for name, server in servers.items():
        if server.why or name not in NFS_SERVERS:
            continue
        command = [arguments.programs / "libnfs_load", server.libnfs_url(), "/data", "read", "4", "3"]
        command += [str(FILE_BYTES), str(MEMORY_CONNECTIONS)]
        with contextlib.suppress(RuntimeError):
            run_load(server, command, 3)
            memory[f"{name} peak MiB"] = server.status_kib("VmHWM") / 1024
            memory[f"{name} after MiB"] = server.status_kib("VmRSS") / 1024
    if not servers["millrace"].why:
        with contextlib.suppress(RuntimeError):
            memory["preload adds MiB"] = preload_memory_mib(arguments, servers["millrace"])
        with contextlib.suppress(RuntimeError, OSError):
            memory["idle MiB"] = writes.idle_memory_mib(servers["millrace"])
    return memory


# Reads one MiB of a file, then says how much memory belongs to this process alone.
PROBE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for block in range(128):
    os.pread(fd, 8192, block * 8192)
print(sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith(('Private_', 'Pss_Shmem'))))
"""


def preload_memory_mib(arguments, server):
    def private_kib(command, path):
        run = subprocess.run([*command, sys.executable, "-c", PROBE, path], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        return int(run.stdout)

    under = [arguments.release / "millrace", "exec", "--mount", f"/millrace-bench={server.url}", "--"]
    plain = [private_kib([], str(arguments.work / "export/data")) for _ in range(3)]
    preloaded = [private_kib(under, "/millrace-bench/data") for _ in range(3)]
    return (statistics.median(preloaded) - statistics.median(plain)) / 1024


def judge(series, memory, flushes):
    """The lines of the report: a ratio of two series in the same rounds, or a plain figure, and its goal."""
    lines = []

    def ratio(what, over, under, figure, goal=None, over_is="at most"):
        a, b = series.get(over), series.get(under)
        if not a or not b:
            lines.append(not_measured(what, goal, over_is))
            return
        values = sorted(x[figure] / y[figure] for x, y in zip(a, b) if y[figure] > 0)
        value = statistics.median(values)
        detail = f"{median(a, figure):.4g} / {median(b, figure):.4g} {figure}"
        lines.append(line(what, value, goal, over_is, low=values[0], high=values[-1], detail=detail))

    def plain(what, value, goal=None, over_is="at most", **more):
        if value is None:
            lines.append(not_measured(what, goal, over_is))
        else:
            lines.append(line(what, value, goal, over_is, **more))

    dnfs, libnfs = "dnfs {} {} on {}".format, "libnfs {} {} on {}".format
    ratio("dnfs p50 over raw TCP, depth 1", dnfs("read", 1, "millrace"), "raw TCP 1", "p50_us", 1.05)
    ratio("dnfs client CPU over raw TCP, depth 1", dnfs("read", 1, "millrace"), "raw TCP 1", "client_cpu_us_per_op", 1.05)
    ratio("dnfs client CPU over raw TCP, depth 32", dnfs("read", 32, "millrace"), "raw TCP 32", "client_cpu_us_per_op", 1.3)
    # A server that reads nothing has two system calls less for each request than any that serves a file.
    ratio("dnfs p50 over raw TCP with fstat and pread, depth 1", dnfs("read", 1, "millrace"), "raw TCP 1 with pread", "p50_us")
    ratio("raw reads per client CPU second over libnfs, depth 32", libnfs("read", 32, "millrace"), "raw TCP 32 with pread", "client_cpu_us_per_op")
    for server in ("millrace", "ganesha"):
        a, b = dnfs("read", 32, server), libnfs("read", 32, server)
        goal = server == "millrace"
        ratio(f"dnfs IOPS over libnfs, depth 32, {server}", a, b, "iops", 1.0 if goal else None, "at least")
        # Theirs over ours: reads are the inverse of the CPU of one.
        ratio(f"reads per client CPU second over libnfs, depth 32, {server}", b, a, "client_cpu_us_per_op", 3 if goal else None, "at least")
    for client in ("dnfs", "libnfs"):
        for by in ("", " by 4") if client == "libnfs" else ("",):
            a, b = f"{client} read 32{by} on millrace", f"{client} read 32{by} on ganesha"
            who = f"{client}, 4 connections" if by else client
            ratio(f"reads per server CPU second over Ganesha, depth 32, {who}", b, a, "server_cpu_us_per_op", 4, "at least")
            plain(f"filer CPU of a read, depth 32, {who} (us)", median(series[a], "server_cpu_us_per_op") if series.get(a) else None, 6)
    for depth in (1, 32):
        a, b = libnfs("read", depth, "millrace"), libnfs("read", depth, "ganesha")
        ratio(f"filer IOPS over Ganesha, read, depth {depth}, by libnfs", a, b, "iops")
    writes.judge(series, ratio, plain, flushes)
    iscsi.judge(series, ratio, plain)
    applications.judge(series, ratio, plain)
    orders.judge(series, plain)
    for what, key, goal in (
        (f"filer peak memory, {MEMORY_CONNECTIONS} connections (MiB)", "millrace peak MiB", 64),
        (f"Ganesha peak memory, {MEMORY_CONNECTIONS} connections (MiB)", "ganesha peak MiB", None),
        ("preload adds to a process (MiB)", "preload adds MiB", 8),
        (f"filer memory, {writes.IDLE_CONNECTIONS} idle connections (MiB)", "idle MiB", 64),
    ):
        if key in memory:
            lines.append(line(what, memory[key], goal, "below"))
        else:
            lines.append(not_measured(what, goal, "below"))
    return lines


def not_measured(what, goal, over_is):
    return {"what": what, "value": None, "goal": goal, "goal_is": over_is, "verdict": "not measured"}


def line(what, value, goal, over_is, low=None, high=None, detail=""):
    verdict = ""
    if goal is not None:
        met = value >= goal if over_is == "at least" else value < goal if over_is == "below" else value <= goal
        verdict = "met" if met else "missed"
    return {"what": what, "value": value, "low": low, "high": high, "goal": goal, "goal_is": over_is,
            "verdict": verdict, "detail": detail}


def median(rows, figure):
    return statistics.median(row[figure] for row in rows)


def print_report(record):
    env = record["environment"]
    print(f"\nmillrace bench: loopback, {env['cores']} cores ({env['cpu']}): clients on {env['client_cpus']}, "
          f"servers on {env['server_cpus']}; commit {env['commit']}")
    print(f"medians of {record['rounds']} interleaved rounds of {record['seconds']:g} s, 8 KiB random, "
          f"file of {record['file_bytes'] >> 20} MiB in the page cache; load at start {env['load']}\n")
    print(f"{'measurement':<34}{'IOPS':>10}{'p50 us':>9}{'p99 us':>9}{'client us/op':>14}{'server us/op':>14}")
    for name, rows in record["series"].items():
        print(f"{name:<34}{median(rows, 'iops'):>10.0f}{median(rows, 'p50_us'):>9.1f}{median(rows, 'p99_us'):>9.1f}"
              f"{median(rows, 'client_cpu_us_per_op'):>14.2f}{median(rows, 'server_cpu_us_per_op'):>14.2f}")
    print(f"\n{'ratio or figure':<66}{'median':>8}{'range':>15}{'goal':>12}")
    for row in record["lines"]:
        value = "-" if row["value"] is None else f"{row['value']:.2f}"
        span = f"{row['low']:.2f}..{row['high']:.2f}" if row.get("low") is not None else ""
        goal = "" if row["goal"] is None else f"{goal_sign(row)} {row['goal']:g}"
        print(f"{row['what']:<66}{value:>8}{span:>15}{goal:>12}  {row['verdict']}")
    for name, why in record["unavailable"].items():
        print(f"left out: {name}: {why}")
    print("orders per minute over dNFS against local disk: make compare (goal >= 0.6)")


def goal_sign(row):
    return {"at least": ">=", "below": "<"}.get(row.get("goal_is"), "<=")


def environment():
    def said(*command):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.stdout.strip().splitlines()[0] if run.returncode == 0 and run.stdout.strip() else "unknown"

    cpu = next((l.split(":", 1)[1].strip() for l in Path("/proc/cpuinfo").read_text().splitlines()
                if l.startswith("model name")), platform.machine())
    return {
        "cpu": cpu,
        "cores": len(ALL_CPUS),
        "client_cpus": sorted(client_cpus()),
        "server_cpus": sorted(server_cpus()),
        "kernel": platform.release(),
        "commit": said("git", "describe", "--always", "--dirty"),
        "load": os.getloadavg()[0],
        "ganesha": said("dpkg-query", "-W", "-f=${Version}", "nfs-ganesha"),
        "libnfs": said("dpkg-query", "-W", "-f=${Version}", "libnfs-dev"),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def progress(text, last=False):
    width = shutil.get_terminal_size().columns - 1
    if sys.stderr.isatty():
        print(f"\r{text[:width]:<{width}}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last or text.startswith("[1/") or int(text[1:].split("/")[0]) % 10 == 0:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as fault:
        print(f"bench: {fault}", file=sys.stderr)
        sys.exit(2)
