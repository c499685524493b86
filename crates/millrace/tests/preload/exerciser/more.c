/* Steps by libc's other functions for files: open directories, asynchronous I/O, dprintf, mkstemp,
 * popen, statx, poll. */
#include "actor.h"
#include <aio.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>

static DIR *held[2];

static int by_text(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The current content of a directory, by a stream that may have been opened long before. */
static void list_held(DIR *stream)
{
	char *names[256];
	int count = 0;
	rewinddir(stream);
	for (struct dirent *entry; count < 256 && (entry = readdir(stream));)
		names[count++] = strdup(entry->d_name);
	qsort(names, count, sizeof *names, by_text);
	for (int i = 0; i < count; free(names[i++]))
		say(" %s", names[i]);
}

static void held_directory(const char *name, const struct step *step)
{
	DIR **stream = &held[number(step, 1) & 1];
	int directory;
	if (strcmp(name, "opendir") == 0) {
		if (*stream) {
			say("busy");
			return;
		}
		*stream = opendir(path(step, 2, &directory));
		outcome(*stream ? 0 : -1);
	} else if (!*stream)
		say("free");
	else if (strcmp(name, "closedir") == 0) {
		outcome(closedir(*stream));
		*stream = NULL;
	} else
		list_held(*stream);
}

static void asynchronous(const struct step *step)
{
	long count = number(step, 3);
	used_aio = 1;
	struct aiocb control = {.aio_fildes = descriptor(step, 1), .aio_buf = data, .aio_nbytes = count, .aio_offset = number(step, 4)};
	struct aiocb *list[] = {&control};
	int writes = word(step, 2)[0] == 'w', status;
	if (writes)
		fill(count, 'y');
	control.aio_lio_opcode = writes ? LIO_WRITE : LIO_READ;
	if (word(step, 2)[1] == 'l')
		status = lio_listio(LIO_WAIT, list, 1, NULL);
	else
		status = writes ? aio_write(&control) : aio_read(&control);
	if (status != 0) {
		outcome(status); /* lio_listio returns EIO; the request has the real error */
		if (word(step, 2)[1] != 'l')
			return;
		say(" ");
	}
	while (aio_error(&control) == EINPROGRESS)
		aio_suspend((const struct aiocb *const *)list, 1, NULL);
	errno = aio_error(&control);
	long done = aio_return(&control);
	counted(done);
	if (!writes && done > 0)
		show(data, done);
}

static void temporary(const struct step *step)
{
	char name[32];
	snprintf(name, sizeof name, "t%.8sXXXXXX", word(step, 2));
	int lowest = lowest_free();
	if (descriptor(step, 1) >= 0) {
		say("busy");
		return;
	}
	int fd = mkstemp(name);
	keep(step, 1, fd, lowest);
	if (fd >= 0) { /* the name is random, so that it is removed before the comparison */
		say(" ");
		outcome(unlink(name));
	}
}

static void pipe_to(const struct step *step)
{
	char command[256], line[256] = "";
	snprintf(command, sizeof command, "exec 2>/dev/null; cat >> %s; wc -c < %s", word(step, 1), word(step, 1));
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN); /* a shell that cannot open its file ends before it reads */
	FILE *child = popen(command, "w");
	fprintf(child, "through a pipe\n");
	say("%d", pclose(child));
	snprintf(command, sizeof command, "cat %s 2>/dev/null", word(step, 1));
	child = popen(command, "r");
	say(" %s", fgets(line, sizeof line, child) ? "line " : "none");
	for (char *at = line; *at && *at != '\n'; at++)
		say("%c", *at);
	while (fgets(line, sizeof line, child))
		;
	say(" %d", pclose(child));
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_IGN);
}

static void extended(const struct step *step)
{
	struct statx found;
	int directory;
	const char *name = path(step, 1, &directory);
	int status = statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &found);
	outcome(status);
	if (status == 0)
		say(" %o links %u", found.stx_mode, found.stx_nlink);
	if (status == 0 && !S_ISDIR(found.stx_mode))
		say(" size %llu", (unsigned long long)found.stx_size);
}

int more_step(const char *name, const struct step *step)
{
	int directory;
	if (strcmp(name, "opendir") == 0 || strcmp(name, "listdir") == 0 || strcmp(name, "closedir") == 0)
		held_directory(name, step);
	else if (strcmp(name, "aio") == 0 && forked_unseen)
		say("no threads");
	else if (strcmp(name, "aio") == 0)
		asynchronous(step);
	else if (strcmp(name, "mkstemp") == 0)
		temporary(step);
	else if (strcmp(name, "popen") == 0)
		pipe_to(step);
	else if (strcmp(name, "statx") == 0)
		extended(step);
	else if (strcmp(name, "dprintf") == 0)
		counted(dprintf(descriptor(step, 1), "<%d %s>\n", 17, word(step, 2)));
	else if (strcmp(name, "lockf") == 0)
		outcome(lockf(descriptor(step, 1), word(step, 2)[0] == 'l' ? F_TLOCK : word(step, 2)[0] == 't' ? F_TEST : F_ULOCK, number(step, 3)));
	else if (strcmp(name, "poll") == 0) {
		struct pollfd asked = {.fd = descriptor(step, 1), .events = POLLIN | POLLOUT};
		say("%d %x", poll(&asked, 1, 0), asked.revents);
	} else if (strcmp(name, "creat") == 0) {
		int lowest = lowest_free();
		const char *file = path(step, 2, &directory);
		if (descriptor(step, 1) >= 0)
			say("busy");
		else
			keep(step, 1, creat(file, 0640), lowest);
	} else
		return 0;
	return 1;
}
