"""Runs each program on a Direct NFS mount and says what came out. Started by scripts/programs."""

import argparse
import ctypes
import itertools
import json
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import databases
import languages
import loads
import postgres
import suites
import tools
from world import Failed, NotInstalled, World

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/compat/programs.md"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HEAD = ["program", "version", "what was run", "result"]
# How a result on the page begins, by verdict; the last fits any.
MARKS = {"limit": "limit: ", "failed": "**failed**: ", "not installed": "not installed (", "done": ""}
PR_SET_CHILD_SUBREAPER = 36
# A keeper ends about four seconds after the last program of its mount.
KEEPERS_END_S = 15

EXAMPLES = """examples:
  scripts/programs                    every case, a table at the end
  scripts/programs --only git         cases whose program or text contains this
  scripts/programs --seconds 60       fio and pgbench run longer
  scripts/programs --write            renews docs/compat/programs.md; with --only, those rows alone
  MILLRACE_TEST_PG_BIN=$(scripts/newer-postgres 18) scripts/programs --only PostgreSQL

exit codes: 0 nothing failed, 1 a case failed (its output is kept and named), 2 could not start, 130 Ctrl-C"""


def main():
    arguments = parse_arguments()
    for file in ("millrace", "libmillrace_preload.so"):
        if not (arguments.release / file).exists():
            return refuse(f"cannot find {arguments.release / file}", "build it (cargo build --release) or give --release DIR")
    if Path("/m").exists() and any(Path("/m").iterdir()):
        return refuse("/m is in use on this host", "the cases see the export there: rename it meanwhile")
    work = Path(tempfile.mkdtemp(prefix="millrace-programs-", dir="/var/tmp"))
    work.chmod(0o755)
    return supervise(work, lambda: run_cases(arguments, work))


def refuse(what, fix):
    print(f"programs: {what}: {fix}", file=sys.stderr)
    return 2


def parse_arguments():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/programs", formatter_class=plain, epilog=EXAMPLES)
    parser.description = "Runs programs on a Direct NFS mount of a fresh export, and compares with a local directory."
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose program or text contains this")
    parser.add_argument("--seconds", type=int, default=10, metavar="N", help="of each load (default 10)")
    parser.add_argument("--write", action="store_true", help="renew docs/compat/programs.md")
    parser.add_argument("--json", action="store_true", help="print the results as a JSON array")
    built = "where millrace and its library are (default: target/release)"
    parser.add_argument("--release", type=Path, default=TARGET / "release", metavar="DIR", help=built)
    arguments = parser.parse_args()
    if arguments.seconds < 1:
        parser.error("--seconds must be 1 or more")
    arguments.release = arguments.release.resolve()
    return arguments


def supervise(work, job):
    """Runs `job` in a child process. Orphans of any program become children of this process, so that they are waited
    for, and ended at the end, whatever way that comes; then the files go."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    runner = os.fork()
    if runner == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        code = 2
        try:
            code = job()
        except KeyboardInterrupt:
            code = 130
        except SystemExit as end:
            if isinstance(end.code, int):
                code = end.code
            else:
                print(end.code, file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(runner, signal.SIGTERM))
    code, pid = 1, 0
    while pid != runner:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
    while left := descendants(os.getpid()):
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for _ in left:
            try:
                os.wait()
            except ChildProcessError:
                break
    for memory in Path("/dev/shm").glob(work.name + "-*"):
        shutil.rmtree(memory, ignore_errors=True)
    shutil.rmtree(work)
    return code if code >= 0 else 128 - code


def descendants(ancestor):
    """Processes below `ancestor`, zombies included."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
    found, fresh = [], [ancestor]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def run_cases(arguments, work):
    world = World(work, arguments.release)
    try:
        rows = [run_case(arguments, world, *case) for case in all_cases(arguments)]
        code = judge(arguments, [row for row in rows if row])
        await_keepers(world)
        return code
    finally:
        world.close()


def await_keepers(world):
    """They end by themselves; whatever is left is killed afterwards."""
    end = time.monotonic() + KEEPERS_END_S
    while set(descendants(os.getppid())) - {os.getpid(), world.filer.pid} and time.monotonic() < end:
        time.sleep(0.1)


def all_cases(arguments):
    """(program, what is run, function of World that gives (version, result)); a verdict comes from how it ends."""
    yield from tools.cases()
    yield from languages.cases()
    yield from loads.cases(arguments.seconds)
    yield from suites.cases(arguments.seconds)
    yield from postgres.cases(arguments.seconds)
    yield from databases.cases()


def run_case(arguments, world, program, what, function):
    if arguments.only.lower() not in f"{program} {what}".lower():
        return None
    progress(arguments, f"{program}: {what} …")
    begin, version, world.transcript = time.monotonic(), "", []
    try:
        version, result = function(world)
        verdict = "limit" if result.startswith("limit: ") else "done"
    except NotInstalled as missing:
        verdict, result = "not installed", f"not installed ({missing})"
    except Failed as failure:
        verdict, result = "failed", str(failure)
    seconds = time.monotonic() - begin
    row = {"program": program, "version": version, "run": what, "verdict": verdict, "result": result.removeprefix("limit: ")}
    row["seconds"] = round(seconds, 1)
    if verdict == "failed":
        row["output"] = str(keep_output(world, program, what))
        result += f" ({row['output']})"
    progress(arguments, f"  {verdict}, {seconds:.0f} s: {row['result'] if verdict != 'failed' else result}")
    return row


def keep_output(world, program, what):
    folder = TARGET / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (re.sub(r"[^a-z0-9]+", "-", f"{program} {what[:30]}".lower()).strip("-") + ".txt")
    file.write_text("\n".join(world.transcript) + "\n\n# the filer\n" + (world.work / "filer.log").read_text())
    return file


def progress(arguments, line):
    print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)


def judge(arguments, rows):
    if not rows:
        return refuse(f"no case has '{arguments.only}' in its text", "scripts/programs without --only runs all of them")
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print("\n" + table(rows))
    if arguments.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(arguments, renewed(rows) if arguments.only else rows))
    progress(arguments, counted(rows))
    return 1 if any(row["verdict"] == "failed" for row in rows) else 0


def renewed(rows):
    """The rows of the page as it is, with these in the place of those of the same cases."""
    fresh = {(row["program"], row["run"]): row for row in rows}
    whole = []
    # Its first table: those behind it are of suites that were run by hand.
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    begin = next((at for at, line in enumerate(lines) if line.startswith("| ")), len(lines))
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[begin:]):
        cells = [cell.replace("\\|", "|") for cell in re.split(r" \| ", line.strip("| "))]
        if line.startswith("| ") and len(cells) == len(HEAD) and cells != HEAD:
            row = dict(zip(("program", "version", "run", "result"), cells))
            row["verdict"] = next(verdict for verdict, mark in MARKS.items() if row["result"].startswith(mark))
            row["result"] = row["result"].removeprefix(MARKS[row["verdict"]]) if row["verdict"] != "not installed" else row["result"]
            whole.append(fresh.pop((row["program"], row["run"]), row))
    return whole + list(fresh.values())


def counted(rows):
    verdicts = [row["verdict"] for row in rows]
    words = {"done": "as on a local disk", "limit": "a documented limit", "failed": "failed", "not installed": "not installed"}
    return f"{len(rows)} cases: " + ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items())


def table(rows):
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|---|---|"]
    for row in rows:
        mark = "" if row["verdict"] == "not installed" else MARKS[row["verdict"]]
        cells = [row["program"], row["version"], row["run"], mark + row["result"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def page(arguments, rows):
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    host = f"{system}, Linux {platform.release().split('-')[0]}, {' '.join(platform.libc_ver())}, {os.cpu_count()} processors"
    head = (ROOT / "compat/page.md").read_text()
    who = "root" if os.getuid() == 0 else "a user"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    facts = f"Last run: {date}, by {who}, loads of {arguments.seconds} s, on {host}. {counted(rows)}."
    return head.replace("FACTS", facts).replace("TABLE", table(rows))


if __name__ == "__main__":
    sys.exit(main())
