// With -DLIBRARY: a library that defines libc's functions by syscall(2), as allocators and
// profilers do. Without: a program linked with this library, which calls the functions in a
// directory and prints their results.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef LIBRARY
#define BY_NUMBER(type, name, parameters, ...) \
    type name parameters { return (type)syscall(__VA_ARGS__); }
#pragma GCC diagnostic ignored "-Wnonnull-compare"
BY_NUMBER(ssize_t, read, (int fd, void *to, size_t n), SYS_read, fd, to, n)
BY_NUMBER(ssize_t, write, (int fd, const void *from, size_t n), SYS_write, fd, from, n)
BY_NUMBER(ssize_t, pread, (int fd, void *to, size_t n, off_t at), SYS_pread64, fd, to, n, at)
BY_NUMBER(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), SYS_pwrite64, fd, from, n, at)
BY_NUMBER(int, close, (int fd), SYS_close, fd)
BY_NUMBER(int, fsync, (int fd), SYS_fsync, fd)
BY_NUMBER(off_t, lseek, (int fd, off_t at, int how), SYS_lseek, fd, at, how)
BY_NUMBER(int, ftruncate, (int fd, off_t n), SYS_ftruncate, fd, n)
BY_NUMBER(int, dup, (int fd), SYS_dup, fd)
BY_NUMBER(int, dup3, (int fd, int to, int flags), SYS_dup3, fd, to, flags)
BY_NUMBER(int, fcntl, (int fd, int command, ...), SYS_fcntl, fd, command, 0)
BY_NUMBER(void *, mmap, (void *at, size_t n, int p, int f, int fd, off_t from), SYS_mmap, at, n, p, f, fd, from)
BY_NUMBER(int, munmap, (void *at, size_t n), SYS_munmap, at, n)
BY_NUMBER(int, mprotect, (void *at, size_t n, int p), SYS_mprotect, at, n, p)
BY_NUMBER(int, msync, (void *at, size_t n, int f), SYS_msync, at, n, f)
BY_NUMBER(void *, mremap, (void *at, size_t n, size_t to, int f, ...), SYS_mremap, at, n, to, f, 0)
BY_NUMBER(int, openat, (int d, const char *path, int f, ...), SYS_openat, d, path, f, 0600)
BY_NUMBER(int, open, (const char *path, int f, ...), SYS_openat, AT_FDCWD, path, f, 0600)
BY_NUMBER(int, unlinkat, (int d, const char *path, int f), SYS_unlinkat, d, path, f)
BY_NUMBER(int, unlink, (const char *path), SYS_unlinkat, AT_FDCWD, path, 0)
BY_NUMBER(int, rmdir, (const char *path), SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
BY_NUMBER(int, mkdirat, (int d, const char *path, mode_t m), SYS_mkdirat, d, path, m)
BY_NUMBER(int, mkdir, (const char *path, mode_t m), SYS_mkdirat, AT_FDCWD, path, m)
BY_NUMBER(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), SYS_renameat2, d, a, e, b, f)
BY_NUMBER(int, rename, (const char *a, const char *b), SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 0)
BY_NUMBER(int, symlinkat, (const char *a, int d, const char *b), SYS_symlinkat, a, d, b)
BY_NUMBER(ssize_t, readlinkat, (int d, const char *a, char *to, size_t n), SYS_readlinkat, d, a, to, n)
BY_NUMBER(int, faccessat, (int d, const char *a, int m, int f), SYS_faccessat, d, a, m)
BY_NUMBER(int, fchmodat, (int d, const char *a, mode_t m, int f), SYS_fchmodat, d, a, m)
BY_NUMBER(int, truncate, (const char *a, off_t n), SYS_truncate, a, n)
BY_NUMBER(int, chdir, (const char *a), SYS_chdir, a)
BY_NUMBER(int, fchdir, (int fd), SYS_fchdir, fd)
BY_NUMBER(mode_t, umask, (mode_t m), SYS_umask, m)
BY_NUMBER(int, bind, (int fd, const struct sockaddr *to, socklen_t n), SYS_bind, fd, to, n)
BY_NUMBER(int, connect, (int fd, const struct sockaddr *to, socklen_t n), SYS_connect, fd, to, n)
BY_NUMBER(ssize_t, recvfrom, (int fd, void *to, size_t n, int f, struct sockaddr *a, socklen_t *l), SYS_recvfrom, fd, to, n, f, a, l)
BY_NUMBER(int, accept, (int fd, struct sockaddr *a, socklen_t *l), SYS_accept, fd, a, l)
#else
#define SAY(call) (errno = 0, printf("%s: %ld %s\n", #call, (long)(call), strerror(errno)))
#define IS(call) (errno = 0, printf("%s: %d %s\n", #call, (call) != 0, strerror(errno)))

static void of_files(const char *from) {
    char byte[4] = "", link[8] = "";
    int fd = open("f", O_RDWR | O_CREAT), other = dup(fd);
    SAY(fd >= 0 && other >= 0);
    SAY(write(fd, "abcd", 4));
    SAY(pwrite(fd, "X", 1, 2));
    SAY(fsync(fd));
    SAY(lseek(other, 1, SEEK_SET));
    SAY(read(fd, byte, 2));
    SAY(pread(fd, byte + 2, 1, 3));
    printf("%.3s\n", byte);
    SAY(ftruncate(fd, 9000));
    SAY(fcntl(fd, F_GETFD));
    SAY(dup3(fd, other, O_CLOEXEC));
    char *own = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    IS(own != MAP_FAILED && shared != MAP_FAILED && own[2] == 'X' && shared[0] == 'a');
    shared[0] = 'S';
    SAY(msync(shared, 4096, MS_SYNC));
    SAY(pread(fd, byte, 1, 0));
    printf("%.1s\n", byte);
    SAY(mprotect(own, 4096, PROT_READ));
    own = mremap(own, 4096, 8192, MREMAP_MAYMOVE);
    IS(own != MAP_FAILED && own[2] == 'X' && own[5000] == 0);
    SAY(munmap(own, 8192));
    SAY(munmap(shared, 4096));
    SAY(close(fd));
    SAY(close(other));
    SAY(close(other));
    SAY(mkdir("d", 0700));
    SAY(mkdir("d", 0700));
    SAY(rename("f", "d/f"));
    SAY(renameat2(AT_FDCWD, "d/f", AT_FDCWD, "g", 0));
    SAY(truncate("g", 3));
    SAY(faccessat(AT_FDCWD, "g", W_OK, 0));
    SAY(fchmodat(AT_FDCWD, "g", 0400, 0));
    SAY(symlinkat("g", AT_FDCWD, "l"));
    SAY(readlinkat(AT_FDCWD, "l", link, sizeof link));
    SAY(unlinkat(AT_FDCWD, "l", 0));
    SAY(unlink("g"));
    SAY(unlink("g"));
    int here = open(".", O_RDONLY | O_DIRECTORY);
    SAY(chdir("d"));
    SAY(fchdir(here));
    SAY(rmdir("d"));
    SAY(close(here));
    SAY(chdir(from));
    umask(022);
    SAY(umask(022));
}

static void of_sockets(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "s"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    SAY(bind(server, (struct sockaddr *)&at, sizeof at));
    SAY(listen(server, 1));
    SAY(connect(client, (struct sockaddr *)&at, sizeof at));
    int peer = accept(server, 0, 0);
    char byte = 0;
    SAY(write(client, "s", 1));
    SAY(recvfrom(peer, &byte, 1, 0, 0, 0));
    printf("%c\n", byte);
    SAY(unlink("s"));
}

int main(int count, char **arguments) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (count < 2 || chdir(arguments[1])) return 2;
    of_files(arguments[1]);
    of_sockets();
    void *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    IS(memory != MAP_FAILED);
    SAY(munmap(memory, 1 << 20));
    return 0;
}
#endif
