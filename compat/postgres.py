"""PostgreSQL: each version found makes, loads, loses, copies and restores a cluster on the mount."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from world import MOUNT, Failed, NotInstalled, await_that, insert_rows, need

PORT, COPY_PORT = 5432, 5433
SUMS = "select count(*), sum(abalance), md5(string_agg(aid || ' ' || abalance, ',' order by aid)) from pgbench_accounts"
ROWS_BEFORE_KILL = 300


def cases(seconds):
    folders = bin_folders() or [Path("/usr/lib/postgresql/none/bin")]
    life = f"initdb with checksums, pgbench {seconds} s, shutdown, `pg_checksums`"
    kill = "SIGKILL to every process under load, recovery, each acknowledged row looked for; three times"
    dump = "`pg_dump` to the mount as a file and as a directory, `pg_restore`"
    copy = "`pg_basebackup` under load to the mount, `pg_verifybackup`, the copy started"
    for folder in folders:
        program = f"PostgreSQL {major(folder) or ''}".strip()
        yield program, life, case_of(folder, (), loaded, seconds)
        yield program, kill, case_of(folder, (), killed)
        yield program, dump, case_of(folder, ("pg_dump", "pg_restore"), dumped)
        yield program, copy, case_of(folder, ("pg_basebackup", "pg_verifybackup"), copied)
        for method in ("worker", "sync", "io_uring") if major(folder) >= 18 else ():
            what = f"`io_method={method}`: start, pgbench {seconds} s, restart, a scan"
            yield program, what, case_of(folder, (), by_method, method, seconds)
    what = "repository on the mount: stanza-create, full and incremental backup, restore, recovery"
    yield "pgBackRest", what, case_of(folders[0], (), backed_up)


def case_of(folder, tools, job, *more):
    """A job on a fresh cluster of the version in `folder`; it needs these tools of the same version."""

    def run(world):
        for tool in tools:
            if not (folder / tool).is_file():
                raise NotInstalled(f"{tool} of this version")
        if job is backed_up:
            need("pgbackrest")
        return with_cluster(world, folder, job, *more)

    return run


def bin_folders():
    """Debian's, and those that MILLRACE_TEST_PG_BIN names, by version."""
    named = [Path(name) for name in os.environ.get("MILLRACE_TEST_PG_BIN", "").split(":") if name]
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *named]
    return sorted({folder for folder in found if (folder / "initdb").is_file()}, key=major)


def major(folder):
    with contextlib.suppress(OSError):
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True).stdout
        return int(re.search(r"\d+", said).group())
    return 0


class Cluster:
    """A cluster on the mount, whose log and sockets are on this host."""

    def __init__(self, world, folder, name="pg"):
        if not (folder / "initdb").is_file():
            raise NotInstalled("PostgreSQL")
        self.world, self.folder, self.user, self.name = world, folder, world.database_user(), name
        self.home = world.folder_for(f"{name}-home", self.user)
        world.folder_for(name, self.user, world.export)
        self.data, self.log, self.port = f"{MOUNT}/{name}/data", self.home / "log", PORT
        said = world.run([folder / "postgres", "--version"], mount=False).stdout
        self.version = re.search(r"\d\S*", said).group()

    def tool(self, name):
        """Of this version, else of the newest that is installed."""
        for folder in [self.folder, *reversed(bin_folders())]:
            if (folder / name).is_file():
                return folder / name
        return Path(need(name))

    def run(self, *arguments, **more):
        return self.world.run(arguments, user=self.user, **more)

    def init(self):
        self.run(self.folder / "initdb", "-A", "trust", "-U", "postgres", "-k", "--no-locale", "-D", self.data)

    def start(self, options="", data=None, port=PORT, **more):
        settings = f"-k {self.home} -p {port} -c listen_addresses='' {options}"
        command = [self.folder / "pg_ctl", "start", "-w", "-t", "120", "-D", data or self.data, "-l", self.log, "-o", settings]
        return self.run(*command, **more)

    def stop(self, data=None, mode="fast"):
        self.run(self.folder / "pg_ctl", "stop", "-w", "-m", mode, "-D", data or self.data)

    def address(self, port=PORT):
        return ["-h", self.home, "-p", port, "-U", "postgres"]

    def sql(self, text, database="postgres", port=PORT):
        command = [self.tool("psql"), *self.address(port), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", text]
        return self.run(*command, mount=False).stdout.strip()

    def bench(self, seconds):
        """pgbench: how many transactions it counts."""
        command = [self.tool("pgbench"), *self.address(), "-n", "-c", 4, "-j", 2, "-T", seconds, "postgres"]
        said = self.run(*command, mount=False, timeout=seconds + 120).stdout
        return int(re.search(r"transactions actually processed: (\d+)", said).group(1))

    def fill(self):
        self.run(self.tool("pgbench"), *self.address(), "-i", "-q", "-s", 2, "postgres", mount=False)

    def kill(self):
        """SIGKILL to every process, as a host that dies would."""
        postmaster = int((self.world.export / self.name / "data/postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (*map(int, children), postmaster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await_that("end of the killed server", lambda: not any(Path(f"/proc/{pid}").exists() for pid in (*children, postmaster)))

    def leave(self):
        """Ends whatever runs, and removes the files."""
        for file in self.world.export.glob(f"{self.name}*/*/postmaster.pid"):
            with contextlib.suppress(Failed):
                self.stop(f"{MOUNT}/{file.parent.relative_to(self.world.export)}", "immediate")
        self.world.transcript.append("# the server's log\n" + (self.log.read_text() if self.log.exists() else ""))
        for folder in (self.home, *self.world.export.glob(f"{self.name}*")):
            shutil.rmtree(folder, ignore_errors=True)


def with_cluster(world, folder, job, *more):
    cluster = Cluster(world, folder)
    try:
        cluster.init()
        result = job(cluster, *more)
        return result if isinstance(result, tuple) else (cluster.version, result)
    finally:
        cluster.leave()


def loaded(cluster, seconds):
    cluster.start()
    cluster.fill()
    count = cluster.bench(seconds)
    counted_and_sound(cluster, count)
    cluster.stop()
    checked = ""
    if (cluster.folder / "pg_checksums").is_file():
        cluster.run(cluster.folder / "pg_checksums", "--check", "-D", cluster.data)
        checked = "; all page checksums right"
    return f"{count:,} transactions, each in the history, balances agree{checked}"


def counted_and_sound(cluster, count):
    rows = int(cluster.sql("select count(*) from pgbench_history"))
    parts = ("sum(abalance) from pgbench_accounts", "sum(bbalance) from pgbench_branches", "sum(delta) from pgbench_history")
    sums = cluster.sql("select " + ", ".join(f"(select {part})" for part in parts))
    if rows != count or len(set(sums.split("|"))) != 1:
        raise Failed(f"{count} transactions, {rows} rows of history; sums {sums}")


def killed(cluster):
    cluster.start()
    cluster.sql("create table t(who int, n int, filler text, primary key(who, n))")
    total = 0
    for round in range(3):
        acknowledged = {who: 0 for who in range(round * 4, round * 4 + 4)}
        clients = [threading.Thread(target=insert, args=(cluster, who, acknowledged)) for who in acknowledged]
        for client in clients:
            client.start()
        await_that("rows", lambda: sum(acknowledged.values()) > ROWS_BEFORE_KILL)
        cluster.kill()
        for client in clients:
            client.join()
        cluster.start()
        for who, last in acknowledged.items():
            count, highest = map(int, cluster.sql(f"select count(*), coalesce(max(n), 0) from t where who = {who}").split("|"))
            # One more may be there that nobody was told of.
            if count != highest or highest < last:
                raise Failed(f"round {round + 1}: rows 1 to {last} were acknowledged, {count} are there, the last is {highest}")
        total += sum(acknowledged.values())
    return f"all {total:,} acknowledged rows there"


def insert(cluster, who, acknowledged):
    """Rows one after the other until the connection breaks."""
    command = [cluster.tool("psql"), *cluster.address(), "-XAtq", "-d", "postgres"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    client = cluster.world.start(command, mount=False, user=cluster.user, **pipes)
    insert_rows(client, "insert into t values ({who}, {row}, repeat('x', 1000)) returning n;\n", who, acknowledged)


def dumped(cluster):
    dump, restore = cluster.tool("pg_dump"), cluster.tool("pg_restore")
    cluster.start()
    cluster.fill()
    cluster.bench(2)
    file = f"{MOUNT}/{cluster.name}/dump"
    cluster.run(dump, *cluster.address(), "-Fc", "-f", file, "postgres")
    cluster.run(dump, *cluster.address(), "-Fd", "-j", 2, "-f", file + "-directory", "postgres")
    for database, source in (("one", file), ("two", file + "-directory")):
        cluster.sql(f"create database {database}")
        cluster.run(restore, *cluster.address(), "-j", 2, "-d", database, source)
    sums = {cluster.sql(SUMS, database) for database in ("postgres", "one", "two")}
    if len(sums) != 1:
        raise Failed(f"the restored tables differ: {sums}")
    return "both restored, all tables equal"


def copied(cluster):
    backup = cluster.tool("pg_basebackup")
    cluster.start()
    cluster.fill()
    copy = f"{MOUNT}/{cluster.name}/copy"
    load = threading.Thread(target=cluster.bench, args=(5,))
    load.start()
    cluster.run(backup, *cluster.address(), "-c", "fast", "-D", copy)
    cluster.run(cluster.tool("pg_verifybackup"), copy)
    load.join()
    cluster.start(data=copy, port=COPY_PORT)
    rows = int(cluster.sql("select count(*) from pgbench_history", port=COPY_PORT))
    balance, history = "select sum(abalance) from pgbench_accounts", "select coalesce(sum(delta), 0) from pgbench_history"
    agree = cluster.sql(f"select ({balance}) = ({history})", port=COPY_PORT)
    cluster.stop(copy)
    if agree != "t":
        raise Failed("balances of the copy do not agree with its history")
    return f"the copy is sound, with {rows:,} transactions of the load"


def by_method(cluster, method, seconds):
    started = cluster.start(f"-c io_method={method}", accept=True)
    if started.returncode:
        log = cluster.log.read_text()
        fatal = [line for line in log.splitlines() if re.search(r"FATAL|ERROR|HINT|io_uring", line)]
        said = "; ".join(dict.fromkeys(re.sub(r"^.*?(FATAL|HINT|ERROR):\s*", "", line) for line in fatal))
        if method != "io_uring":
            raise Failed(f"does not start: {said}")
        return f"limit: the server does not start: `{said}`"
    cluster.fill()
    count = cluster.bench(seconds)
    counted_and_sound(cluster, count)
    shown = cluster.sql("show io_method")
    if shown != method:
        raise Failed(f"io_method is {shown}")
    cluster.stop()
    cluster.start(f"-c io_method={method}")
    accounts = cluster.sql("select count(*) from pgbench_accounts")
    return f"{count:,} transactions, balances agree, after a restart {accounts} accounts read"


def backed_up(cluster):
    program = need("pgbackrest")
    conf, home = cluster.home / "pgbackrest.conf", cluster.home
    repository = f"{MOUNT}/{cluster.name}/repository"
    cluster.world.folder_for("repository", cluster.user, cluster.world.export / cluster.name)
    text = f"[global]\nrepo1-path={repository}\nlock-path={home}\nlog-path={home}\nspool-path={home}\nstart-fast=y\n"
    conf.write_text(text + f"[main]\npg1-path={cluster.data}\npg1-port={PORT}\npg1-socket-path={home}\npg1-user=postgres\n")
    conf.chmod(0o644)
    command = [program, f"--config={conf}", "--stanza=main", "--log-level-console=info"]
    archive = f"{program} --config={conf} --stanza=main archive-push %p"
    with open(cluster.world.export / cluster.name / "data/postgresql.conf", "a") as settings:
        settings.write(f"archive_mode = on\narchive_command = '{archive}'\n")
    cluster.start()
    cluster.fill()
    cluster.run(*command, "stanza-create")
    cluster.run(*command, "check")
    cluster.run(*command, "--type=full", "backup")
    cluster.bench(3)
    cluster.run(*command, "--type=incr", "backup")
    cluster.bench(2)
    expected = cluster.sql(SUMS)
    cluster.stop()
    shutil.rmtree(cluster.world.export / cluster.name / "data")
    cluster.run(*command, "restore")
    cluster.start()
    # It answers, read-only, before all of the log is restored.
    await_that("end of the recovery", lambda: cluster.sql("select pg_is_in_recovery()") == "f")
    if cluster.sql(SUMS) != expected:
        raise Failed("the restored tables differ from those at the stop")
    said = cluster.run(program, "version", mount=False).stdout
    result = "a full and an incremental backup, restored with the archived log, all tables equal"
    return said.split()[1], f"with PostgreSQL {cluster.version}: {result}"
