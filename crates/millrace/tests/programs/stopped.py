"""Processes that are stopped at any moment: stopped.py held|appends DIRECTORY ADMIN | stopped.py many DIRECTORY TIMES SEED [JUMPING]"""
import itertools, json, os, random, shutil, signal, socket, struct, subprocess, sys, threading, time

LONGEST = 3.0  # seconds by which a call of another process may take longer
SLOW_MS = 1200
LONG_MS = 2500  # longer than others need to take over

def admin(request):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[3]); s.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(s.makefile().readline())

def put(path, data, flags=os.O_WRONLY | os.O_CREAT, offset=None):
    fd = os.open(path, flags, 0o644)
    try: return os.write(fd, data) if offset is None else os.pwrite(fd, data, offset)
    finally: os.close(fd)

class Held:
    """The calls in which a process is stopped. WAITS has the procedure whose reply each call waits for."""
    def __init__(self, root): self.root = root
    def coalesced(self):
        fd = os.open(self.root + "/log", os.O_WRONLY | os.O_APPEND)
        for _ in range(50): os.write(fd, b"A" * 100)
        os.fsync(fd)
    def append(self): put(self.root + "/log", b"A" * 200000, os.O_WRONLY | os.O_APPEND)
    def stable(self): put(self.root + "/log", b"A" * 5000, os.O_WRONLY | os.O_APPEND | os.O_DSYNC)
    def program(self):  # dd attaches to the mount itself, and appends on its first connection
        reader, writer = os.pipe()
        os.write(writer, b"A" * 5000)
        os.close(writer)
        os.dup2(reader, 0)
        os.execvp("dd", ["dd", f"of={self.root}/log", "bs=5000", "oflag=append,dsync", "conv=notrunc", "status=none"])
    def block(self): put(self.root + "/block", b"A" * 100000, os.O_WRONLY, 0)
    def truncate(self): os.truncate(self.root + "/log", 6)
    def create(self): os.close(os.open(self.root + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    def remove(self): os.unlink(self.root + "/gone")
    def rename(self): os.rename(self.root + "/from", self.root + "/to")
    def rmdir(self): os.rmdir(self.root + "/empty")
    def mode(self): os.chmod(self.root + "/d", 0o711)
    def commit(self): fd = os.open(self.root + "/block", os.O_WRONLY); os.pwrite(fd, b"C" * 70000, 0); os.fsync(fd)

WAITS = {"coalesced": "WRITE", "append": "WRITE", "stable": "WRITE", "program": "WRITE", "block": "WRITE", "truncate": "SETATTR", "create": "CREATE",
         "remove": "REMOVE", "rename": "RENAME", "rmdir": "RMDIR", "mode": "SETATTR", "commit": "COMMIT"}

def others(root):
    """Calls of another process on the same files."""
    yield "stat", lambda: os.stat(root + "/log")
    yield "read", lambda: open(root + "/log", "rb").read()
    yield "append", lambda: put(root + "/log", b"B" * 100, os.O_WRONLY | os.O_APPEND)
    yield "append much", lambda: put(root + "/log", b"B" * 100000, os.O_WRONLY | os.O_APPEND)
    yield "write", lambda: put(root + "/block", b"B" * 8192, os.O_WRONLY, 0)
    yield "sync", lambda: os.fsync(os.open(root + "/block", os.O_RDWR))
    yield "scan", lambda: [entry.stat() for entry in os.scandir(root)]
    yield "create", lambda: put(root + "/made", b"")
    for n in range(70): yield f"create n{n}", lambda: put(f"{root}/n{n}", b"")
    for n in range(70): yield f"remove n{n}", lambda: os.unlink(f"{root}/n{n}")
    yield "exclusive", lambda: attempt(lambda: os.close(os.open(root + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY)))
    yield "open gone", lambda: attempt(lambda: os.close(os.open(root + "/gone", os.O_RDONLY)))
    yield "open to", lambda: attempt(lambda: os.close(os.open(root + "/to", os.O_RDONLY)))
    yield "mkdir", lambda: os.mkdir(root + "/e")
    yield "rmdir", lambda: os.rmdir(root + "/e")
    yield "link", lambda: (os.symlink("x", root + "/l"), os.unlink(root + "/l"))
    yield "move directory", lambda: (os.rename(root + "/d", root + "/d2"), os.rename(root + "/d2", root + "/d"))
    yield "truncate", lambda: os.truncate(root + "/log", 3)

def attempt(act):
    try: act()
    except OSError: pass

def held(root):
    for what, procedure in WAITS.items():
        put(root + "/log", b"start\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        put(root + "/block", b"x" * 100000, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for name in ("new", "gone", "from", "to"): attempt(lambda: os.unlink(f"{root}/{name}"))
        for name in ("gone", "from"): put(f"{root}/{name}", b"data")
        for name in ("empty", "d"): attempt(lambda: os.mkdir(f"{root}/{name}"))
        os.sync()
        pid = stop_in(root, what)
        slowest = ("", 0)
        for name, act in others(root):
            begun = time.monotonic()
            try: act()
            except OSError as error: print(f"{what}: {name}: {error}", flush=True)
            lasted = time.monotonic() - begun
            slowest = max(slowest, (name, lasted), key=lambda one: one[1])
            if lasted >= LONGEST + SLOW_MS / 1000: print(f"{what}: {name} lasted {lasted:.1f} s", flush=True)
        print(f"{what}: slowest {slowest}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        os.kill(pid, signal.SIGCONT)
        status = os.waitpid(pid, 0)[1]
        lasted = time.monotonic() - begun
        if lasted >= LONGEST: print(f"{what}: the stopped process continued after {lasted:.1f} s", flush=True)
        if what in ("block", "commit"):
            found = open(root + "/block", "rb").read()
            letter = {"block": b"A", "commit": b"C"}[what]
            # The server may execute the stopped write before or after the other one; each block is from one of them.
            if found[8192:70000] != letter * (70000 - 8192) or found[:8192] not in (letter * 8192, b"B" * 8192):
                print(f"{what}: the block holds {found[:1]!r} {found[8192:8193]!r}", flush=True)
    print("done")

def stop_in(root, what, slow_ms=SLOW_MS):
    """Starts a process and stops it while it waits for the reply to a slow call."""
    start, started = os.pipe()
    pid = os.fork()
    if pid == 0:
        act = getattr(Held(root), what)
        os.stat(root + "/log")
        os.read(start, 1)
        try: act()
        except OSError as error: print(f"{what}: the stopped process: {error}", flush=True); os._exit(1)
        os._exit(0)
    assert admin({"op": "fault-add", "fault": {"kind": "slow", "on": [WAITS[what]], "delay_ms": slow_ms, "times": 1}})["ok"]
    os.write(started, b"g")
    end = time.monotonic() + 10
    while admin({"op": "fault-list"})["report"]["faults"][0]["injected"] == 0:
        assert time.monotonic() < end, f"{what}: the process made no slow call"
        time.sleep(0.005)
    os.kill(pid, signal.SIGSTOP)
    assert admin({"op": "fault-clear"})["ok"]
    os.close(start)
    os.close(started)
    return pid

class Ending(threading.Thread):
    """Continues or kills a stopped process while the server still executes its slow WRITE."""
    def __init__(self, pid, how):
        super().__init__()
        self.pid, self.how, self.stopped = pid, how, time.monotonic()
        self.start()

    def run(self):
        time.sleep(1.4 if self.how == "soon" else 0)
        os.kill(self.pid, signal.SIGCONT if self.how == "soon" else signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.ended = time.monotonic()

    def end(self):
        """Waits until the server has executed everything that the process sent."""
        self.join()
        time.sleep(max(0, self.stopped + LONG_MS / 1000 + 0.1 - time.monotonic()))

def is_once(found, size, counts):
    return found[:6] == b"start\n" and found.count(b"A") in counts and len(found) == 6 + found.count(b"A") + size and b"B" * size in found

def appends(root):
    """Stops a process in a write while others write. Each append is in the file once, and a block contains the last write."""
    for what, count in (("program", 5000), ("coalesced", 5000), ("append", 200000), ("stable", 5000)):
        ways = ((100000, "late"),) if what in ("coalesced", "stable") else ((100, "late"), (100, "soon"), (100, "kill"))
        for size, how in ways:
            put(root + "/log", b"start\n", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            pid = stop_in(root, what, SLOW_MS if how == "late" else LONG_MS)
            ending = Ending(pid, how) if how != "late" else None
            put(root + "/log", b"B" * size, os.O_WRONLY | os.O_APPEND)
            if ending: ending.end()
            else: os.kill(pid, signal.SIGCONT); os.waitpid(pid, 0)
            found = open(root + "/log", "rb").read()
            if not is_once(found, size, range(count + 1) if how == "kill" else (count,)):
                runs = [(chr(letter), len(list(run))) for letter, run in itertools.groupby(found[6:])]
                print(f"{what}, {size}, {how}: {runs[:9]}", flush=True)
    for how in ("soon", "kill"):
        put(root + "/block", b"x" * 100000)
        ending = Ending(stop_in(root, "block", LONG_MS), how)
        put(root + "/block", b"B" * 8192, os.O_WRONLY, 0)
        written = time.monotonic()
        ending.end()
        is_last = how == "kill" or written > ending.ended + 0.2
        found = {chr(letter) for letter in os.pread(os.open(root + "/block", os.O_RDONLY | os.O_DIRECT), 8192, 0)}
        if found != {"B"} and (is_last or found != {"A"}): print(f"block, {how}: {found}", flush=True)
    print("done")

def worker(root, number, report):
    """Makes calls until it is killed, and reports each completed call."""
    rng, line, version = random.Random(number * 7919), 0, 0
    log = os.open(root + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    own = os.open(f"{root}/own{number}", os.O_RDWR | os.O_CREAT, 0o644)
    while True:
        what = rng.randrange(8)
        begun = time.monotonic()
        if what < 3:
            line += 1
            os.write(log, b"%-63s\n" % (b"%d %d" % (number, line)))
            done = ("line", line)
        elif what == 3:
            version += 1
            os.pwrite(own, struct.pack("<Q", version) * 1024, 0)
            done = ("version", version)
        elif what == 4:
            os.fsync(rng.choice((log, own))); done = ("sync", 0)
        elif what == 5:
            os.stat(root + "/log"); found = os.pread(own, 8, 0); done = ("read", 0)
            if version and found and struct.unpack("<Q", found)[0] != version: done = ("wrong", struct.unpack("<Q", found)[0])
        elif what == 6:
            path = f"{root}/x{number}"
            put(path, b"x"); os.rename(path, path + "y"); os.unlink(path + "y"); done = ("names", 0)
        else:
            path = f"{root}/d{number}"
            os.mkdir(path); os.rmdir(path); done = ("directories", 0)
        os.write(report, f"{done[0]} {done[1]} {time.monotonic() - begun:.3f} {begun:.3f}\n".encode())

class Worker:
    """A worker process and the calls that it reported as done."""
    def __init__(self, root, number, jumping):
        self.number, self.text, self.stopped, self.pauses = number, b"", None, []
        self.lines, self.version, self.tried = set(), 0, 0
        self.reports, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                if jumping: os.set_inheritable(writer, True); os.execv(jumping, [jumping, root, str(number), str(writer)])
                worker(root, number, writer)
            except BaseException as error: os.write(writer, f"error {type(error).__name__}:{str(error).replace(' ', '_')} 0 0\n".encode())
            os._exit(1)
        os.close(writer)
        os.set_blocking(self.reports, False)

    def receive(self):
        """The calls reported since the last time: kind, value, duration in seconds without the worker's own pauses."""
        while True:
            try: text = os.read(self.reports, 65536)
            except BlockingIOError: break
            if not text: break
            self.text += text
        *whole, self.text = self.text.split(b"\n")
        for what, value, lasted, begun in (entry.decode().split(" ") for entry in whole):
            lasted, begun = float(lasted), float(begun)
            if what == "line": self.lines.add(int(value))
            if what == "version": self.version = int(value)
            if what in ("version", "left"): self.tried = max(self.tried, int(value))
            yield what, value, lasted - sum(max(0, min(end, begun + lasted) - max(start, begun)) for start, end in self.pauses)

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped = time.monotonic()

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)
        self.pauses.append((self.stopped, time.monotonic() + 0.05))
        self.stopped = None

    def attach(self):
        """Attaches a debugger, which detaches before the returned program ends."""
        self.stopped = time.monotonic()
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = ["gdb", "-nx", "-batch", "-iex", "set auto-solib-add off", "-p", str(self.pid), "-ex", "shell sleep 1.2", "-ex", "detach"]
        return subprocess.Popen(command, env=own, **quiet)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def faults(self, root, known):
        """Reported calls whose data is lost."""
        lost = [n for n in sorted(self.lines) if b"%-63s\n" % (b"%d %d" % (self.number, n)) not in known]
        if lost: yield f"worker {self.number}: lines {lost[:5]} are lost"
        found = open(f"{root}/own{self.number}", "rb").read() if self.version else b""
        versions = {struct.unpack("<Q", found[at:at + 8])[0] for at in range(0, len(found), 8)}
        if not all(self.version <= version <= max(self.version, self.tried) + 1 for version in versions):
            yield f"worker {self.number}: {versions}, wrote {self.version}, tried {self.tried}"

class Many:
    """Five workers. Some are stopped, killed, or debugged at random; one leaves its calls by siglongjmp."""
    def __init__(self, root, seed, jumping):
        self.root, self.rng, self.jumping = root, random.Random(seed), jumping
        self.ended, self.wrong, self.calls, self.longest, self.made = [], [], 0, 0.0, 0
        self.kinds = ("stop", "stop", "stop", "kill", "attach") if shutil.which("gdb") else ("stop", "stop", "kill")
        self.workers = [self.make() for _ in range(5)]

    def make(self):
        self.made += 1
        return Worker(self.root, self.made, self.jumping if self.made % 3 == 1 else None)

    def receive(self):
        for one in self.workers:
            for what, value, lasted in one.receive():
                self.calls += 1
                self.longest = max(self.longest, lasted)
                if what in ("error", "wrong"): self.wrong.append(f"worker {one.number}: {what} {value}, {one.version}")

    def until(self, moment):
        while time.monotonic() < moment:
            self.receive()
            time.sleep(0.005)

    def disturb(self, waiting):
        one = self.rng.choice([one for one in self.workers if one.stopped is None])
        kind, now = self.rng.choice(self.kinds), time.monotonic()
        if kind == "kill":
            one.kill()
            self.receive()
            self.ended.append(one)
            self.workers[self.workers.index(one)] = self.make()
        elif kind == "attach":
            debugger = one.attach()
            waiting.append((lambda: debugger.poll() is not None, one))
        else:
            one.stop()
            end = now + self.rng.choice((0.05, 0.3, 1.3, 1.6))
            waiting.append((lambda: end <= time.monotonic(), one))

    def run(self, times):
        self.until(time.monotonic() + 1)
        calm, self.longest, waiting = self.longest, 0.0, []
        while times or waiting:
            if times and sum(one.stopped is None for one in self.workers) > 2:
                self.disturb(waiting)
                times -= 1
            self.until(time.monotonic() + self.rng.random() * 0.4)
            for due in [due for due in waiting if due[0]()]:
                due[1].resume()
                waiting.remove(due)
        self.until(time.monotonic() + 3)
        for one in self.workers: one.kill()
        self.receive()
        self.check(calm)

    def check(self, calm):
        try: log = open(self.root + "/log", "rb").read()
        except OSError as error: log = b""; self.wrong.append(str(error))
        lines = [log[at:at + 64] for at in range(0, len(log), 64)]
        known = set(lines)
        if len(known) != len(lines): self.wrong.append(f"{len(lines) - len(known)} lines twice")
        for one in self.workers + self.ended: self.wrong.extend(one.faults(self.root, known))
        if self.longest > LONGEST + 2 * calm: self.wrong.append(f"a call lasted {self.longest:.1f} s, and {calm:.1f} s before")
        print(f"{self.calls} calls, the longest {self.longest:.2f} s, and {calm:.2f} s before", file=sys.stderr)
        print("; ".join(self.wrong) or "done")

if sys.argv[1] in ("held", "appends"): {"held": held, "appends": appends}[sys.argv[1]](sys.argv[2])
else: Many(sys.argv[2], int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else None).run(int(sys.argv[3]))
