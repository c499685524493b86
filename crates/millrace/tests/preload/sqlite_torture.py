"""Two writers and three readers of one SQLite database: arguments are its path, the journal mode and the seconds."""
import os, sqlite3, subprocess, sys, time

path, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
ACCOUNTS = 20


def connect():
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute(f"pragma mmap_size={os.environ.get('SQLITE_MMAP_SIZE', '0')}")
    database.execute("pragma synchronous=full")
    assert database.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
    return database


def work(who):
    """A writer moves money, a reader counts it: the sum never changes."""
    database, turns, end = connect(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        if who.startswith("w"):
            database.execute("begin immediate")
            source, target = turns % ACCOUNTS, (turns * 7 + 3) % ACCOUNTS
            database.execute("update account set amount = amount - 1 where id = ?", (source,))
            database.execute("update account set amount = amount + 1 where id = ?", (target,))
            database.execute("insert into moved values (?, ?, zeroblob(2000))", (who, turns))
            if turns % 5 == 4:
                database.execute("rollback")
            else:
                database.execute("commit")
            if turns % 100 == 99:
                database.execute("delete from moved where rowid % 3 = 0")
                mode == "wal" and database.execute("pragma wal_checkpoint(truncate)").fetchall()
        else:
            assert database.execute("select sum(amount) from account").fetchone()[0] == 1000 * ACCOUNTS
            database.execute("select count(*) from moved").fetchone()
        turns += 1
    print(turns)


if len(sys.argv) > 4:
    work(sys.argv[4])
    sys.exit()
database = connect()
database.execute("create table account(id integer primary key, amount int)")
database.execute("create table moved(who text, n int, padding blob)")
database.executemany("insert into account values (?, 1000)", [(n,) for n in range(ACCOUNTS)])
workers = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:4], who], stdout=subprocess.PIPE, text=True) for who in ("w1", "w2", "r1", "r2", "r3")]
turns = [int(worker.communicate()[0] or 0) for worker in workers]
assert all(turns) and not any(worker.returncode for worker in workers), (turns, [worker.returncode for worker in workers])
print(database.execute("pragma integrity_check").fetchone()[0], database.execute("select sum(amount) from account").fetchone()[0])
database.close()
print(sorted(os.listdir(os.path.dirname(path))))
