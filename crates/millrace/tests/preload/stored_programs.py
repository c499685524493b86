"""Runs programs and loads libraries that are stored in a directory, and prints what they saw; argv is the directory, a program that
becomes others (exec.c), one that prints its arguments and a library's source compiled."""
import ctypes, errno, os, shutil, subprocess, sys

folder, starter, printing, library = sys.argv[1:]
os.chdir(folder)

def say(*what):
    print(*[str(part).replace(folder, "DIR") for part in what], flush=True)

def run(*command, **how):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, **how)
    say(*command, "->", ended.returncode, ended.stdout.split("\n"), ended.stderr.split("\n"))

def script(name, text, mode=0o755):
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, mode)

shutil.copy(printing, "program")
script("script", '#!/bin/sh\necho script "$0" "$@"\n')
script("with-argument", '#!/bin/sh -eu\necho "$-" "$@"\n')
script("of-script", f"#!{folder}/with-argument more words \n")
script("of-program", f"#!{folder}/program\n")
script("bare", 'echo bare "$1"\n')
script("no-interpreter", "#!/no/such/interpreter\n")
script("empty-line", "#!\n")
script("not-executable", "#!/bin/sh\n", 0o644)
os.symlink("/bin/echo", "to-host")
os.symlink("program", "to-program")
os.mkdir("folder")

PROGRAMS = ["program", "script", "with-argument", "of-script", "of-program", "to-host", "to-program"]
KINDS = ["execl", "execlp", "execle", "execv", "execvp", "execve", "execvpe", "execveat", "SYS_execve", "posix_spawn", "posix_spawnp"]
for kind in KINDS + ["fexecve"]:
    names = {"execve": PROGRAMS, "posix_spawn": PROGRAMS, "fexecve": ["program"]}
    for name in names.get(kind, ["program", "script"]):
        run(starter, "run", kind, f"{folder}/{name}", "said")
run(starter, "run", "execv", "./program", "relative")
for kind in ["execle", "execve", "execvpe", "posix_spawn", "posix_spawnp"]:
    run(starter, "run", kind, f"{folder}/script", "said", "bare")

# The search in PATH, and the shell for files that are not programs.
search = dict(os.environ, PATH=f"/no/such/folder:{folder}/folder:{folder}:" + os.environ["PATH"])
for kind in ["execlp", "execvp", "execvpe", "posix_spawnp"]:
    names = ["program", "script", "to-host", "not-executable", "nothing", "bare"] if kind in ("execvp", "posix_spawnp") else ["script"]
    for name in names[:5] if kind == "posix_spawnp" else names:
        run(starter, "run", kind, name, "found", env=search)
run("sh", "-c", "program shell; script shell; bare shell; ./program here; exec ./script last", env=search)

# Refused programs, and the errors.
for name in ["no-interpreter", "empty-line", "not-executable", "folder", "nothing", "program/below", "bare"]:
    for call in [lambda path: os.execv(path, ["x"]), lambda path: os.posix_spawn(path, ["x"], os.environ)]:
        try:
            call(f"{folder}/{name}")
        except OSError as error:
            say(name, errno.errorcode[error.errno])

# The name of a program for others, and for itself.
shutil.copy(os.path.realpath("/bin/cat"), "named")
shutil.copy(os.path.realpath("/bin/readlink"), "links")
run("./named", "/proc/self/comm")
run("./links", "/proc/self/exe")
run("./links", "-f", "/proc/self/exe")

# Libraries: two files are two libraries, and a file that is loaded twice is one. A changed file is
# another library.
shutil.copy(library, "libone.so")
shutil.copy(library, "libtwo.so")
one, again, two = (ctypes.CDLL(name) for name in [f"{folder}/libone.so", "./libone.so", "./libtwo.so"])
say(one.next(), again.next(), one.next(), two.next(), one._handle == again._handle, one._handle == two._handle)
os.symlink("libtwo.so", "liblink.so")
say(ctypes.CDLL("./liblink.so").next())
try:
    ctypes.CDLL(f"{folder}/nothing.so")
except OSError as error:
    say(error)
try:
    ctypes.CDLL(f"{folder}/script")
except OSError as error:
    say("not a library" if "invalid ELF header" in str(error) or "file too short" in str(error) else error)
