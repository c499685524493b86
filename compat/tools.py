"""Shells, file tools, archives, git, a compiler: each on the mount and on a local directory, by a script of sources/."""

import random
import re

from world import SOURCES, Failed, need

SMALL_FILES = 5000
LARGE_BYTES = 256 << 20
SAME = "as on a local directory"


def cases():
    shell = "redirection, here-documents, globs, pipes, `>>` from two processes, `test -nt`, `cd`"
    yield "bash", shell + ", process substitution", lambda world: script(world, "bash", "shell.sh", version="--version")
    yield "dash", shell, lambda world: script(world, "dash", "shell.sh")
    names = "`cp -a` of a tree, `diff -r`, `mv`, `ln`, `sort`, `split`, `sed -i`, `du`, `find`, `dd`, `truncate`, `stat`, `rm -r`"
    yield "coreutils, findutils, sed", names, files
    yield "tar", "extract 5,000 small files, compare, pack again; a file of 256 MiB out and in", tar
    yield "gzip", "pack, test, unpack, `zcat`", lambda world: script(world, "bash", "pack.sh", "gzip", of="gzip")
    yield "zstd", "pack, test, unpack", lambda world: script(world, "bash", "pack.sh", "zstd", of="zstd")
    yield "xz", "pack, test, unpack", lambda world: script(world, "bash", "pack.sh", "xz", of="xz")
    yield "rsync", "`-aH` of a tree; a second run that changes nothing; `--delete`, `--inplace`, `--checksum`", rsync
    git = "init, 200 commits by fast-import, 10 by hand, branch, merge, stash, clone, `gc`, `fsck --strict`, `status`"
    yield "git", git, lambda world: script(world, "bash", "git.sh", of="git", tree=False)
    yield "cc, ar, ld", "compile three files, archive, link, all on the mount; a copy of the program run", cc


def version_of(world, program, option="--version"):
    """The first number with a dot that the program prints of itself."""
    done = world.run([need(program), option], mount=False, accept=True)
    found = re.search(r"\d+(\.\d+)+\S*", done.stdout + done.stderr)
    return found.group().rstrip(",;)") if found else ""


def script(world, shell, name, *more, of=None, version=None, **how):
    """A script of sources/ run by `shell` on both directories; the version is that of program `of`."""
    if of:
        need(of)
    command = [need(shell), SOURCES / name]
    world.compare(name.removesuffix(".sh"), command, *more, **how)
    return (version_of(world, of or shell) if of or version else package_version(world, shell)), SAME


def package_version(world, package):
    """Of programs that do not say theirs."""
    try:
        return world.run([need("dpkg-query"), "-W", "-f", "${Version}", package], mount=False, accept=True).stdout
    except Exception:  # another distribution
        return ""


def tree_of_files(world, count=400):
    """A local tree of files of odd sizes, modes and times, with links; the same in each run."""
    root = world.work / f"tree-{count}"
    if root.exists():
        return root
    chance = random.Random(20)
    for number in range(count):
        folder = root / f"d{number % 17}" / f"e{number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"file {number}.txt"
        file.write_bytes(chance.randbytes(int(2 ** chance.uniform(0, 15 if count < 1000 else 12))))
        file.chmod(chance.choice([0o600, 0o644, 0o755, 0o440]))
        if number % 50 == 0:
            (folder / f"link {number}").symlink_to(f"../{folder.name}/{file.name}")
            (folder / f"hard {number}").hardlink_to(file)
    return root


def files(world):
    return script(world, "bash", "files.sh", tree_of_files(world), of="cp", times=True)


def tar(world):
    need("tar")
    many, large = world.work / "many.tar", world.work / "large.tar"
    tree = tree_of_files(world, SMALL_FILES)
    world.run(["tar", "-cf", many, "-C", tree, "."], mount=False)
    data = world.work / "large"
    with open(data, "wb") as file:
        chance = random.Random(21)
        for _ in range(LARGE_BYTES >> 20):
            file.write(chance.randbytes(1 << 20))
    world.run(["tar", "-cf", large, "-C", world.work, "large"], mount=False)
    data.unlink()
    try:
        return script(world, "bash", "tar.sh", many, tree, large, of="tar", times=True)
    finally:
        many.unlink()
        large.unlink()


def rsync(world):
    need("rsync")
    return script(world, "bash", "rsync.sh", tree_of_files(world), of="rsync", times=True)


def cc(world):
    need("cc")
    built = world.folder_for("built")
    compiled = script(world, "bash", "cc.sh", SOURCES, built, of="cc", tree=False)
    if not (built / "program").exists():
        raise Failed("no program was copied from the mount")
    return compiled
