# The calls that databases and their tools make on a mount at /db, with what each must return.
import fcntl, mmap, os, sys
d = '/db/d%d' % os.getpid()
os.mkdir(d)
f = os.open(d + '/f', os.O_RDWR | os.O_CREAT)
data = bytes(i % 251 for i in range(200000))
assert os.pwrite(f, data, 0) == len(data)
os.fsync(f)
assert os.pread(f, len(data) + 1, 0) == data
fcntl.lockf(f, fcntl.LOCK_EX)
pid = os.fork()
if pid == 0:
    try:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os._exit(3)
    except OSError:
        pass
    os.pwrite(f, b'child', 10)
    os.fsync(f)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert os.pread(f, 5, 10) == b'child'
with open(d + '/g', 'ab') as g:
    for i in range(100): g.write(b'line\n'); g.flush()
assert os.stat(d + '/g').st_size == 500
os.rename(d + '/g', d + '/h')
assert sorted(os.listdir(d)) == ['f', 'h']
m = mmap.mmap(f, 4096)
assert m[10:15] == b'child'
m[0:3] = b'map'; m.flush(); m.close()
assert os.pread(f, 3, 0) == b'map'
try:
    p = mmap.mmap(f, 4096, mmap.MAP_PRIVATE)
    assert p[0:3] == b'map'
    p[0:3] = b'own'; p.close()
except OSError as error:
    print('private mapping:', error.errno)
assert os.pread(f, 3, 0) == b'map'
os.ftruncate(f, 100)
os.unlink(d + '/f')
assert os.pread(f, 3, 0) == b'map'
os.close(f)
assert open(d + '/h').read() == 'line\n' * 100
assert os.system('cp %s/h %s/i && cmp %s/h %s/i' % (d, d, d, d)) == 0
import shutil; shutil.rmtree(d)
print('done')
