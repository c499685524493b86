"""Each kind of call, in a process of its own, on a mount whose export is gone for a while.

Arguments: the mount's directory, a directory of this host. Prepares, makes HOST/ready, waits for HOST/go, starts the processes, and
prints a line for each that failed and how many there were.
"""
import ctypes, mmap, os, struct, subprocess, sys, time, traceback

here, host = sys.argv[1:3]
os.chdir(here)


def make(name, content=b""):
    with open(name, "wb") as file:
        file.write(content)


for name in ["read", "write", "direct", "append", "commit", "close", "stat", "cut", "chmod", "utime", "moved", "gone", "linked", "mapped", "aio", "executed"]:
    make(name, name.encode() * 4096)
os.mkdir("empty")
os.mkdir("listed")
os.symlink("read", "link")
files = {name: os.open(name, os.O_RDWR) for name in ["read", "write", "commit", "close", "cut", "mapped"]}
append = os.open("append", os.O_WRONLY | os.O_APPEND)
direct = os.open("direct", os.O_RDWR | os.O_DIRECT)
dsync = os.open("aio", os.O_RDWR | os.O_DSYNC)
page = mmap.mmap(-1, 8192)
page[:] = b"d" * 8192
mapped = mmap.mmap(files["mapped"], 8192)
for name in ["commit", "close"]:
    os.pwrite(files[name], b"u" * 65536, 1 << 20)  # unstable until the export is gone


def written(fd, data, offset):
    assert os.pwrite(fd, data, offset) == len(data)
    os.fsync(fd)


def aio():
    library = ctypes.CDLL("libaio.so.1", use_errno=True)
    base = ctypes.addressof(ctypes.c_char.from_buffer(page))
    context = ctypes.c_void_p(0)
    assert library.io_setup(4, ctypes.byref(context)) == 0
    request = lambda what: ctypes.create_string_buffer(struct.pack("<QIiHhIQQqQII", 0, 0, 0, what, 0, dsync, base, 8192, 0, 0, 0, 0), 64)
    for what in (1, 0):
        one = request(what)
        assert library.io_submit(context, ctypes.c_long(1), (ctypes.c_void_p * 1)(ctypes.addressof(one))) == 1
        room = ctypes.create_string_buffer(32)
        assert library.io_getevents(context, ctypes.c_long(1), ctypes.c_long(1), room, None) == 1
        assert struct.unpack("<QQqq", room.raw)[2] == 8192


def stored():
    mapped[:4] = b"mmap"
    mapped.flush()


def exclusive():
    os.close(os.open("exclusive", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def equal(found, expected):
    assert found == expected, (found, expected)


CALLS = {
    "read": lambda: equal(os.pread(files["read"], 4, 4), b"read"),
    "write": lambda: written(files["write"], b"new", 0),
    "stable write": lambda: equal(os.pwritev(direct, [page], 0), 8192),
    "append": lambda: (os.write(append, b"end"), os.fsync(append)),
    "commit": lambda: os.fsync(files["commit"]),
    "close": lambda: os.close(files["close"]),
    "getattr": lambda: equal(os.stat("stat").st_size, 4 * 4096),
    "open": lambda: equal(open("stat", "rb").read(4), b"stat"),
    "create": lambda: make("created", b"x"),
    "exclusive": exclusive,
    "mkdir": lambda: os.mkdir("made"),
    "rmdir": lambda: os.rmdir("empty"),
    "rename": lambda: os.rename("moved", "there"),
    "unlink": lambda: os.unlink("gone"),
    "link": lambda: os.link("linked", "again"),
    "symlink": lambda: os.symlink("read", "other"),
    "readlink": lambda: equal(os.readlink("link"), "read"),
    "truncate": lambda: os.ftruncate(files["cut"], 3),
    "chmod": lambda: os.chmod("chmod", 0o600),
    "utime": lambda: os.utime("utime", (7, 7)),
    "statvfs": lambda: os.statvfs("."),
    "readdir": lambda: equal(os.listdir("listed"), []),
    "msync": stored,
    "program": lambda: equal(subprocess.run(["cat", here + "/executed"], stdout=subprocess.PIPE).stdout[:8], b"executed"),
    "kernel aio": aio,
}
try:
    ctypes.CDLL("libaio.so.1")
except OSError:
    del CALLS["kernel aio"]
with open(host + "/calls", "w") as file:
    file.write(str(len(CALLS)))
open(host + "/ready", "w").close()
while not os.path.exists(host + "/go"):
    time.sleep(0.01)
children = {}
for name, call in CALLS.items():
    child = os.fork()
    if child == 0:
        code = 0
        try:
            call()
            open(host + "/done-" + name.replace(" ", "-"), "w").close()
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    children[child] = name
failed = 0
while children:
    child, status = os.wait()
    name = children.pop(child)
    if status != 0:
        print("failed:", name)
        failed += 1
print(len(CALLS) - failed, "calls succeeded")
