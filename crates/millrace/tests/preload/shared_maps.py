"""Programs of shared_maps.rs. Arguments: which one, the directory, and more of its own."""

import errno, mmap, os, random, signal, subprocess, sys, time

PAGE = 4096
which, directory, *more = sys.argv[1:]
os.chdir(directory)


def mapped(name, access=mmap.ACCESS_WRITE):
    fd = os.open(name, os.O_RDONLY if access == mmap.ACCESS_READ else os.O_RDWR)
    try:
        return mmap.mmap(fd, 0, access=access)
    finally:
        os.close(fd)


def again(*arguments):
    return [sys.executable, __file__, *map(str, arguments)]


def store_and_die():
    """Stores into a mapping and is killed at once."""
    memory = mapped("victim")
    memory[100:106] = b"stored"
    memory[9 * PAGE:9 * PAGE + 3] = b"far"
    os.kill(os.getpid(), signal.SIGKILL)


def store_and_wait():
    """Stores, says so, and waits to be told to go on: then msync."""
    memory = mapped("outage")
    memory[0:5] = b"first"
    memory.flush()
    memory[5:11] = b"second"
    print("stored", flush=True)
    sys.stdin.readline()
    memory.flush()
    print("flushed", flush=True)


def see():
    """Maps, and says when a write of somebody else is there."""
    memory = mapped("torn")
    print("mapped", flush=True)
    while memory[0:3] != b"new":
        time.sleep(0.01)
    print("new", flush=True)


def write_when_told():
    fd = os.open("torn", os.O_WRONLY)
    print("open", flush=True)
    sys.stdin.readline()
    os.write(fd, b"new")


def worker():
    """Bytes n, n + count, ... of each page are its own: stores them, or writes them, and looks whether they stay."""
    number, count, rounds, seed = map(int, more)
    rng = random.Random(seed)
    fd = os.open("shared", os.O_RDWR)
    memory = mapped("shared") if number % 2 == 0 else None
    mine = {}
    for step in range(rounds):
        at = rng.randrange(16) * PAGE + rng.randrange(PAGE // count) * count + number
        byte = bytes([rng.randrange(1, 256)])
        if memory is not None and rng.random() < 0.8:
            memory[at:at + 1] = byte
        else:
            os.pwrite(fd, byte, at)
        mine[at] = byte
        look = rng.choice(list(mine))
        seen = os.pread(fd, 1, look)
        assert seen == mine[look], ("read", number, step, look, seen, mine[look])
        if memory is not None:
            assert memory[look:look + 1] == mine[look], ("mapping", number, step, look)
            if step % 40 == 0:
                memory.flush()
        if step % 60 == 0:
            os.fsync(fd)
        if rng.random() < 0.02 and memory is not None:
            memory.close()
            memory = mapped("shared")
    for at, byte in mine.items():
        print(at, byte[0])
    sys.stdout.flush()
    if number % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def workers():
    count, rounds, seed = map(int, more)
    with open("shared", "wb") as file:
        file.write(bytes(16 * PAGE))
    children = [subprocess.Popen(again("worker", directory, n, count, rounds, seed + n), stdout=subprocess.PIPE) for n in range(count)]
    expected = bytearray(16 * PAGE)
    for number, child in enumerate(children):
        out = child.communicate()[0]
        assert child.returncode == (-9 if number % 3 == 0 else 0), child.returncode
        for line in out.splitlines():
            at, byte = map(int, line.split())
            expected[at] = byte
    with open("shared", "rb") as file:
        found = file.read()
    wrong = [at for at in range(len(expected)) if expected[at] != found[at]]
    assert not wrong, (len(wrong), wrong[:10])
    with open("expected", "wb") as file:
        file.write(expected)
    print("one file")


def others():
    """What another host does to the file is seen by the next open and the next mapping; own stores stay."""
    memory = mapped("foreign")
    memory[10:13] = b"own"
    print("mapped", flush=True)
    sys.stdin.readline()
    os.close(os.open("foreign", os.O_RDONLY))
    print(memory[0:13], memory[PAGE:PAGE + 4], flush=True)
    memory.flush()


def too_large():
    for _ in range(2):
        fd = os.open("large", os.O_RDONLY)
        try:
            mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        except OSError as error:
            print(error.strerror)


def windows():
    """Maps a file part by part, as programs copy."""
    fd = os.open("parts", os.O_RDONLY)
    size, step = os.fstat(fd).st_size, 1 << 20
    total = 0
    for at in range(0, size, step):
        with mmap.mmap(fd, min(step, size - at), offset=at, access=mmap.ACCESS_READ) as memory:
            total += memory[:].count(b"x")
    print(total)


def full_table():
    """Maps three pages until the table of mappings is full, then splits and removes mappings."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    fd = os.open("small", os.O_RDWR)
    made, failed = [], ctypes.c_void_p(-1).value
    while (at := libc.mmap(None, 3 * PAGE, 3, 1, fd, 0)) != failed:
        made.append(at)
    print(len(made), errno.errorcode[ctypes.get_errno()])
    print(libc.munmap(made[0] + PAGE, PAGE), errno.errorcode[ctypes.get_errno()])
    anonymous = libc.mmap(made[0] + PAGE, PAGE, 3, 0x32, -1, 0)  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED
    print(anonymous == failed, errno.errorcode[ctypes.get_errno()])
    print(libc.munmap(made[1], 3 * PAGE), libc.munmap(made[0] + PAGE, PAGE))
    ctypes.memmove(made[0] + 2 * PAGE, b"rest", 4)
    print(libc.msync(made[0] + 2 * PAGE, PAGE, 4), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def persistent():
    with open("log", "r+b") as file:
        try:
            # MAP_SHARED_VALIDATE | MAP_SYNC. The module mmap has no names for them.
            mmap.mmap(file.fileno(), 0, flags=0x03 | 0x80000)
        except OSError as error:
            print(errno.errorcode[error.errno])


def lmdb_writer():
    import lmdb
    kind, number, count = more
    with lmdb.open("lmdb-" + kind, map_size=4 << 20, writemap=kind == "writemap", max_readers=16) as env:
        for n in range(int(count)):
            with env.begin(write=True) as change:
                change.put(f"{number}-{n:04}".encode(), b"v" * 200)
                change.put(b"total", str(int(change.get(b"total", b"0")) + 1).encode())


def lmdb_processes():
    import lmdb
    for kind in ("plain", "writemap"):
        children = [subprocess.Popen(again("lmdb_writer", directory, kind, n, 40)) for n in range(2)]
        assert [child.wait() for child in children] == [0, 0]
        with lmdb.open("lmdb-" + kind, map_size=4 << 20) as env, env.begin() as look:
            print(kind, look.get(b"total").decode(), look.stat()["entries"])


globals()[which]()
