# What a program may do in a directory: one line per operation, with `ok` or the error. `f` is a
# private file of another user, `program` a private program, `closed` a private directory.
import ctypes, os, subprocess, sys

os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def outcome(name, call):
    try:
        call()
        print(name, "ok")
    except OSError as error:
        print(name, os.strerror(error.errno))

def opened(path, flags):
    os.close(os.open(path, flags, 0o600))

def asked(answer):
    if not answer:
        raise PermissionError(13, "")

def entered(path):
    here = os.getcwd()
    os.chdir(path)
    os.chdir(here)

outcome("read", lambda: opened("f", os.O_RDONLY))
outcome("write", lambda: opened("f", os.O_RDWR))
outcome("append", lambda: opened("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT))
outcome("truncate", lambda: os.truncate("f", 3))
outcome("O_TRUNC", lambda: opened("f", os.O_WRONLY | os.O_TRUNC))
outcome("access", lambda: asked(os.access("f", os.R_OK | os.W_OK)))
outcome("faccessat", lambda: asked(os.access("f", os.W_OK, effective_ids=True)))
outcome("access to execute", lambda: asked(os.access("program", os.X_OK)))
outcome("execute", lambda: subprocess.run(["./program"], check=True))
outcome("list", lambda: os.listdir("closed"))
outcome("enter", lambda: entered("closed"))
outcome("create in", lambda: opened("closed/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
