/* System calls by their numbers, through syscall(2): their effects and results in a folder (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <linux/openat2.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* Prints a call and its result: a number or the error. */
#define N(...) do { errno = 0; long is = syscall(__VA_ARGS__); tell(" %s = %ld %s", #__VA_ARGS__, is, is < 0 ? strerrorname_np(errno) : ""); } while (0)
/* The same for a call that returns a descriptor, whose number is not fixed. */
#define D(fd, ...) do { errno = 0; fd = syscall(__VA_ARGS__); tell(" %s %s", #__VA_ARGS__, fd < 0 ? strerrorname_np(errno) : "opened"); } while (0)

static struct stat found;

static void tell_stat(const char *name)
{
	if (lstat(name, &found) != 0)
		tell("  %s: %s", name, strerrorname_np(errno));
	else
		tell("  %s: mode %o links %ld size %ld mtime %ld", name, found.st_mode, (long)found.st_nlink, (long)found.st_size,
		     found.st_mtime < 10000 ? (long)found.st_mtime : 0L); /* as the program set it */
}

static void names(void)
{
	char text[200];
	struct statx more;
	struct timespec times[2] = {{1000, 0}, {2000, 0}};
	umask(0);
	N(SYS_mkdirat, AT_FDCWD, "dir", 0755);
	N(SYS_mkdirat, AT_FDCWD, "dir", 0755);
	int top = open("dir", O_RDONLY | O_DIRECTORY), fd;
	put("dir/one", "first\n");
	D(fd, SYS_openat, top, "two", O_CREAT | O_EXCL | O_WRONLY, 0640);
	close(fd);
	D(fd, SYS_openat, top, "two", O_CREAT | O_EXCL | O_WRONLY, 0640);
	N(SYS_faccessat, top, "one", R_OK);
	N(SYS_faccessat, top, "none", R_OK);
	N(SYS_faccessat2, top, "one", R_OK | W_OK, AT_EACCESS);
	N(SYS_faccessat2, top, "none", F_OK, AT_SYMLINK_NOFOLLOW);
	N(SYS_fchmodat, top, "one", 0604);
	N(SYS_fchmodat2, top, "none", 0604, AT_SYMLINK_NOFOLLOW);
	N(SYS_fchownat, top, "one", getuid(), getgid(), 0);
	N(SYS_utimensat, top, "one", times, 0);
	tell_stat("dir/one");
	N(SYS_truncate, "dir/one", 3L);
	N(SYS_truncate, "dir/none", 3L);
	N(SYS_newfstatat, top, "one", &found, 0);
	T(found.st_size);
	N(SYS_statx, top, "one", 0, STATX_BASIC_STATS, &more);
	T(more.stx_size);
	N(SYS_symlinkat, "one", top, "link");
	N(SYS_readlinkat, top, "link", text, sizeof text);
	N(SYS_readlinkat, top, "one", text, sizeof text);
	N(SYS_linkat, top, "one", top, "same", 0);
	tell_stat("dir/same");
	N(SYS_renameat, top, "same", top, "other");
	N(SYS_renameat2, top, "other", top, "one", RENAME_NOREPLACE);
	N(SYS_mknodat, top, "fifo", S_IFIFO | 0600, 0);
	tell_stat("dir/fifo");
	N(SYS_unlinkat, top, "other", 0);
	N(SYS_unlinkat, top, "other", 0);
	N(SYS_unlinkat, top, "one", AT_REMOVEDIR);
	N(SYS_chdir, "dir/one");
	N(SYS_chdir, "dir");
	T(syscall(SYS_getcwd, text, sizeof text) == (long)strlen(text) + 1 && strcmp(strrchr(text, '/'), "/dir") == 0);
	N(SYS_getcwd, text, 2);
	N(SYS_fchdir, top);
	tell_stat("two");
	N(SYS_chdir, "..");
	N(SYS_umask, 022);
	N(SYS_umask, 0);
	struct statfs room;
	N(SYS_statfs, "dir", &room);
	N(SYS_statfs, "none", &room);
	N(SYS_getxattr, "none", "user.name", text, sizeof text);
	E(statvfs("none", &(struct statvfs){0}));
	E(pathconf("none", _PC_NAME_MAX) < 0);
	E(pathconf("none", _PC_PATH_MAX) < 0);
}

static void old_names(void)
{
#ifdef SYS_open
	char text[200];
	struct utimbuf both = {3000, 4000};
	struct timeval times[2] = {{5000, 0}, {6000, 0}};
	int fd, other;
	umask(0);
	N(SYS_mkdir, "dir", 0750);
	D(fd, SYS_creat, "dir/one", 0644);
	N(SYS_write, fd, "hello", 5);
	D(other, SYS_open, "dir/one", O_RDONLY);
	T(syscall(SYS_dup2, other, 150));
	N(SYS_read, 150, text, sizeof text);
	N(SYS_close, fd);
	N(SYS_close, other);
	N(SYS_close, 150);
	N(SYS_stat, "dir/one", &found);
	T(found.st_size);
	N(SYS_symlink, "one", "dir/link");
	N(SYS_lstat, "dir/link", &found);
	T(S_ISLNK(found.st_mode));
	N(SYS_readlink, "dir/link", text, sizeof text);
	N(SYS_readlink, "dir/none", text, sizeof text);
	N(SYS_access, "dir/one", R_OK);
	N(SYS_access, "dir/none", R_OK);
	N(SYS_chmod, "dir/one", 0600);
	N(SYS_chown, "dir/one", getuid(), getgid());
	N(SYS_lchown, "dir/link", getuid(), getgid());
	N(SYS_utime, "dir/one", &both);
	tell_stat("dir/one");
	N(SYS_utimes, "dir/one", times);
	tell_stat("dir/one");
	N(SYS_futimesat, AT_FDCWD, "dir/one", times);
	N(SYS_link, "dir/one", "dir/same");
	N(SYS_rename, "dir/same", "dir/other");
	tell_stat("dir/other");
	N(SYS_mknod, "dir/fifo", S_IFIFO | 0600, 0);
	N(SYS_unlink, "dir/other");
	N(SYS_rmdir, "dir");
	N(SYS_unlink, "dir/one");
	tell_stat("dir/one");
#endif
}

static void data(void)
{
	char first[8] = "", second[8] = "";
	struct iovec out[2] = {{"abcd", 4}, {"efgh", 4}}, in[2] = {{first, 4}, {second, 4}};
	off_t at = 2;
	int fd, copy;
	D(fd, SYS_openat, AT_FDCWD, "data", O_CREAT | O_RDWR, 0644);
	D(copy, SYS_openat, AT_FDCWD, "copy", O_CREAT | O_RDWR, 0644);
	N(SYS_writev, fd, out, 2);
	N(SYS_pwritev, fd, out, 2, 8L, 0L);
	N(SYS_pwritev2, fd, out, 2, 16L, 0L, 0);
	N(SYS_pwritev2, fd, out, 1, -1L, -1L, 0);
	T(lseek(fd, 0, SEEK_CUR));
	N(SYS_lseek, fd, 1L, SEEK_SET);
	N(SYS_readv, fd, in, 2);
	tell("  %s %s", first, second);
	N(SYS_preadv, fd, in, 2, 2L, 0L);
	tell("  %s %s", first, second);
	N(SYS_preadv2, fd, in, 2, 3L, 0L, 0);
	tell("  %s %s", first, second);
	N(SYS_sendfile, copy, fd, &at, 5);
	T(at);
	N(SYS_copy_file_range, fd, NULL, copy, NULL, 4, 0);
	N(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_SEQUENTIAL);
	N(SYS_fadvise64, fd, 0L, 0L, 77);
	N(SYS_readahead, fd, 0L, 100);
	N(SYS_sync_file_range, fd, 0L, 0L, SYNC_FILE_RANGE_WRITE);
	N(SYS_ftruncate, fd, 10L);
	N(SYS_fchmod, fd, 0600);
	N(SYS_fchown, fd, getuid(), getgid());
	N(SYS_fstat, fd, &found);
	T(found.st_size);
	struct statfs room;
	N(SYS_fstatfs, fd, &room);
	N(SYS_fsync, fd);
	N(SYS_syncfs, fd);
	long mapped = syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
	T(mapped != -1 && memcmp((char *)mapped, "abcdefgh", 8) == 0);
	memcpy((char *)mapped, "stored", 6);
	N(SYS_msync, mapped, 4096, MS_SYNC);
	N(SYS_mprotect, mapped, 4096, PROT_READ);
	N(SYS_munmap, mapped, 4096);
	N(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 777, 0L);
	int twice;
	D(twice, SYS_dup, fd);
	T(syscall(SYS_dup3, fd, 160, O_CLOEXEC));
	N(SYS_pread64, 160, first, 4, 0L);
	tell("  %s", first);
	N(SYS_close, twice);
	N(SYS_close, 160);
	tell_file("data");
	tell_file("copy");
}

static void sockets(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"}, told;
	socklen_t room = sizeof told, size = sizeof address;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0), served;
	char text[16] = "";
	N(SYS_connect, client, &address, size);
	N(SYS_bind, listener, &address, size);
	N(SYS_bind, socket(AF_UNIX, SOCK_STREAM, 0), &address, size);
	listen(listener, 1);
	N(SYS_connect, client, &address, size);
	D(served, SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
	N(SYS_sendto, client, "hello", 5, 0, NULL, 0);
	N(SYS_recvfrom, served, text, sizeof text, 0, NULL, NULL);
	N(SYS_getpeername, client, &told, &room);
	tell("  %s %s", text, told.sun_path);
	room = sizeof told;
	N(SYS_getsockname, listener, &told, &room);
	tell("  %s", told.sun_path);
}

/* openat2(2) with flags and a mode. */
static void how(void)
{
	struct open_how how = {.flags = O_CREAT | O_RDWR, .mode = 0640};
	int fd;
	umask(0);
	D(fd, SYS_openat2, AT_FDCWD, "made", &how, sizeof how);
	N(SYS_write, fd, "made", 4);
	tell_stat("made");
	how.flags = O_RDONLY;
	D(fd, SYS_openat2, AT_FDCWD, "made", &how, sizeof how);
	how.mode = 0;
	D(fd, SYS_openat2, AT_FDCWD, "made", &how, sizeof how);
	D(fd, SYS_openat2, AT_FDCWD, "none", &how, sizeof how);
	D(fd, SYS_openat2, AT_FDCWD, "made", &how, 7);
	how.flags = 1ULL << 40;
	D(fd, SYS_openat2, AT_FDCWD, "made", &how, sizeof how);
}

/* Calls that a mount refuses, among them a lookup within bounds (`resolve` of openat2(2)). */
static void refused(void)
{
	struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
	char value[16];
	put("file", "");
	N(SYS_openat2, AT_FDCWD, "file", &how, sizeof how);
	N(SYS_inotify_add_watch, inotify_init1(0), ".", IN_CREATE);
	E(inotify_add_watch(inotify_init1(0), "file", IN_MODIFY) < 0);
	E(inotify_add_watch(inotify_init1(0), "none", IN_MODIFY) < 0);
	E(inotify_add_watch(inotify_init1(0), "/", IN_CREATE) < 0);
	N(SYS_getxattr, "file", "user.name", value, sizeof value);
	N(SYS_lsetxattr, "file", "user.name", "value", 5, 0);
	N(SYS_fgetxattr, open("file", O_RDONLY), "user.name", value, sizeof value);
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"names", names}, {"old-names", old_names}, {"data", data}, {"sockets", sockets}, {"how", how}, {"refused", refused}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
