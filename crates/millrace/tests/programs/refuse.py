# refuse.py ERRNO CALL[:ARGUMENT=VALUE]... -- COMMAND: runs a command under a seccomp filter, by which these system calls, given by
# number, fail with this errno. With an argument, only calls with that value of the argument fail.
import ctypes, os, struct, sys
i = sys.argv.index('--')
errno = int(sys.argv[1]); rules = sys.argv[2:i]
LD, JEQ, RET = 0x20, 0x15, 0x06
ops = []
for rule in rules:
    call, _, arg = rule.partition(':')
    ops.append((LD, 0, 0, 0))
    if arg:
        place, value = map(int, arg.split('='))
        ops.append((JEQ, 0, 3, int(call)))
        ops.append((LD, 0, 0, 16 + 8 * place))
        ops.append((JEQ, 0, 1, value))
    else:
        ops.append((JEQ, 0, 1, int(call)))
    ops.append((RET, 0, 0, 0x00050000 | errno))
ops.append((RET, 0, 0, 0x7fff0000))
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *op) for op in ops))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(ops), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[i+1], sys.argv[i+1:])
