"""Kernel AIO by libaio, below one directory: argument 1. Argument 2 is a directory elsewhere on this host, argument 3 what is tried."""
import ctypes, errno, fcntl, mmap, os, resource, signal, struct, subprocess, sys, threading, time

aio = ctypes.CDLL("libaio.so.1", use_errno=True)
here, elsewhere, what = sys.argv[1:4]
PREAD, PWRITE, FSYNC, FDSYNC, POLL, NOOP, PREADV, PWRITEV = 0, 1, 2, 3, 5, 6, 7, 8
O_DIRECT = os.O_DIRECT
memory = mmap.mmap(-1, 1 << 22)  # aligned for O_DIRECT, which local files need
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))


def name(code):
    return errno.errorcode[-code] if code < 0 else code


def setup(count, start=0):
    context = ctypes.c_void_p(start)
    code = aio.io_setup(count, ctypes.byref(context))
    return context if code == 0 else name(code)


def iocb(operation, fd, at=0, count=8192, offset=0, data=0, flags=0, event=0, rw=0, reserved=0, address=None):
    fields = struct.pack("<QIiHhIQQqQII", data, 0, rw, operation, 0, fd & 0xffffffff, base + at if address is None else address, count, offset, reserved, flags, event & 0xffffffff)
    return ctypes.create_string_buffer(fields, 64)


def submit(context, *requests):
    array = (ctypes.c_void_p * len(requests))(*[ctypes.addressof(r) if r is not None else 0 for r in requests])
    return name(aio.io_submit(context, ctypes.c_long(len(requests)), array))


def events(context, least, most, seconds=None):
    room = ctypes.create_string_buffer(32 * max(most, 1))
    limit = None if seconds is None else ctypes.byref((ctypes.c_long * 2)(int(seconds), int(seconds % 1 * 1e9)))
    got = aio.io_getevents(context, ctypes.c_long(least), ctypes.c_long(most), room, limit)
    if got < 0:
        return name(got)
    return sorted((data, name(res)) for data, _, res, _ in struct.iter_unpack("<QQqq", room.raw[: 32 * got]))


def opened(path, flags=0):
    return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)


def fill(letter, at=0, count=8192):
    memory[at : at + count] = letter * count


def more_than_descriptors(directory):
    """A request needs no descriptor of its own."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    count, context, fd = 200, setup(256), opened(directory + "/many", O_DIRECT)
    fill(b"m", 0, 65536)
    print({submit(context, iocb(PWRITE, fd, count=65536, offset=n * 65536, data=n)) for n in range(count)})
    taken = events(context, count, count)
    print(len(taken), {result for _, result in taken}, os.stat(fd).st_size)
    print(os.open("/dev/null", os.O_RDONLY) < 16)


def basics(directory):
    context = setup(8)
    fd = opened(directory + "/basics", O_DIRECT)
    fill(b"a")
    print(submit(context, iocb(PWRITE, fd, data=1)), events(context, 1, 8))
    print(submit(context, iocb(FSYNC, fd, address=0, count=0, data=2), iocb(FDSYNC, fd, address=0, count=0, data=3)), events(context, 2, 8))
    print(submit(context, iocb(PREAD, fd, 8192, data=4), iocb(PREAD, fd, 16384, offset=8192, data=5)), events(context, 2, 8), memory[8192:16384] == b"a" * 8192)
    vector = (ctypes.c_uint64 * 4)(base + 32768, 4096, base + 65536, 4096)
    print(submit(context, iocb(PREADV, fd, address=ctypes.addressof(vector), count=2, data=6)), events(context, 1, 8), memory[65536:69632] == b"a" * 4096)
    fill(b"v", 32768, 4096)
    print(submit(context, iocb(PWRITEV, fd, address=ctypes.addressof(vector), count=2, offset=8192, data=7)), events(context, 1, 8), os.stat(fd).st_size)
    print(submit(context), submit(context, iocb(PREAD, 700)), submit(context, iocb(77, fd)), submit(context, iocb(FSYNC, fd)), submit(context, iocb(PREAD, fd, reserved=1)), submit(context, None))
    print(submit(context, iocb(PREAD, fd, data=8), iocb(PREAD, 700)), events(context, 1, 8))
    only = os.open(directory + "/basics", os.O_RDONLY)
    print(submit(context, iocb(PWRITE, only)), submit(context, iocb(PREAD, os.open(directory, os.O_RDONLY))))
    print(events(context, 1, 8, 0.01), events(context, 0, 8), events(context, 0, 0), events(context, 2, 1), events(context, -1, 1))
    print(setup(0), setup(8, 1), submit(ctypes.c_void_p(base + (1 << 21)), iocb(PREAD, fd)))
    for _ in range(3):  # a descriptor that is closed before its request is done, and whose number is opened again
        other = opened(directory + "/other", O_DIRECT)
        fill(b"o")
        submit(context, iocb(PWRITE, other, data=9))
        os.close(other)
        os.open("/dev/null", os.O_RDWR)
        print(events(context, 1, 8))
    print(open(directory + "/other", "rb").read() == b"o" * 8192)
    print(aio.io_destroy(context), name(aio.io_destroy(context)), submit(context, iocb(PREAD, fd)))


def notified(directory):
    context, event = setup(64), os.eventfd(0)
    fd = opened(directory + "/notified", O_DIRECT)
    requests = [iocb(PWRITE, fd, offset=8192 * n, data=n, flags=1, event=event) for n in range(32)]
    print(submit(context, *requests))
    told = 0
    while told < 32:
        told += os.eventfd_read(event)
    print(told, len(events(context, 32, 64)), os.stat(fd).st_size)
    print(submit(context, iocb(PREAD, fd, flags=1, event=fd)), submit(context, iocb(PREAD, fd, flags=1, event=700)), submit(context, iocb(PREAD, fd, flags=8)), events(context, 1, 1))
    print(name(aio.io_cancel(context, requests[0], ctypes.create_string_buffer(32))))


def together():
    """Requests on a file of the mount and on one of this host, in one context."""
    context = setup(8)
    mine, other = opened(here + "/together", O_DIRECT), opened(elsewhere + "/together", O_DIRECT)
    fill(b"m")
    print(submit(context, iocb(PWRITE, mine, data=1), iocb(PWRITE, other, data=2)), events(context, 2, 8))
    print(submit(context, iocb(PREAD, other, 8192, data=3), iocb(PREAD, mine, 16384, data=4)), events(context, 2, 8), memory[8192:24576] == b"m" * 16384)
    read, write = os.pipe()
    print(submit(context, iocb(POLL, read, address=1, count=0, data=5)), events(context, 1, 8, 0.01))
    os.write(write, b"x")
    print(events(context, 1, 8)[0][0], submit(context, iocb(PREAD, 700)))
    print(aio.io_destroy(context))


def buffered(directory):
    """As in a kernel, what is not O_DIRECT is written when io_submit returns, and in the order of appends."""
    context = setup(8)
    fd = opened(directory + "/buffered")
    fill(b"b")
    print(submit(context, iocb(PWRITE, fd, data=1)), os.pread(fd, 8192, 0) == b"b" * 8192, events(context, 1, 8))
    end = opened(directory + "/buffered", os.O_APPEND | O_DIRECT)
    print(submit(context, iocb(PWRITE, end, data=2), iocb(PWRITE, end, data=3)), events(context, 2, 8), os.stat(fd).st_size)
    print(submit(context, iocb(PWRITE, fd, offset=32768, data=4, rw=os.RWF_DSYNC)), events(context, 1, 8), os.stat(fd).st_size)
    print(submit(context, iocb(PWRITE, fd, rw=1 << 20)), submit(context, iocb(PREAD, fd, offset=1 << 30, data=5)), events(context, 1, 8))


def children(directory):
    """A context does not survive fork; who ends or becomes another program waits for what is in flight."""
    context = setup(64)
    fd = opened(directory + "/children", O_DIRECT)
    child = os.fork()
    if child == 0:
        print(submit(context, iocb(PWRITE, fd)), isinstance(setup(4), str), flush=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), submit(context, iocb(PWRITE, fd, data=1)), events(context, 1, 1))
    for way in range(3):
        child = os.fork()
        if child == 0:
            context = setup(64)
            submit(context, *[iocb(PWRITE, fd, offset=8192 * (way * 32 + n)) for n in range(32)])
            if way == 0:
                os._exit(0)
            elif way == 1:
                os.execv("/bin/true", ["true"])
            else:
                sys.exit(0)
        os.waitpid(child, 0)
        print(os.stat(directory + "/children").st_size)


def interrupted(directory):
    context = setup(4)
    opened(directory + "/interrupted")
    signal.signal(signal.SIGUSR1, lambda *_: None)
    main = threading.main_thread().ident

    def kick():
        for _ in range(200):
            time.sleep(0.02)
            signal.pthread_kill(main, signal.SIGUSR1)
            if done:
                return

    done = []
    kicker = threading.Thread(target=kick)
    kicker.start()
    print(events(context, 1, 1))
    done.append(1)
    kicker.join()


def begun(directory):
    """Reads and stable writes of one file in flight together, begun by a line."""
    context, fd = setup(64), opened(directory + "/aio", O_DIRECT)
    os.pwrite(fd, b"0" * 131072, 0)
    print("ready", flush=True)
    for kind in PREAD, PWRITE:
        sys.stdin.readline()
        fill(b"w", 131072, 131072)
        at = 0 if kind == PREAD else 131072
        print(submit(context, *[iocb(kind, fd, at + 8192 * n, offset=8192 * n, data=n) for n in range(16)]), flush=True)
        print({result for _, result in events(context, 16, 16)}, flush=True)
    print(memory[:131072] == b"0" * 131072, os.pread(fd, 131072, 0) == b"w" * 131072)


if what == "together":
    together()
else:
    globals()[what](here)
