"""A process that works on a mount until it is killed, and says what it has done as soon as it is done.

usage: kills.py DIRECTORY NUMBER SEED

Each line is one finished step; what has no line may have happened or not. The reader (tests/kills.rs) compares what is found
with it. Any error ends the process with a traceback: none is expected, whoever else is killed.
"""
import fcntl
import os
import random
import struct
import sys

directory, number, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(directory)
pick = random.Random(seed)
BLOCK, BLOCKS, RECORD = 4096, 32, 64


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def block(index, version):
    return struct.pack("<HHI", number, index, version) * (BLOCK // 8)


def version_of(data, index):
    """The version a block holds: 0 for one never written. It is all of one version, or something is wrong."""
    if not data.strip(b"\0"):
        return 0
    who, at, version = struct.unpack_from("<HHI", data)
    assert (who, at) == (number, index) and data == block(index, version), f"block {index} is torn: {data[:32]}"
    return version


own = os.open(f"own{number}", os.O_RDWR | os.O_CREAT, 0o644)
versions = [version_of(os.pread(own, BLOCK, index * BLOCK), index) for index in range(BLOCKS)]
for index, version in enumerate(versions):
    say("found", index, version)


def write_block():
    index = pick.randrange(BLOCKS)
    os.pwrite(own, block(index, versions[index] + 1), index * BLOCK)
    versions[index] += 1
    say("wrote", index, versions[index])


def read_block():
    index = pick.randrange(BLOCKS)
    found = version_of(os.pread(own, BLOCK, index * BLOCK), index)
    assert found == versions[index], f"block {index} holds version {found}, not {versions[index]}"


log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
sequence = 0


def append():
    global sequence
    sequence += 1
    record = f"{number} {seed} {sequence} ".encode().ljust(RECORD - 1, b".") + b"\n"
    assert os.write(log, record) == RECORD
    say("appended", seed, sequence)


def count():
    counter = os.open("counter", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.lockf(counter, fcntl.LOCK_EX)
    value = int(os.pread(counter, 20, 0) or b"0")
    os.pwrite(counter, f"{value + 1:020}".encode(), 0)
    say("counted", value + 1)
    os.close(counter)


def replace():
    global sequence
    sequence += 1
    name = f"new{number}"
    with open(name, "w") as file:
        file.write(f"{seed} {sequence}" * 100)
    os.rename(name, f"kept{number}")
    say("replaced", seed, sequence)


def hide():
    fd = os.open(f"hidden{number}", os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(f"hidden{number}")
    os.write(fd, b"x" * 20000)
    assert os.pread(fd, 30000, 0) == b"x" * 20000
    os.close(fd)


def resize():
    size = pick.randrange(100000)
    fd = os.open(f"size{number}", os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, size)
    assert os.fstat(fd).st_size == size
    say("size", size)
    os.close(fd)


def child():
    """A child that writes by the descriptor it inherited, and is gone."""
    index = pick.randrange(BLOCKS)
    pid = os.fork()
    if pid == 0:
        os.pwrite(own, block(index, versions[index] + 1), index * BLOCK)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    versions[index] += 1
    say("wrote", index, versions[index])


STEPS = [write_block] * 8 + [read_block] * 6 + [append] * 4 + [count] * 2 + [replace, hide, resize, child, lambda: os.fsync(own)]
while True:
    pick.choice(STEPS)()
