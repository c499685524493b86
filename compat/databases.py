"""MariaDB with its defaults: installed and started by root, run by another user, on the mount."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading

from tools import version_of
from world import MOUNT, SHARED_USER, Failed, await_that, insert_rows, last_line, need

ROUNDS = 2
ROWS_BEFORE_KILL = 400
FILL = "create database d; create table d.t(who int, n int, filler text, primary key(who, n))"
MANY = "insert into d.t select 1000, seq, repeat('y', seq % 500) from d.seq_1_to_20000"


def cases():
    life = "mariadb-install-db and server with the defaults, statements in InnoDB, Aria and MyISAM, clean shutdown, restart, "
    life += "`check table`, innochecksum"
    yield "MariaDB", life, lambda world: with_server(world, lived)
    kill = f"SIGKILL under load, recovery, each acknowledged row looked for, `check table extended`; {ROUNDS} times"
    yield "MariaDB", kill, lambda world: with_server(world, killed)
    yield "MariaDB", "mariadb-dump to the mount, loaded again", lambda world: with_server(world, dumped)
    backup = "mariadb-backup to the mount, prepared, started as a server"
    yield "MariaDB", backup, lambda world: with_server(world, backed_up)


class Server:
    """A server whose files are on the mount, and its socket and process file on this host."""

    def __init__(self, world):
        self.world, self.install, self.program = world, need("mariadb-install-db"), need("mariadbd")
        self.as_root = os.getuid() == 0
        self.home = world.work / "mariadb-home"
        self.home.mkdir()
        self.home.chmod(0o777)
        self.folder = world.export / "mariadb"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.process, self.files = None, f"{MOUNT}/mariadb"

    def on_mount(self, program, data="data"):
        """The command line of one of MariaDB's own programs."""
        user = [f"--user={SHARED_USER}"] if self.as_root else []
        return [program, "--no-defaults", *user, f"--datadir={self.files}/{data}"]

    def run(self, command, **more):
        return self.world.run(command, shared=self.as_root, **more)

    def make(self):
        self.run([*self.on_mount(self.install), "--auth-root-authentication-method=normal", "--skip-test-db"])

    def start(self, data="data"):
        socket = self.home / "socket"
        socket.unlink(missing_ok=True)
        options = ["--skip-networking", f"--log-error={self.files}/log.err", f"--pid-file={self.home}/pid", f"--socket={socket}"]
        with open(self.home / "said", "ab") as said:
            command = [*self.on_mount(self.program, data), *options]
            self.process = self.world.start(command, shared=self.as_root, stdout=said, stderr=said)

        def answers():
            if self.process.poll() is not None:
                raise Failed(f"the server ended: {self.log().splitlines()[-1:]}")
            return subprocess.run([*self.client(), "-e", "select 1"], capture_output=True).returncode == 0

        await_that("answer of the server", answers, 90)

    def log(self):
        files = (self.folder / "log.err", self.home / "said")
        return "".join(path.read_text(errors="replace") for path in files if path.exists())

    def client(self):
        return [need("mariadb"), "--no-defaults", "-u", "root", "-BN", "--unbuffered", "-S", str(self.home / "socket")]

    def sql(self, text):
        return self.world.run([*self.client(), "-e", text], mount=False).stdout.strip()

    def shut_down(self):
        self.sql("shutdown")
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process.wait(90) == 0:
                return
        raise Failed(f"the shutdown ended with {self.process.poll()}")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def leave(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.world.transcript.append("# the server's log\n" + self.log())
        for folder in (self.home, self.folder):
            shutil.rmtree(folder, ignore_errors=True)


def with_server(world, job):
    server = Server(world)
    try:
        server.make()
        server.start()
        return version_of(world, server.program), job(server)
    finally:
        server.leave()


def lived(server):
    engines = ("InnoDB", "Aria", "MyISAM")
    server.sql(FILL + "; " + MANY)
    for engine in engines:
        made = f"create table d.{engine} engine={engine} as select * from d.t; alter table d.{engine} add key(n)"
        server.sql(f"{made}; delete from d.{engine} where n % 3 = 0")
    native = server.sql("select @@innodb_use_native_aio")
    sums = checksums(server, *engines)
    if len(set(sums)) != 1:
        raise Failed(f"the three engines hold different rows: {sums}")
    server.sql("optimize table d.InnoDB, d.MyISAM; set global innodb_fast_shutdown=0")
    server.shut_down()
    server.start()
    if checksums(server, *engines) != sums:
        raise Failed("the rows are other ones after a restart")
    checked(server, "d.t", *(f"d.{engine}" for engine in engines))
    server.shut_down()
    pages = innochecksum(server)
    return f"`innodb_use_native_aio={native}`; rows equal after the restart, all tables sound{pages}"


def checksums(server, *tables):
    return [server.sql(f"checksum table d.{table}").split()[-1] for table in tables]


def checked(server, *tables):
    for line in server.sql(f"check table {', '.join(tables)} extended").splitlines():
        if not line.endswith("status\tOK"):
            raise Failed(f"check table: {line}")


def innochecksum(server):
    """Of files of the stopped server; behind page 63 of ibdata1 the doublewrite buffer begins, whose pages may be anything."""
    if not shutil.which("innochecksum"):
        return ""
    for file, options in (("ibdata1", ["--end-page=63"]), ("d/t.ibd", [])):
        server.world.run(["innochecksum", *options, server.folder / "data" / file], mount=False)
    return ", innochecksum clean"


def killed(server):
    server.sql(FILL)
    total = 0
    for round in range(ROUNDS):
        acknowledged = {who: 0 for who in range(round * 4, round * 4 + 4)}
        clients = [threading.Thread(target=insert, args=(server, who, acknowledged)) for who in acknowledged]
        for client in clients:
            client.start()
        await_that("rows", lambda: sum(acknowledged.values()) > ROWS_BEFORE_KILL)
        server.kill()
        for client in clients:
            client.join()
        server.start()
        for who, last in acknowledged.items():
            count, highest = map(int, server.sql(f"select count(*), coalesce(max(n), 0) from d.t where who = {who}").split())
            # One more may be there that nobody was told of.
            if count != highest or highest < last:
                raise Failed(f"round {round + 1}: rows 1 to {last} were acknowledged, {count} are there, the last is {highest}")
        checked(server, "d.t")
        total += sum(acknowledged.values())
    server.shut_down()
    return f"all {total:,} acknowledged rows there, tables sound{innochecksum(server)}"


def insert(server, who, acknowledged):
    """Rows one after the other until the connection breaks."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    client = server.world.start(server.client(), mount=False, **pipes)
    insert_rows(client, "insert into d.t values ({who}, {row}, repeat('x', 3000)); select {row};\n", who, acknowledged)


def dumped(server):
    dump = need("mariadb-dump", "mysqldump")
    server.sql(FILL + "; " + MANY)
    file = f"{server.files}/dump.sql"
    options = ["--no-defaults", "-u", "root", "-S", server.home / "socket", f"--result-file={file}", "--single-transaction"]
    server.run([dump, *options, "d"])
    server.sql("create database e")
    server.run(["sh", "-c", 'file=$1; shift; exec "$@" e <"$file"', "sh", file, *server.client()])
    sums = server.sql("checksum table d.t, e.t").split()
    if sums[1] != sums[3]:
        raise Failed(f"the loaded rows differ: {sums}")
    server.shut_down()
    return "the loaded table is equal"


def backed_up(server):
    backup = need("mariadb-backup", "mariabackup")
    server.sql(FILL + "; " + MANY)
    expected = server.sql("checksum table d.t")
    target = f"--target-dir={server.files}/backup"
    # `--user` is the database's user here, not the system's.
    options = [target, f"--socket={server.home}/socket", "--user=root", f"--datadir={server.files}/data"]
    done = server.run([backup, "--no-defaults", "--backup", *options])
    if "completed OK" not in done.stderr:
        raise Failed(f"the backup says: {last_line(done)}")
    server.run([backup, "--no-defaults", "--prepare", target])
    server.shut_down()
    if server.as_root:
        server.run(["chown", "-R", SHARED_USER, f"{server.files}/backup"])
    server.start("backup")
    if server.sql("checksum table d.t") != expected:
        raise Failed("the rows of the backup differ")
    checked(server, "d.t")
    server.shut_down()
    return "the prepared backup is sound as a server, its table equal"

