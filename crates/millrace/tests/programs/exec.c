/* Executes another program by each function of the exec family: `exec inflight KIND FILE` with
 * kernel AIO in flight, `exec run KIND PROGRAM ARGUMENT` without. `exec run KIND PROGRAM ARGUMENT
 * bare` gives an empty environment if the function has an environment argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { REQUESTS = 24, BYTES = 16384 };

static void fail(const char *what)
{
	perror(what);
	exit(3);
}

/* Submits writes with O_DIRECT and does not wait for them. */
static void submit(const char *path)
{
	static struct iocb requests[REQUESTS];
	struct iocb *list[REQUESTS];
	aio_context_t context = 0;
	char *data;
	int fd = open(path, O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
	if (fd < 0 || posix_memalign((void **)&data, 4096, BYTES) || syscall(SYS_io_setup, REQUESTS, &context))
		fail("set up");
	memset(data, 'x', BYTES);
	for (int i = 0; i < REQUESTS; i++) {
		requests[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_buf = (unsigned long)data,
			.aio_nbytes = BYTES, .aio_offset = (long)i * BYTES};
		list[i] = &requests[i];
	}
	if (syscall(SYS_io_submit, context, REQUESTS, list) != REQUESTS)
		fail("io_submit");
}

/* `PROGRAM ARGUMENT 1 2 3 4 5 6 7 8 9 10`: more arguments than there are registers for them. */
static void become(const char *kind, const char *path, const char *argument, int bare)
{
	static char *nothing[] = {NULL};
	char **environment = bare ? nothing : environ;
	char *list[] = {(char *)path, (char *)argument, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", NULL};
#define LIST path, argument, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", (char *)NULL
	pid_t child = 0;
	int status = 0;
	if (!strcmp(kind, "execl")) execl(path, LIST);
	else if (!strcmp(kind, "execlp")) execlp(path, LIST);
	else if (!strcmp(kind, "execle")) execle(path, LIST, environment);
	else if (!strcmp(kind, "execv")) execv(path, list);
	else if (!strcmp(kind, "execvp")) execvp(path, list);
	else if (!strcmp(kind, "execve")) execve(path, list, environment);
	else if (!strcmp(kind, "execvpe")) execvpe(path, list, environment);
	else if (!strcmp(kind, "execveat")) execveat(AT_FDCWD, path, list, environment, 0);
	else if (!strcmp(kind, "fexecve")) fexecve(open(path, O_RDONLY), list, environment);
	else if (!strcmp(kind, "SYS_execve")) syscall(SYS_execve, path, list, environment);
	else if (!strcmp(kind, "posix_spawn")) errno = posix_spawn(&child, path, NULL, NULL, list, environment);
	else if (!strcmp(kind, "posix_spawnp")) errno = posix_spawnp(&child, path, NULL, NULL, list, environment);
	else if (!strcmp(kind, "system")) { if (bare) clearenv(); exit(WEXITSTATUS(system(argument))); }
	else if (!strcmp(kind, "popen")) { if (bare) clearenv(); exit(WEXITSTATUS(pclose(popen(argument, "w")))); }
	if (child == 0)
		fail(kind);
	waitpid(child, &status, 0);
	exit(WEXITSTATUS(status));
}

int main(int count, char **arguments)
{
	if (count == 4 && !strcmp(arguments[1], "inflight")) {
		submit(arguments[3]);
		become(arguments[2], "/bin/true", "in flight", 0);
	}
	if (count >= 5 && !strcmp(arguments[1], "run"))
		become(arguments[2], arguments[3], arguments[4], count > 5);
	return 2;
}
