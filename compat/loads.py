"""fio: each engine writes and verifies what it wrote."""

import json
import re

from tools import version_of
from world import MOUNT, Failed, need

ENGINES = ("psync", "pvsync2", "libaio", "posixaio")
SETTING = "ioengine=libaio"


def cases(seconds):
    for engine in ENGINES:
        what = f"`--ioengine={engine} --direct=1 --verify=crc32c`, random writes of 4 to 64 KiB for {seconds} s, depth 16"
        yield "fio", what, lambda world, engine=engine: verified(world, engine, seconds)
    yield "fio", "`--ioengine=io_uring`", refused


def fio(world, engine, *more, **how):
    program = need("fio")
    folder = world.export / f"fio-{engine}"
    folder.mkdir()
    options = [f"--ioengine={engine}", f"--directory={MOUNT}/{folder.name}", "--name=v", "--size=256m", "--bsrange=4k-64k"]
    options += ["--direct=1", "--rw=randwrite", "--verify=crc32c", "--verify_fatal=1", "--iodepth=16", "--randrepeat=1"]
    return world.run([program, *options, *more], **how)


def verified(world, engine, seconds):
    timed = ["--verify_backlog=256", "--time_based", f"--runtime={seconds}", "--output-format=json"]
    done = fio(world, engine, *timed, timeout=seconds + 120)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    written, read = (job[way]["total_ios"] for way in ("write", "read"))
    if job["error"] or not written or not read:
        raise Failed(f"error {job['error']}, {written} writes, {read} reads to verify")
    return version_of(world, "fio"), f"no error in {written:,} writes and {read:,} reads that verified them"


def refused(world):
    done = fio(world, "io_uring", accept=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if "io_uring" in line and SETTING in line]
    if done.returncode == 0 or len(lines) != 1:
        raise Failed(f"exit code {done.returncode} and {len(lines)} lines that name {SETTING}, not an error and one line")
    line = re.sub(r"^.*?io_uring", "io_uring", lines[0])
    return version_of(world, "fio"), f"limit: refused (ENOSYS), and one line on stderr: `{line}`"
