/* RLIMIT_FSIZE: what may be written and how long a file may become (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <aio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { LIMIT = 10000 };
static volatile sig_atomic_t signals;

static void seen(int number)
{
	(void)number;
	signals++;
}

static void limit(rlim_t bytes) { E(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY})); }

static void tell_size(int fd)
{
	struct stat found;
	fstat(fd, &found);
	tell("  size %ld, at %ld, signals %d", (long)found.st_size, (long)lseek(fd, 0, SEEK_CUR), (int)signals);
}

static void writes(void)
{
	static char block[8192];
	struct iovec parts[3] = {{block, 1000}, {block, 3000}, {block, 3000}};
	struct sigaction action = {.sa_handler = seen};
	sigaction(SIGXFSZ, &action, NULL);
	int fd = open("file", O_CREAT | O_RDWR, 0644), other = open("other", O_CREAT | O_RDWR, 0644);
	E(pwrite(fd, block, 8192, 20000) < 0); /* longer than the later limit, before it is set */
	limit(LIMIT);
	T(write(fd, block, 8192));
	T(write(fd, block, 8192)); /* up to the limit */
	tell_size(fd);
	E(write(fd, block, 1) < 0);
	tell_size(fd);
	E(pwrite(fd, block, 1, LIMIT) < 0);
	T(pwrite(fd, block, 100, LIMIT - 50));
	T(pwrite(fd, block, 0, LIMIT + 5));
	tell_size(fd);
	E(ftruncate(fd, 25000)); /* shorter than the file */
	E(ftruncate(fd, 30000));
	tell_size(fd);
	E(truncate("other", LIMIT));
	E(truncate("other", LIMIT + 1));
	tell_size(other);
	E(ftruncate(other, 5000));
	lseek(other, 5000, SEEK_SET);
	T(writev(other, parts, 3) <= 5000);
	T(lseek(other, 0, SEEK_CUR) <= LIMIT);
	int appender = open("appended", O_CREAT | O_WRONLY | O_APPEND, 0644);
	T(write(appender, block, 8192));
	T(write(appender, block, 8192));
	E(write(appender, block, 8192) < 0);
	tell_size(appender);
	limit(RLIM_INFINITY);
	T(write(appender, block, 8192));
	tell_size(appender);
	struct rlimit old;
	E(prlimit(0, RLIMIT_FSIZE, &(struct rlimit){100, RLIM_INFINITY}, &old));
	E(write(appender, block, 1) < 0);
	tell_size(appender);
}

static void others(void)
{
	static char block[8192];
	signal(SIGXFSZ, SIG_IGN);
	int from = open("from", O_CREAT | O_RDWR, 0644), to = open("to", O_CREAT | O_RDWR, 0644);
	for (int i = 0; i < 4; i++)
		write(from, block, sizeof block);
	limit(LIMIT);
	lseek(from, 0, SEEK_SET);
	long copied = 0, step;
	while ((step = copy_file_range(from, NULL, to, NULL, 32768, 0)) > 0)
		copied += step;
	tell("copied %ld, then %s", copied, strerrorname_np(errno));
	tell_size(to);
	E(posix_fallocate(to, 0, 2 * LIMIT));
	FILE *stream = fopen("stream", "w");
	for (int i = 0; i < 20000; i++)
		putc('x', stream);
	E(fclose(stream));
	tell_size(open("stream", O_RDONLY));
	struct aiocb request = {.aio_fildes = to, .aio_buf = block, .aio_nbytes = 10, .aio_offset = LIMIT};
	const struct aiocb *list[] = {&request};
	E(aio_write(&request));
	while (aio_error(&request) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	tell("aio %s", strerrorname_np(aio_error(&request)));
}

/* The default action at the limit ends the program. */
static void fatal(void)
{
	pid_t child = fork();
	if (child == 0) {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		limit(100);
		int fd = open("fatal", O_CREAT | O_WRONLY, 0644);
		T(write(fd, "some bytes", 10));
		T(pwrite(fd, "x", 1, 100));
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	tell("ended by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	limit(100);
	E(system("printf %0200d 7 > by-shell") == 0); /* a child inherits the limit */
	tell_size(open("by-shell", O_RDONLY));
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"writes", writes}, {"others", others}, {"fatal", fatal}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
