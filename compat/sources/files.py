"""Files by Python's library. Argument: the directory. What differs on a mount by intent goes to stderr as `differs: …`."""

import fcntl, mmap, os, pathlib, shutil, subprocess, sys, tempfile, zipfile

root = pathlib.Path(sys.argv[1])
LOCKER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, int(sys.argv[2]))
    print("free")
except BlockingIOError:
    print("held")
"""


def paths():
    (root / "a/b").mkdir(parents=True)
    (root / "a/text").write_text("zwei Wörter\n" * 100, encoding="utf-8")
    (root / "a/b/bytes").write_bytes(bytes(range(256)) * 100)
    (root / "link").symlink_to("a/text")
    (root / "a/hard").hardlink_to(root / "a/text")
    print(sorted(str(path.relative_to(root)) for path in root.rglob("*")), (root / "link").resolve() == root / "a/text")
    print((root / "a/text").stat().st_nlink, (root / "a/text").stat().st_size, len((root / "link").read_text(encoding="utf-8")))
    (root / "a/text").rename(root / "a/renamed")
    print((root / "link").exists(), (root / "link").is_symlink(), sorted(entry.name for entry in os.scandir(root / "a")))
    os.utime(root / "a/renamed", ns=(1, 1234567890123456789))
    print((root / "a/renamed").stat().st_mtime_ns, os.access(root / "a", os.W_OK), [x[1:] for x in os.walk(root)][0])


def copies():
    shutil.copytree(root / "a", root / "copy", symlinks=True)
    shutil.move(root / "copy/b", root / "moved")
    archive = shutil.make_archive(str(root / "archive"), "gztar", root / "a")
    shutil.unpack_archive(archive, root / "unpacked")
    os.remove(archive)
    print(sorted(os.listdir(root / "unpacked")), shutil.disk_usage(root).total > 0)
    with zipfile.ZipFile(root / "z.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo("n"), "text" * 1000)
    with zipfile.ZipFile(root / "z.zip") as file:
        print(file.testzip(), len(file.read("n")))
    shutil.rmtree(root / "unpacked")


def descriptors():
    with open(root / "random", "w+b", buffering=0) as file:
        file.write(b"0123456789" * 1000)
        os.pwrite(file.fileno(), b"PWRITE", 5)
        os.pwritev(file.fileno(), [b"one", b"two"], 9000)
        print(os.pread(file.fileno(), 12, 3), file.seek(-5, 2), file.read(), file.tell())
        os.ftruncate(file.fileno(), 9500)
        os.fsync(file.fileno())
        print(os.fstat(file.fileno()).st_size)
        with open(root / "sent", "wb") as target:
            print(os.sendfile(target.fileno(), file.fileno(), 0, 9500), os.copy_file_range(file.fileno(), target.fileno(), 100, 0))
    with open(root / "log", "a") as log:
        for number in range(3):
            log.write(f"{number}\n")
            log.flush()
            subprocess.run(["sh", "-c", "echo child; echo error >&2"], stdout=log, stderr=subprocess.STDOUT, check=True)
    print((root / "log").read_text().split())
    os.replace(root / "sent", root / "log")
    print(os.stat(root / "log").st_size)


def mappings():
    with open(root / "mapped", "w+b") as file:
        file.write(b"abc" * 5000)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as private:
            private[0:3] = b"XYZ"
            print(private[0:6], private.find(b"cab"), os.pread(file.fileno(), 3, 0))
        with mmap.mmap(file.fileno(), 0) as shared, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other:
            shared[3:6] = b"one"
            os.pwrite(file.fileno(), b"two", 6)
            print(other[0:9], os.pread(file.fileno(), 9, 0))
            shared.flush()
            shared.resize(20000)
            print(shared[15000:15003], os.fstat(file.fileno()).st_size)


def locks():
    path = root / "locked"
    path.write_bytes(bytes(100))

    def other(start):
        return subprocess.run([sys.executable, "-c", LOCKER, path, str(start)], capture_output=True, text=True, check=True).stdout.strip()

    with open(path, "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        print(other(0), other(10), other(5))
        fcntl.lockf(file, fcntl.LOCK_UN, 10, 0)
        print(other(0))
        fcntl.flock(file, fcntl.LOCK_EX)
        with open(path) as second:
            try:
                fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                print("flock holds")


def temporaries():
    with tempfile.TemporaryDirectory(dir=root) as folder:
        with tempfile.NamedTemporaryFile(dir=folder) as named:
            named.write(b"named")
            named.flush()
            print(os.path.getsize(named.name))
        with tempfile.TemporaryFile(dir=folder) as unnamed:
            unnamed.write(b"unnamed")
            unnamed.seek(0)
            print(unnamed.read(), os.listdir(folder))
    print(sorted(os.listdir(root)))


for part in (paths, copies, descriptors, mappings, locks, temporaries):
    part()
for file in root.rglob("*.zip"):
    print(file.name)
