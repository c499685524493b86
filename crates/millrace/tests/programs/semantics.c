/* Checks what a file system promises to a program. Runs in the folder given, with the same result
 * on local disk and on a mount. Prints one line per wrong fact and returns their number. */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int broken;
static const char *folder;

#define FACT(condition) do { if (!(condition)) { broken++; \
	fprintf(stderr, "line %d: not true: %s (errno %d: %s)\n", __LINE__, #condition, errno, strerror(errno)); } } while (0)

static void put(const char *name, const char *text)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	FACT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static int holds(const char *name, const char *text)
{
	char buffer[65536];
	int fd = open(name, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
	if (fd >= 0)
		close(fd);
	if (got == (ssize_t)strlen(text) && memcmp(buffer, text, got) == 0)
		return 1;
	fprintf(stderr, "%s holds %zd bytes: %.*s\n", name, got, got > 0 ? (int)got : 0, buffer);
	return 0;
}

static int child(void (*work)(void))
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		broken = 0;
		work();
		_exit(broken);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void offsets(void)
{
	char buffer[16];
	put("f", "0123456789");
	int fd = open("f", O_RDWR), twin = dup(fd), own = open("f", O_RDWR);
	FACT(read(fd, buffer, 3) == 3 && lseek(twin, 0, SEEK_CUR) == 3 && lseek(own, 0, SEEK_CUR) == 0);
	FACT(read(twin, buffer, 2) == 2 && buffer[0] == '3' && lseek(fd, 0, SEEK_CUR) == 5);
	FACT(lseek(fd, -1, SEEK_END) == 9 && read(twin, buffer, 5) == 1 && read(fd, buffer, 5) == 0);
	FACT(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
	FACT(lseek(fd, 20, SEEK_SET) == 20 && read(fd, buffer, 1) == 0 && write(fd, "x", 1) == 1);
	FACT(lseek(own, 0, SEEK_END) == 21 && pread(own, buffer, 4, 9) == 4 && memcmp(buffer, "9\0\0\0", 4) == 0);
	FACT(pwrite(own, "AB", 2, 1) == 2 && lseek(own, 0, SEEK_CUR) == 21 && pread(fd, buffer, 4, 0) == 4 && memcmp(buffer, "0AB3", 4) == 0);
	FACT(fcntl(fd, F_DUPFD_CLOEXEC, 100) == 100 && (fcntl(100, F_GETFD) & FD_CLOEXEC) && lseek(100, 0, SEEK_CUR) == 21);
	FACT(dup2(own, 100) == 100 && lseek(100, 1, SEEK_SET) == 1 && lseek(own, 0, SEEK_CUR) == 1 && close(100) == 0);
	FACT(read(100, buffer, 1) == -1 && errno == EBADF);
	FACT(ftruncate(fd, 5) == 0 && lseek(own, 0, SEEK_END) == 5 && truncate("f", 3) == 0 && lseek(own, 0, SEEK_END) == 3);
	int reader = open("f", O_RDONLY), writer = open("f", O_WRONLY);
	FACT(write(reader, "x", 1) == -1 && errno == EBADF && read(writer, buffer, 1) == -1 && errno == EBADF);
	FACT(ftruncate(reader, 0) == -1 && errno == EINVAL);
	FACT((fcntl(reader, F_GETFL) & O_ACCMODE) == O_RDONLY && (fcntl(writer, F_GETFL) & O_ACCMODE) == O_WRONLY);
	close(fd), close(twin), close(own), close(reader), close(writer);
}

static int shared;
static void child_writes(void) { FACT(write(shared, "child ", 6) == 6); }
static void forks_share(void)
{
	shared = open("g", O_CREAT | O_RDWR | O_TRUNC, 0600);
	FACT(write(shared, "parent ", 7) == 7);
	FACT(child(child_writes) == 0);
	FACT(lseek(shared, 0, SEEK_CUR) == 13 && write(shared, "again", 5) == 5);
	FACT(holds("g", "parent child again"));
	close(shared);
}

static void appends(void)
{
	unlink("a");
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			int fd = open("a", O_CREAT | O_WRONLY | O_APPEND, 0600);
			char line[32];
			for (int n = 0; n < 50; n++) {
				int length = sprintf(line, "%d %04d\n", i, n);
				if (write(fd, line, length) != length)
					_exit(1);
			}
			_exit(0);
		}
	for (int i = 0, status; i < 4; i++)
		FACT(wait(&status) > 0 && status == 0);
	struct stat st;
	FACT(stat("a", &st) == 0 && st.st_size == 4 * 50 * 7);
	int lines[4] = {0}, i, n;
	FILE *file = fopen("a", "r");
	while (file && fscanf(file, "%d %d\n", &i, &n) == 2)
		FACT(i >= 0 && i < 4 && lines[i]++ == n);
	FACT(lines[0] == 50 && lines[1] == 50 && lines[2] == 50 && lines[3] == 50);
	if (file)
		fclose(file);
	int fd = open("a", O_RDWR | O_APPEND);
	FACT(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "end", 0) == 0 && lseek(fd, 0, SEEK_CUR) == 0);
	FACT(write(fd, "end", 3) == 3 && lseek(fd, 0, SEEK_CUR) == st.st_size + 3);
	FACT(fcntl(fd, F_SETFL, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 && write(fd, "START", 5) == 5);
	FACT(stat("a", &st) == 0 && st.st_size == 4 * 50 * 7 + 3);
	close(fd);
}

static int names_here(const char *path, const char *wanted)
{
	int found = 0;
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		found += strncmp(entry->d_name, wanted, strlen(wanted)) == 0;
	if (dir)
		closedir(dir);
	return found;
}

static void open_while_gone(void)
{
	char buffer[16];
	struct stat st;
	put("u", "unlinked");
	int fd = open("u", O_RDWR);
	FACT(unlink("u") == 0 && access("u", F_OK) == -1 && errno == ENOENT);
	FACT(read(fd, buffer, 16) == 8 && write(fd, "!", 1) == 1 && pread(fd, buffer, 16, 0) == 9);
	FACT(fstat(fd, &st) == 0 && st.st_size == 9 && st.st_nlink == 0);
	FACT(names_here(".", ".nfs") == 0);
	put("u", "new");
	FACT(pread(fd, buffer, 16, 0) == 9 && memcmp(buffer, "unlinked!", 9) == 0 && holds("u", "new"));
	FACT(close(fd) == 0);
	put("r1", "one"), put("r2", "two");
	int one = open("r1", O_RDONLY), two = open("r2", O_RDWR);
	FACT(rename("r1", "r2") == 0 && holds("r2", "one") && access("r1", F_OK) == -1);
	FACT(read(two, buffer, 16) == 3 && memcmp(buffer, "two", 3) == 0 && write(two, "x", 1) == 1);
	FACT(read(one, buffer, 16) == 3 && memcmp(buffer, "one", 3) == 0);
	FACT(fstat(one, &st) == 0 && st.st_nlink == 1);
	close(one), close(two);
}

static void folders(void)
{
	char buffer[PATH_MAX], wanted[PATH_MAX];
	struct stat one, other;
	FACT(mkdir("d", 0755) == 0 && mkdir("d", 0755) == -1 && errno == EEXIST && mkdir("d/e", 0700) == 0);
	FACT(chdir("d/e") == 0 && getcwd(buffer, sizeof buffer) != NULL);
	snprintf(wanted, sizeof wanted, "%s/d/e", folder);
	FACT(strcmp(buffer, wanted) == 0);
	put("here", "in e");
	FACT(holds("../e/here", "in e") && stat(".", &one) == 0 && chdir("../..") == 0 && stat("d/e", &other) == 0);
	FACT(one.st_ino == other.st_ino && one.st_dev == other.st_dev && S_ISDIR(one.st_mode) && (one.st_mode & 0777) == 0700);
	int dir = open("d", O_RDONLY | O_DIRECTORY), file = openat(dir, "e/at", O_CREAT | O_RDWR, 0600);
	FACT(dir >= 0 && file >= 0 && write(file, "at", 2) == 2 && holds("d/e/at", "at") && fsync(dir) == 0);
	FACT(fstatat(dir, "e/at", &one, 0) == 0 && one.st_size == 2 && fstat(file, &other) == 0 && one.st_ino == other.st_ino);
	FACT(fstat(dir, &one) == 0 && S_ISDIR(one.st_mode) && read(dir, buffer, 1) == -1 && errno == EISDIR);
	FACT(open("d", O_WRONLY) == -1 && errno == EISDIR && open("d/e/at/x", O_RDONLY) == -1 && errno == ENOTDIR);
	FACT(open("f", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
	FACT(fchdir(dir) == 0 && access("e/at", R_OK | W_OK) == 0 && access("e/at", X_OK) == (geteuid() == 0 ? -1 : -1));
	FACT(rename("../d", "../d2") == 0 && getcwd(buffer, sizeof buffer) != NULL);
	snprintf(wanted, sizeof wanted, "%s/d2", folder);
	FACT(strcmp(buffer, wanted) == 0 && faccessat(dir, "e/here", F_OK, 0) == 0);
	FACT(chdir("..") == 0 && rmdir("d2") == -1 && errno == ENOTEMPTY && unlinkat(dir, "e/here", 0) == 0);
	FACT(unlinkat(dir, "e/at", 0) == 0 && unlinkat(dir, "e", AT_REMOVEDIR) == 0 && rmdir("d2") == 0 && rmdir("d2") == -1);
	close(dir), close(file);
	FACT(realpath("./f", buffer) != NULL);
	snprintf(wanted, sizeof wanted, "%s/f", folder);
	FACT(strcmp(buffer, wanted) == 0);
	char *mine = getcwd(NULL, 0);
	FACT(mine && strcmp(mine, folder) == 0);
	free(mine);
	FACT(getcwd(buffer, 2) == NULL && errno == ERANGE);
}

static int only_many(const struct dirent *entry) { return strncmp(entry->d_name, "many", 4) == 0; }
static void listings(void)
{
	char name[64];
	FACT(mkdir("l", 0755) == 0);
	for (int i = 0; i < 300; i++) {
		sprintf(name, "l/many%03d", i);
		put(name, "");
	}
	DIR *dir = opendir("l");
	struct dirent *entry;
	int count = 0, typed = 0, dots = 0;
	long place = -1;
	char at_place[256] = "";
	while ((entry = readdir(dir))) {
		dots += strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
		typed += entry->d_type == DT_REG;
		if (++count == 100) {
			place = telldir(dir);
			entry = readdir(dir), count++;
			typed += entry->d_type == DT_REG;
			strcpy(at_place, entry->d_name);
		}
	}
	FACT(count == 302 && dots == 2 && typed == 300);
	seekdir(dir, place);
	FACT((entry = readdir(dir)) && strcmp(entry->d_name, at_place) == 0);
	rewinddir(dir);
	for (count = 0; readdir(dir); count++);
	FACT(count == 302 && dirfd(dir) >= 0 && faccessat(dirfd(dir), "many007", F_OK, 0) == 0 && closedir(dir) == 0);
	struct dirent **list;
	FACT(scandir("l", &list, only_many, alphasort) == 300 && strcmp(list[299]->d_name, "many299") == 0);
	for (int i = 0; i < 300; i++)
		free(list[i]);
	free(list);
	glob_t found;
	FACT(glob("l/many00*", 0, NULL, &found) == 0 && found.gl_pathc == 10 && strcmp(found.gl_pathv[9], "l/many009") == 0);
	globfree(&found);
	for (int i = 0; i < 300; i++) {
		sprintf(name, "l/many%03d", i);
		FACT(unlink(name) == 0);
	}
	FACT(rmdir("l") == 0 && opendir("l") == NULL && errno == ENOENT);
}

static void links(void)
{
	char buffer[64], target[PATH_MAX];
	struct stat st;
	put("x", "linked");
	FACT(link("x", "y") == 0 && stat("y", &st) == 0 && st.st_nlink == 2 && link("x", "y") == -1 && errno == EEXIST);
	FACT(symlink("x", "s") == 0 && readlink("s", buffer, 64) == 1 && buffer[0] == 'x' && holds("s", "linked"));
	FACT(lstat("s", &st) == 0 && S_ISLNK(st.st_mode) && open("s", O_RDONLY | O_NOFOLLOW) == -1 && errno == ELOOP);
	snprintf(target, sizeof target, "%s/x", folder);
	FACT(symlink(target, "abs") == 0 && holds("abs", "linked"));
	FACT(symlink("loop", "loop") == 0 && open("loop", O_RDONLY) == -1 && errno == ELOOP);
	FACT(symlink("/etc/hostname", "out") == 0 && stat("out", &st) == stat("/etc/hostname", &st));
	/* A link on the host to the folder. */
	char local[] = "/tmp/millrace-link-XXXXXX";
	FACT(mkdtemp(local) != NULL);
	char link_to[PATH_MAX], through[PATH_MAX + 8];
	snprintf(link_to, sizeof link_to, "%s/link", local);
	FACT(symlink(folder, link_to) == 0);
	snprintf(through, sizeof through, "%s/x", link_to);
	FACT(holds(through, "linked"));
	snprintf(through, sizeof through, "%s/made", link_to);
	put(through, "through a link");
	FACT(holds("made", "through a link") && unlink(through) == 0 && access("made", F_OK) == -1);
	FACT(unlink(link_to) == 0 && rmdir(local) == 0);
	FACT(strncmp(folder, "/tmp", 4) == 0 || (rename("x", "/tmp/millrace-never") == -1 && errno == EXDEV));
	unlink("x"), unlink("y"), unlink("s"), unlink("abs"), unlink("loop"), unlink("out");
}

static void attributes(void)
{
	struct stat st;
	struct statx stx;
	struct statvfs space;
	umask(027);
	int fd = open("m", O_CREAT | O_EXCL | O_RDWR, 0666);
	FACT(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0640 && st.st_uid == geteuid() && S_ISREG(st.st_mode) && st.st_size == 0);
	umask(022);
	FACT(open("m", O_CREAT | O_EXCL | O_RDWR, 0666) == -1 && errno == EEXIST);
	FACT(fchmod(fd, 0600) == 0 && chmod("m", 0604) == 0 && stat("m", &st) == 0 && (st.st_mode & 0777) == 0604);
	struct timespec times[2] = {{1000000000, 5000}, {1234567890, 6000}};
	FACT(futimens(fd, times) == 0 && stat("m", &st) == 0 && st.st_mtim.tv_sec == 1234567890 && st.st_mtim.tv_nsec == 6000);
	FACT(st.st_atim.tv_sec == 1000000000);
	FACT(chown("m", -1, -1) == 0 && lchown("m", geteuid(), getegid()) == 0);
	FACT(statx(AT_FDCWD, "m", 0, STATX_BASIC_STATS, &stx) == 0 && stx.stx_ino == st.st_ino && stx.stx_mtime.tv_sec == 1234567890);
	FACT(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) == 0 && stx.stx_ino == st.st_ino);
	FACT(write(fd, "x", 1) == 1 && fstat(fd, &st) == 0 && st.st_size == 1 && st.st_mtim.tv_sec > 1600000000);
	FACT(statvfs(".", &space) == 0 && space.f_blocks > 0 && space.f_bavail > 0);
	FACT(isatty(fd) == 0 && errno == ENOTTY);
	FACT(close(fd) == 0 && unlink("m") == 0 && stat("m", &st) == -1 && errno == ENOENT);
}

static void vectors_and_copies(void)
{
	char one[8] = "one", two[8] = "two", buffer[64];
	struct iovec out[3] = {{one, 3}, {two, 0}, {two, 3}}, in[2] = {{buffer, 2}, {buffer + 2, 10}};
	int fd = open("v", O_CREAT | O_RDWR | O_TRUNC, 0600), to = open("w", O_CREAT | O_RDWR | O_TRUNC, 0600);
	FACT(writev(fd, out, 3) == 6 && lseek(fd, 0, SEEK_SET) == 0 && readv(fd, in, 2) == 6 && memcmp(buffer, "onetwo", 6) == 0);
	FACT(pwritev(fd, out, 3, 3) == 6 && preadv(fd, in, 2, 0) == 9 && memcmp(buffer, "oneonetwo", 9) == 0);
	FACT(pwritev2(fd, out, 3, 0, RWF_DSYNC) == 6 && preadv2(fd, in, 2, -1, 0) == 3 && out[0].iov_base == one && in[1].iov_len == 10);
	off_t from = 3;
	FACT(sendfile(to, fd, &from, 100) == 6 && from == 9);
	loff_t begin = 0;
	FACT(copy_file_range(fd, &begin, to, NULL, 3, 0) == 3 && begin == 3 && holds("w", "twotwoone"));
	FACT(fsync(fd) == 0 && fdatasync(to) == 0 && syncfs(fd) == 0 && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
	FACT(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) == 0);
	int error = posix_fallocate(fd, 0, 100);
	FACT(error == 0 || error == EOPNOTSUPP || error == EINVAL);
	FACT(lseek(fd, 0, SEEK_END) == (error ? 9 : 100) && ftruncate(fd, 9) == 0);
	int sync = open("v", O_RDWR | O_DSYNC);
	FACT(sync >= 0 && pwrite(sync, "D", 1, 0) == 1 && (fcntl(sync, F_GETFL) & O_DSYNC));
	char *big = malloc(3 << 20);
	for (int i = 0; i < 3 << 20; i++)
		big[i] = (char)(i * 7 + i / 4096);
	FACT(ftruncate(to, 0) == 0 && pwrite(to, big, 3 << 20, 1) == 3 << 20);
	char *copy = calloc(1, 3 << 20);
	FACT(pread(to, copy, 3 << 20, 1) == 3 << 20 && memcmp(big, copy, 3 << 20) == 0);
	char *map = mmap(NULL, 3 << 20, PROT_READ, MAP_PRIVATE, to, 0);
	FACT(map != MAP_FAILED && memcmp(map + 1, big, (3 << 20) - 1) == 0 && munmap(map, 3 << 20) == 0);
	free(big), free(copy);
	struct aiocb request = {.aio_fildes = to, .aio_buf = buffer, .aio_nbytes = 4, .aio_offset = 1};
	request.aio_sigevent.sigev_notify = SIGEV_NONE;
	FACT(aio_read(&request) == 0);
	const struct aiocb *list[1] = {&request};
	aio_suspend(list, 1, NULL);
	FACT(aio_error(&request) == 0 && aio_return(&request) == 4 && buffer[1] == 7);
	int waiting = 0;
	struct pollfd ready = {.fd = to, .events = POLLIN | POLLOUT};
	FACT(poll(&ready, 1, 1000) == 1 && (ready.revents & POLLIN));
	FACT(lseek(to, 1, SEEK_SET) == 1 && ioctl(to, FIONREAD, &waiting) == 0 && waiting == 3 << 20);
	close(fd), close(to), close(sync);
}

static void streams(void)
{
	char line[256];
	FILE *file = fopen("st", "w+");
	FACT(file && fileno(file) > 2 && fprintf(file, "line %d\n", 1) == 7 && fputs("line 2\n", file) >= 0 && fflush(file) == 0);
	struct stat st;
	FACT(fstat(fileno(file), &st) == 0 && st.st_size == 14 && ftello(file) == 14);
	rewind(file);
	FACT(fgets(line, sizeof line, file) && strcmp(line, "line 1\n") == 0 && fgetc(file) == 'l' && ungetc('L', file) == 'L');
	FACT(fgets(line, sizeof line, file) && strcmp(line, "Line 2\n") == 0 && fgetc(file) == EOF && feof(file));
	FACT(fseek(file, 5, SEEK_SET) == 0 && fputc('9', file) == '9' && fclose(file) == 0 && holds("st", "line 9\nline 2\n"));
	file = fopen("st", "a");
	FACT(file && fputs("more\n", file) >= 0 && fclose(file) == 0 && holds("st", "line 9\nline 2\nmore\n"));
	FACT(fopen("none", "r") == NULL && errno == ENOENT && fopen("st", "wx") == NULL && errno == EEXIST);
	int fd = open("st", O_RDWR | O_TRUNC);
	file = fdopen(fd, "r+");
	FACT(file && fileno(file) == fd && fputs("fdopen", file) >= 0);
	FACT(freopen("st2", "w", file) != NULL && fputs("freopen", file) >= 0 && fclose(file) == 0);
	FACT(holds("st", "fdopen") && holds("st2", "freopen") && close(fd) == -1);
	fd = open("st", O_WRONLY | O_TRUNC | O_APPEND);
	FACT(dprintf(fd, "%s-%d %.1f", "dprintf", 5, 2.5) == 13 && close(fd) == 0 && holds("st", "dprintf-5 2.5"));
	FILE *pipe = popen("cat > st4", "w");
	FACT(pipe && fputs("to a pipe", pipe) >= 0 && pclose(pipe) == 0 && holds("st4", "to a pipe"));
	pipe = popen("cat st2", "r");
	FACT(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "freopen") == 0 && pclose(pipe) == 0);
	FACT(system("echo system > st3") == 0 && holds("st3", "system\n"));
	char name[] = "temp-XXXXXX";
	fd = mkstemp(name);
	FACT(fd >= 0 && access(name, R_OK) == 0 && unlink(name) == 0 && close(fd) == 0);
}

static void standard_streams(void)
{
	int out = dup(1), error = dup(2), log = open("log", O_CREAT | O_WRONLY | O_APPEND | O_TRUNC, 0600);
	fflush(NULL);
	dup2(log, 1), dup2(log, 2);
	printf("printf %d\n", 1);
	fflush(stdout);
	errno = ENOENT;
	perror("perror");
	puts("puts");
	fflush(stdout);
	fputs("buffered ", stdout);
	FACT(write(1, "raw\n", 4) == 4);
	FACT(system("echo child; echo complains >&2") == 0);
	fflush(stdout);
	dup2(out, 1), dup2(error, 2);
	close(out), close(error), close(log);
	FACT(holds("log", "printf 1\nperror: No such file or directory\nputs\nraw\nchild\ncomplains\nbuffered "));
}

static int locked;
static void other_is_locked_out(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
	int fd = open("k", O_RDWR);
	FACT(fcntl(fd, F_SETLK, &lock) == -1 && (errno == EAGAIN || errno == EACCES));
	lock.l_start = 10;
	FACT(fcntl(fd, F_SETLK, &lock) == 0);
	FACT(flock(fd, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
	FACT(flock(locked, LOCK_EX | LOCK_NB) == 0);
}

static void locks(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
	put("k", "locked");
	locked = open("k", O_RDWR);
	int own = open("k", O_RDWR);
	FACT(fcntl(locked, F_SETLK, &lock) == 0 && flock(locked, LOCK_EX) == 0);
	FACT(flock(own, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
	FACT(child(other_is_locked_out) == 0);
	FACT(flock(locked, LOCK_UN) == 0 && flock(own, LOCK_SH | LOCK_NB) == 0);
	close(locked), close(own);
}

static void limits(void)
{
	struct rlimit old, few;
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 32;
	setrlimit(RLIMIT_NOFILE, &few);
	int fds[64], count = 0;
	while (count < 64 && (fds[count] = open("f", O_RDONLY)) >= 0)
		count++;
	FACT(count > 0 && count < 32 && errno == EMFILE);
	FACT(open("excl", O_CREAT | O_EXCL | O_RDWR, 0600) == -1 && errno == EMFILE);
	for (int spare = 0; spare < 4; spare++)
		close(fds[--count]);
	int fd = open("excl", O_CREAT | O_EXCL | O_RDWR, 0600); /* the first try must not have created it */
	FACT(fd >= 0 && close(fd) == 0 && unlink("excl") == 0);
	setrlimit(RLIMIT_NOFILE, &old);
	FACT(close_range(fds[0], fds[count - 1], 0) == 0 && fcntl(fds[0], F_GETFD) == -1);
	FACT(holds("w2", "still here"));
}

static int noisy, noise;
static void handler(int signal)
{
	int saved = errno;
	if (write(noisy, "tick\n", 5) == 5)
		noise++;
	(void)signal;
	errno = saved;
}

static void signals(void)
{
	char *big = malloc(1 << 20);
	memset(big, 'b', 1 << 20);
	noisy = open("noise", O_CREAT | O_WRONLY | O_APPEND | O_TRUNC, 0600);
	int fd = open("quiet", O_CREAT | O_RDWR | O_TRUNC, 0600);
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGALRM, &action, NULL);
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 60; i++) {
		FACT(pwrite(fd, big, 1 << 16, (off_t)i << 16) == 1 << 16);
		big[1] = 0;
		FACT(pread(fd, big, 1 << 16, (off_t)i << 16) == 1 << 16 && big[1] == 'b');
		struct stat st;
		FACT(stat("quiet", &st) == 0 && st.st_size == (off_t)(i + 1) << 16);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	struct stat st;
	FACT(noise > 0 && fstat(noisy, &st) == 0 && st.st_size == 5 * noise);
	free(big);
	close(fd), close(noisy);
}

static void descriptors_over_exec(const char *self)
{
	char number[16];
	int fd = open("exec", O_CREAT | O_RDWR | O_TRUNC, 0600), gone = open("exec-gone", O_CREAT | O_RDWR | O_TRUNC, 0600);
	int hidden = open("f", O_RDONLY | O_CLOEXEC);
	FACT(write(fd, "before ", 7) == 7 && write(gone, "gone", 4) == 4 && unlink("exec-gone") == 0 && chdir("..") == 0);
	pid_t pid = fork();
	if (pid == 0) {
		char second[16], third[16];
		sprintf(number, "%d", fd), sprintf(second, "%d", gone), sprintf(third, "%d", hidden);
		execl(self, self, folder, "inherited", number, second, third, (char *)NULL);
		_exit(99);
	}
	int status;
	waitpid(pid, &status, 0);
	FACT(status == 0 && chdir(folder) == 0);
	FACT(lseek(fd, 0, SEEK_CUR) == 12 && holds("exec", "before after") && lseek(gone, 0, SEEK_END) == 6);
	close(fd), close(gone), close(hidden);
}

static void inherited(char **numbers)
{
	char buffer[16], cwd[PATH_MAX], path[64];
	int fd = atoi(numbers[0]), gone = atoi(numbers[1]), hidden = atoi(numbers[2]);
	FACT(lseek(fd, 0, SEEK_CUR) == 7 && write(fd, "after", 5) == 5);
	FACT(pread(gone, buffer, 16, 0) == 4 && memcmp(buffer, "gone", 4) == 0 && write(gone, "!!", 2) == 2);
	FACT(fcntl(hidden, F_GETFD) == -1 && errno == EBADF);
	FACT(getcwd(cwd, sizeof cwd) != NULL && strncmp(folder, cwd, strlen(cwd)) == 0 && strlen(cwd) < strlen(folder));
	sprintf(path, "/dev/fd/%d", fd);
	int other = open(path, O_RDONLY);
	FACT(other >= 0 && read(other, buffer, 6) == 6 && memcmp(buffer, "before", 6) == 0);
}

static void descriptors_over_sockets(void)
{
	int pair[2], fd = open("passed", O_CREAT | O_RDWR | O_TRUNC, 0600);
	char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	FACT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	FACT(sendmsg(pair[0], &message, 0) == 1);
	pid_t pid = fork();
	if (pid == 0) {
		int got;
		if (recvmsg(pair[1], &message, 0) != 1)
			_exit(1);
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
		_exit(write(got, "over a socket", 13) == 13 ? 0 : 2);
	}
	int status;
	waitpid(pid, &status, 0);
	FACT(status == 0 && holds("passed", "over a socket"));
	close(fd), close(pair[0]), close(pair[1]);
}

int main(int count, char **arguments)
{
	static char real[PATH_MAX], self[PATH_MAX];
	folder = arguments[1];
	if (count > 2) {
		inherited(arguments + 3);
		return broken;
	}
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	FACT(length > 0 && realpath(folder, real) && chdir(real) == 0);
	folder = real;
	offsets();
	forks_share();
	appends();
	open_while_gone();
	folders();
	listings();
	links();
	attributes();
	vectors_and_copies();
	streams();
	standard_streams();
	locks();
	put("w2", "still here");
	limits();
	signals();
	descriptors_over_exec(self);
	descriptors_over_sockets();
	fprintf(stderr, "%d facts broken\n", broken);
	return broken != 0;
}
