/* Checks access modes, status flags and locks of descriptors over dup, fork, exec and close. Runs
 * in the folder given, with the same result on local disk and on a mount. Prints one line per wrong
 * fact and returns their number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int broken;
static char self[4096];

#define FACT(condition) do { if (!(condition)) { broken++; \
	fprintf(stderr, "line %d: not true: %s (errno %d: %s)\n", __LINE__, #condition, errno, strerror(errno)); } } while (0)
#define FLAGS (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC)
#define FAILS(call, error) (errno = 0, (call) == -1 && errno == (error))

static void put(const char *name, const char *text)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	FACT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* Returns a child's answer to a question. */
static int ask(int (*question)(void))
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(question());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t run(const char *what, int fd, int argument)
{
	char number[16], second[16];
	sprintf(number, "%d", fd), sprintf(second, "%d", argument);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		execl(self, self, what, number, second, (char *)NULL);
		_exit(99);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int flags_are(int fd, int flags)
{
	char byte;
	int mode = flags & O_ACCMODE;
	int right = (fcntl(fd, F_GETFL) & FLAGS) == flags;
	right &= mode == O_WRONLY ? FAILS(pread(fd, &byte, 1, 0), EBADF) : pread(fd, &byte, 1, 0) == 1 && byte == '0';
	right &= mode == O_RDONLY ? FAILS(write(fd, "0", 1), EBADF) : write(fd, "0", 1) == 1;
	right &= mode == O_RDONLY ? FAILS(ftruncate(fd, 20), EINVAL) : ftruncate(fd, 20) == 0;
	return right;
}

static int asked, asked_flags;
static int child_flags(void) { return !flags_are(asked, asked_flags); }
static int child_sets_append(void) { return fcntl(asked, F_SETFL, O_APPEND); }

static void modes(void)
{
	static const int more[] = {0, O_APPEND, O_NONBLOCK, O_DSYNC, O_SYNC | O_APPEND};
	put("modes", "0123456789");
	for (int mode = O_RDONLY; mode <= O_RDWR; mode++)
		for (unsigned n = 0; n < sizeof more / sizeof *more; n++) {
			asked_flags = mode | more[n];
			asked = open("modes", asked_flags | O_NOFOLLOW | O_NOATIME);
			int twin = dup(asked);
			FACT(flags_are(asked, asked_flags) && flags_are(twin, asked_flags) && ask(child_flags) == 0);
			FACT(end_of(run("flags", asked, asked_flags)) == 0);
			close(twin);
			int changed = mode | (more[n] & (O_SYNC | O_DSYNC)) | O_APPEND;
			FACT(ask(child_sets_append) == 0 && (fcntl(asked, F_GETFL) & FLAGS) == changed);
			FACT(fcntl(asked, F_SETFL, O_NONBLOCK | O_RDWR | O_SYNC) == 0);
			FACT((fcntl(asked, F_GETFL) & FLAGS) == ((changed & ~O_APPEND) | O_NONBLOCK));
			close(asked);
		}
}

static void names_of_descriptors(void)
{
	char path[64], buffer[16];
	struct stat found;
	put("names", "0123456789");
	int fd = open("names", O_RDONLY);
	sprintf(path, "/proc/self/fd/%d", fd);
	FACT(stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 10);
	FACT(fstatat(AT_FDCWD, path, &found, 0) == 0 && S_ISREG(found.st_mode) && access(path, R_OK | W_OK) == 0);
	FACT(lstat(path, &found) == 0 && S_ISLNK(found.st_mode));
	int writer = open(path, O_WRONLY), appender = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600), reader = open(path, O_RDONLY);
	FACT(pwrite(writer, "A", 1, 0) == 1 && write(appender, "B", 1) == 1 && FAILS(read(writer, buffer, 1), EBADF));
	FACT(read(reader, buffer, 16) == 11 && memcmp(buffer, "A123456789B", 11) == 0 && FAILS(write(reader, "x", 1), EBADF));
	FACT(FAILS(open(path, O_RDONLY | O_DIRECTORY), ENOTDIR) && FAILS(open(path, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST));
	int both = open(path, O_RDWR | O_TRUNC);
	FACT(both >= 0 && fstat(fd, &found) == 0 && found.st_size == 0 && write(both, "new", 3) == 3 && pread(fd, buffer, 16, 0) == 3);
	FACT(FAILS(fchdir(fd), ENOTDIR) && FAILS(openat(fd, "x", O_CREAT | O_RDWR, 0600), ENOTDIR));
	close(fd), close(writer), close(appender), close(reader), close(both);
}

static int locked;
static struct flock a_lock(int type, long start, long length)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}
static int set(int fd, int command, int type, long start, long length)
{
	struct flock lock = a_lock(type, start, length);
	return fcntl(fd, command, &lock);
}
#define REFUSED(call) (errno = 0, (call) == -1 && (errno == EAGAIN || errno == EACCES))

/* 0: this process may have the lock; 1: it may not; 2: another error. */
static long tried_start, tried_length;
static int tried_type, tried_command;
static int try(void)
{
	int fd = open("locked", O_RDWR);
	if (set(fd, tried_command, tried_type, tried_start, tried_length) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? 1 : 2;
}
static int other(int command, int type, long start, long length)
{
	tried_command = command, tried_type = type, tried_start = start, tried_length = length;
	return ask(try);
}

static int child_has_none(void)
{
	struct flock lock = a_lock(F_WRLCK, 0, 10);
	int seen = fcntl(locked, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == getppid() && lock.l_start == 0;
	int refused = REFUSED(set(locked, F_SETLK, F_WRLCK, 0, 10));
	return !(seen && refused && close(locked) == 0);
}

static void locks_of_processes(void)
{
	put("locked", "0123456789"), put("other", "other");
	locked = open("locked", O_RDWR);
	int reader = open("locked", O_RDONLY), writer = open("locked", O_WRONLY), twin = dup(locked);
	FACT(FAILS(set(reader, F_SETLK, F_WRLCK, 0, 1), EBADF) && FAILS(set(writer, F_SETLK, F_RDLCK, 0, 1), EBADF));
	FACT(set(reader, F_SETLK, F_RDLCK, 50, 1) == 0 && set(writer, F_SETLK, F_WRLCK, 60, 1) == 0);
	FACT(other(F_SETLK, F_RDLCK, 50, 1) == 0 && other(F_SETLK, F_WRLCK, 50, 1) == 1 && other(F_SETLK, F_RDLCK, 60, 1) == 1);
	FACT(set(locked, F_SETLK, F_WRLCK, 0, 10) == 0 && set(twin, F_SETLK, F_WRLCK, 5, 10) == 0);
	FACT(other(F_SETLK, F_WRLCK, 14, 1) == 1 && other(F_SETLK, F_WRLCK, 15, 1) == 0 && other(F_OFD_SETLK, F_RDLCK, 14, 1) == 1);
	FACT(set(locked, F_SETLK, F_UNLCK, 8, 100) == 0 && other(F_SETLK, F_WRLCK, 8, 0) == 0 && other(F_SETLK, F_WRLCK, 7, 0) == 1);
	FACT(ask(child_has_none) == 0 && other(F_SETLK, F_RDLCK, 0, 1) == 1);
	/* The name is replaced and the file is opened and closed again. None of that may drop the
	 * locks of the file that is still open. */
	FACT(rename("other", "locked") == 0 && ask(child_has_none) == 0);
	int again = open("locked", O_RDWR);
	close(again);
	FACT(ask(child_has_none) == 0);
	/* A close of any descriptor of the file drops the process's locks. */
	struct flock lock = a_lock(F_WRLCK, 0, 10);
	close(reader);
	int status, pid = fork();
	if (pid == 0)
		_exit(!(fcntl(locked, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK));
	FACT(waitpid(pid, &status, 0) == pid && status == 0);
	close(locked), close(writer), close(twin);
}

static void alarmed(int signal) { (void)signal; }

static void waits(int command, int holder_command)
{
	int ready[2], status;
	char byte;
	put("locked", "0123456789");
	locked = open("locked", O_RDWR);
	FACT(pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open("locked", O_RDWR);
		int got = set(fd, holder_command, F_WRLCK, 0, 10) == 0;
		write(ready[1], "x", 1);
		pause();
		_exit(!got);
	}
	FACT(read(ready[0], &byte, 1) == 1 && REFUSED(set(locked, command == F_SETLKW ? F_SETLK : F_OFD_SETLK, F_RDLCK, 9, 1)));
	struct sigaction action = {.sa_handler = alarmed};
	struct itimerval soon = {.it_value = {.tv_usec = 20000}}, never = {0};
	sigaction(SIGALRM, &action, NULL), setitimer(ITIMER_REAL, &soon, NULL);
	FACT(FAILS(set(locked, command, F_RDLCK, 9, 1), EINTR));
	setitimer(ITIMER_REAL, &never, NULL);
	/* The wait ends when the holder is killed, although signals arrive meanwhile. */
	action.sa_flags = SA_RESTART, soon.it_interval.tv_usec = 5000;
	sigaction(SIGALRM, &action, NULL), setitimer(ITIMER_REAL, &soon, NULL);
	pid_t killer = fork();
	if (killer == 0)
		usleep(100000), kill(pid, SIGKILL), _exit(0);
	FACT(set(locked, command, F_RDLCK, 9, 1) == 0);
	setitimer(ITIMER_REAL, &never, NULL);
	waitpid(killer, &status, 0), waitpid(pid, &status, 0);
	close(locked), close(ready[0]), close(ready[1]);
}

/* After exec the lock must exist until the descriptor is closed. */
static void locks_over_exec(void)
{
	int up[2], down[2], status;
	char byte;
	put("locked", "0123456789");
	FACT(pipe(up) == 0 && pipe(down) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		char number[16], second[16], third[16];
		int fd = open("locked", O_RDWR);
		if (set(fd, F_SETLK, F_WRLCK, 0, 10) != 0)
			_exit(98);
		sprintf(number, "%d", fd), sprintf(second, "%d", up[1]), sprintf(third, "%d", down[0]);
		execl(self, self, "holder", number, second, third, (char *)NULL);
		_exit(99);
	}
	FACT(read(up[0], &byte, 1) == 1 && other(F_SETLK, F_RDLCK, 0, 1) == 1 && other(F_SETLK, F_WRLCK, 10, 1) == 0);
	FACT(write(down[1], "x", 1) == 1 && read(up[0], &byte, 1) == 1 && other(F_SETLK, F_RDLCK, 0, 1) == 0);
	FACT(write(down[1], "x", 1) == 1 && waitpid(pid, &status, 0) == pid && status == 0);
	close(up[0]), close(up[1]), close(down[0]), close(down[1]);
}

static int holder(int fd, int up, int down)
{
	char byte;
	int right = set(fd, F_SETLK, F_UNLCK, 20, 1) == 0 && write(up, "x", 1) == 1 && read(down, &byte, 1) == 1;
	return !(right && close(fd) == 0 && write(up, "x", 1) == 1 && read(down, &byte, 1) == 1);
}

static int description;
static int child_upgrades_and_closes(void) { return set(description, F_OFD_SETLK, F_WRLCK, 0, 10) != 0 || close(description) != 0; }

static void locks_of_descriptions(void)
{
	put("locked", "0123456789");
	description = open("locked", O_RDWR);
	int second = open("locked", O_RDWR), twin = dup(description), reader = open("locked", O_RDONLY);
	FACT(FAILS(set(reader, F_OFD_SETLK, F_WRLCK, 0, 1), EBADF) && set(reader, F_OFD_SETLK, F_RDLCK, 90, 1) == 0);
	FACT(set(description, F_OFD_SETLK, F_RDLCK, 0, 10) == 0 && set(second, F_OFD_SETLK, F_RDLCK, 5, 10) == 0);
	FACT(REFUSED(set(description, F_OFD_SETLK, F_WRLCK, 0, 10)) && set(description, F_OFD_SETLK, F_WRLCK, 0, 5) == 0);
	FACT(REFUSED(set(second, F_OFD_SETLK, F_RDLCK, 4, 1)) && set(second, F_OFD_SETLK, F_UNLCK, 0, 0) == 0);
	FACT(set(twin, F_OFD_SETLK, F_WRLCK, 0, 10) == 0 && REFUSED(set(second, F_OFD_SETLK, F_RDLCK, 9, 100)));
	struct flock lock = a_lock(F_RDLCK, 8, 0);
	FACT(fcntl(second, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_start == 0 && lock.l_len == 10 && lock.l_pid == -1);
	lock = a_lock(F_RDLCK, 8, 0);
	FACT(fcntl(twin, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
	FACT(other(F_OFD_SETLK, F_RDLCK, 9, 1) == 1 && other(F_SETLK, F_RDLCK, 9, 1) == 1 && other(F_SETLK, F_WRLCK, 10, 1) == 0);
	/* Locks of processes and of open file descriptions exclude each other, even within one process. */
	FACT(REFUSED(set(second, F_SETLK, F_RDLCK, 9, 1)) && set(second, F_SETLK, F_WRLCK, 10, 5) == 0);
	FACT(REFUSED(set(description, F_OFD_SETLK, F_RDLCK, 14, 1)) && REFUSED(set(second, F_OFD_SETLK, F_RDLCK, 14, 1)));
	lock = a_lock(F_RDLCK, 12, 0);
	FACT(fcntl(description, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_start == 10 && lock.l_pid == getpid());
	FACT(set(second, F_SETLK, F_UNLCK, 0, 0) == 0 && set(description, F_OFD_SETLK, F_RDLCK, 0, 10) == 0);
	/* The child's copy of the descriptor has the same description: its change of the lock
	 * lasts, and its close releases nothing. */
	FACT(ask(child_upgrades_and_closes) == 0 && other(F_OFD_SETLK, F_RDLCK, 0, 1) == 1);
	close(description);
	FACT(other(F_OFD_SETLK, F_RDLCK, 0, 1) == 1);
	pid_t pid = run("wait", twin, 0);
	close(twin);
	FACT(other(F_OFD_SETLK, F_RDLCK, 0, 1) == 1 && kill(pid, SIGKILL) == 0 && end_of(pid) == 128 + SIGKILL);
	FACT(other(F_OFD_SETLK, F_WRLCK, 0, 10) == 0 && set(reader, F_OFD_SETLK, F_UNLCK, 0, 0) == 0);
	FACT(set(second, F_OFD_SETLK, F_WRLCK, 0, 0) == 0);
	lock = a_lock(F_RDLCK, 8, 1);
	FACT(fcntl(reader, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_len == 0);
	close(second), close(reader);
}

static int tried_how;
static int try_flock(void)
{
	int fd = open("locked", O_RDONLY);
	return flock(fd, tried_how | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : 2;
}
static int other_flock(int how)
{
	tried_how = how;
	return ask(try_flock);
}
static int child_unlocks(void) { return flock(description, LOCK_UN); }

static void whole_file_locks(void)
{
	put("locked", "0123456789");
	description = open("locked", O_RDONLY);
	int second = open("locked", O_WRONLY);
	FACT(flock(description, LOCK_SH) == 0 && other_flock(LOCK_SH) == 0 && other_flock(LOCK_EX) == 1);
	FACT(flock(second, LOCK_SH) == 0 && FAILS(flock(second, LOCK_EX | LOCK_NB), EWOULDBLOCK) && flock(second, LOCK_UN) == 0);
	FACT(flock(description, LOCK_EX) == 0 && other_flock(LOCK_SH) == 1);
	FACT(set(second, F_SETLK, F_WRLCK, 0, 0) == 0 && set(second, F_OFD_SETLK, F_UNLCK, 0, 0) == 0); /* another kind of lock */
	pid_t pid = run("wait", description, 0);
	close(description);
	FACT(other_flock(LOCK_SH) == 1 && kill(pid, SIGKILL) == 0 && end_of(pid) == 128 + SIGKILL && other_flock(LOCK_EX) == 0);
	description = open("locked", O_RDWR);
	FACT(flock(description, LOCK_EX) == 0 && ask(child_unlocks) == 0 && other_flock(LOCK_EX) == 0);
	close(description), close(second);
}

int main(int count, char **arguments)
{
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (count > 3 && strcmp(arguments[1], "flags") == 0)
		return !flags_are(atoi(arguments[2]), atoi(arguments[3]));
	if (count > 4 && strcmp(arguments[1], "holder") == 0)
		return holder(atoi(arguments[2]), atoi(arguments[3]), atoi(arguments[4]));
	if (count > 1 && strcmp(arguments[1], "wait") == 0)
		return pause();
	FACT(length > 0 && chdir(arguments[1]) == 0);
	modes();
	names_of_descriptors();
	locks_of_processes();
	waits(F_SETLKW, F_SETLK);
	locks_over_exec();
	whole_file_locks();
	locks_of_descriptions();
	waits(F_OFD_SETLKW, F_OFD_SETLK);
	waits(F_OFD_SETLKW, F_SETLK);
	waits(F_SETLKW, F_OFD_SETLK);
	fprintf(stderr, "%d facts broken\n", broken);
	return broken != 0;
}
