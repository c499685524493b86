"""The filer, its export and a local directory beside it; how a case runs programs on both and compares them."""

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

MOUNT = "/m"
SOURCES = Path(__file__).parent / "sources"
READY_TIMEOUT_S = 30
COMMAND_TIMEOUT_S = 400
# A user and a group of it that every host has: MariaDB as root changes to them.
SHARED_USER, SHARED_GROUP = "nobody", "nogroup"


class Failed(Exception):
    """A program did not do what it does on a local directory; the text says what came out."""


class NotInstalled(Exception):
    """A program that the case needs is not on this host."""


class World:
    """A fresh export under `millrace serve`, with runtime directories of its own. The temporary directory belongs to
    whoever made it; `close` ends the filer."""

    def __init__(self, work, release):
        self.work, self.millrace = work, release / "millrace"
        self.library = release / "libmillrace_preload.so"
        self.export, self.local = work / "export", work / "local"
        self.transcript, self.user = [], None
        for folder in (self.export, self.local):
            folder.mkdir()
            folder.chmod(0o777)
        self.filer = self.start_filer()

    def start_filer(self):
        command = [self.millrace, "serve", self.export, "--listen", "127.0.0.1:0", "--json", "--no-root-squash"]
        command += ["--state", self.work / "state", "--admin", self.work / "admin.sock"]
        log = open(self.work / "filer.log", "wb")
        # A session of its own: Ctrl-C ends the programs first, and the filer after them.
        filer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        timer = threading.Timer(READY_TIMEOUT_S, filer.kill)
        timer.start()
        line = filer.stdout.readline()
        timer.cancel()
        if not line:
            raise SystemExit(f"programs: {self.millrace} serve did not start: {(self.work / 'filer.log').read_text()}")
        self.url = json.loads(line)["nfs"]
        return filer

    def close(self):
        self.filer.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.filer.wait(10)

    def environment(self, who):
        """Of programs on the mount. Each user has a runtime directory; `shared` is for programs that change their user."""
        # In memory, as a segment is mapped by all programs of the mount.
        folder = Path("/dev/shm") / f"{self.work.name}-{who}"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if who == "shared":
                shutil.chown(folder, group=SHARED_GROUP)
                folder.chmod(0o2770)
            elif self.user and os.getuid() == 0 and who == self.user.pw_name:
                os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        more = {"MILLRACE_RUNTIME_DIR": str(folder), "MILLRACE_PRELOAD": str(self.library), "LC_ALL": "C.UTF-8"}
        return {**os.environ, **more, "HOME": str(self.work), "TZ": "UTC"}

    def under(self, arguments, shared=False):
        """The command line that runs `arguments` with the export at /m."""
        group = ["--group", SHARED_GROUP] if shared else []
        return [str(self.millrace), "exec", "--mount", f"{MOUNT}={self.url}", *group, "--", *map(str, arguments)]

    def start(self, arguments, *, mount=True, user=None, shared=False, env=None, **more):
        """Starts a program; `user` is a pwd entry that root becomes first."""
        if user and os.getuid() == 0:
            more |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        who = "shared" if shared else user.pw_name if user else "own"
        command = self.under(arguments, shared) if mount else [str(argument) for argument in arguments]
        self.transcript.append("$ " + " ".join(command))
        environment = self.environment(who) | (env or {})
        return subprocess.Popen(command, cwd="/", env=environment, text=True, errors="replace", **more)

    def run(self, arguments, *, accept=False, timeout=COMMAND_TIMEOUT_S, input=None, **more):
        """Runs a program to its end. Failed when its exit code is not 0, unless `accept`."""
        # In files, not pipes: a server that a program leaves behind would keep a pipe open.
        with open(self.work / "stdout", "w+b") as out, open(self.work / "stderr", "w+b") as err:
            stdin = subprocess.PIPE if input is not None else subprocess.DEVNULL
            process = self.start(arguments, stdin=stdin, stdout=out, stderr=err, **more)
            try:
                process.communicate(input, timeout)
            except BaseException as end:
                process.kill()
                process.wait()
                if isinstance(end, subprocess.TimeoutExpired):
                    raise Failed(f"{Path(str(arguments[0])).name} did not end in {timeout} s") from None
                raise
            finally:
                texts = [Path(file.name).read_text(errors="replace") for file in (out, err)]
                self.transcript += texts
        done = subprocess.CompletedProcess(arguments, process.returncode, *texts)
        if process.returncode and not accept:
            raise Failed(f"{Path(str(arguments[0])).name}: exit code {process.returncode}: {last_line(done)}")
        return done

    def compare(self, name, program, *more, tree=True, times=False):
        """Runs `program DIRECTORY MORE…` on a directory of the mount and on a local one: what both print on stdout, and
        with `tree` what is left there, must be equal. Gives back the lines of stderr on the mount."""
        for parent in (self.export, self.local):
            shutil.rmtree(parent / name, ignore_errors=True)  # of a case that failed
            (parent / name).mkdir()
            (parent / name).chmod(0o777)
        here = self.run([*program, self.local / name, *more], mount=False)
        there = self.run([*program, f"{MOUNT}/{name}", *more])
        expected = here.stdout.replace(str(self.local / name), "DIR")
        got = there.stdout.replace(f"{MOUNT}/{name}", "DIR")
        if expected != got:
            raise Failed(f"prints otherwise than on a local directory: {first_difference(expected, got)}")
        if tree:
            same_tree(self.local / name, self.export / name, times)
        for parent in (self.export, self.local):
            shutil.rmtree(parent / name)
        return there.stderr.splitlines()

    def database_user(self):
        """Who runs PostgreSQL: it refuses root."""
        if self.user is None:
            self.user = pwd.getpwuid(os.getuid())
            if os.getuid() == 0:
                known = {user.pw_name: user for user in pwd.getpwall()}
                self.user = known.get("postgres") or known["nobody"]
        return self.user

    def folder_for(self, name, user=None, parent=None):
        """A directory on this host that `user` may write."""
        folder = (parent or self.work) / name
        folder.mkdir()
        folder.chmod(0o700)
        if user and os.getuid() == 0:
            os.chown(folder, user.pw_uid, user.pw_gid)
        return folder


def need(*names):
    """The path of the first of these programs that is installed."""
    for name in names:
        for path in (shutil.which(name), f"/usr/sbin/{name}"):
            if path and os.access(path, os.X_OK):
                return path
    raise NotInstalled(names[0])


def await_that(what, fact, seconds=60):
    """Waits until `fact()` is true; Failed after `seconds`."""
    end = time.monotonic() + seconds
    while not (got := fact()):
        if time.monotonic() > end:
            raise Failed(f"no {what} in {seconds} s")
        time.sleep(0.02)
    return got


def last_line(done):
    """What a program says of its failure: the last line that is not one of a Java stack."""
    lines = [line for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if not line.startswith("\tat ")]
    return lines[-1] if lines else "it printed nothing"


def first_difference(expected, got):
    pairs = zip(expected.splitlines() + ["nothing"], got.splitlines() + ["nothing"])
    return next((f"{b!r}, not {a!r}" for a, b in pairs if a != b), "more lines than the other")


def same_tree(expected, got, times):
    """Failed unless both directories have the same names, types, modes, sizes, link targets and contents, and with
    `times` the same times of modification of files."""
    facts = [dict(tree_facts(root, times)) for root in (expected, got)]
    for name in sorted(facts[0].keys() | facts[1].keys()):
        a, b = facts[0].get(name), facts[1].get(name)
        if a != b:
            raise Failed(f"{name} is {b}, on a local directory {a}")


def tree_facts(root, times):
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = Path(folder) / name
            found = path.lstat()
            facts = [oct(found.st_mode)]
            if stat.S_ISLNK(found.st_mode):
                facts.append(os.readlink(path))
            elif stat.S_ISREG(found.st_mode):
                facts += [found.st_size, found.st_nlink, digest(path)]
                facts += [found.st_mtime_ns] if times else []
            yield str(path.relative_to(root)), facts


def digest(path):
    with open(path, "rb") as file:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(file.read()).hexdigest()


def insert_rows(client, statement, who, acknowledged):
    """Rows by a client of a database, one after the other until the connection breaks: `statement` answers with the row's number."""
    with contextlib.suppress(BrokenPipeError), client:
        while True:
            row = acknowledged[who] + 1
            client.stdin.write(statement.format(who=who, row=row))
            client.stdin.flush()
            if client.stdout.readline().strip() != str(row):
                break
            acknowledged[who] = row
