/* One process of a random program: executes steps that the driver sends, and reports the result of each.
 * It talks to the driver by system calls that no library sees, so that this has no effect on the results.
 *
 * actor start ADDRESS         starts processes as the driver orders
 * actor go CONTROL ROOT ON-MOUNT SLOT:FD,…    a process of a program */
#include "actor.h"
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

int slot[SLOTS];
FILE *stream[STREAMS];
char root[4096];
int on_mount, control, forked_unseen, used_aio;
char *data;
static char text[TEXT_MAX];
static int said;
static char line[4096];

long raw_call(long call, long a, long b, long c, long d, long e, long f)
{
#if defined __x86_64__
	long result;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(result) : "a"(call), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return result;
#elif defined __aarch64__
	register long x8 __asm__("x8") = call, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "no system call of our own for this processor"
#endif
}

void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int count = vsnprintf(text + said, sizeof text - said, format, arguments);
	va_end(arguments);
	said += count < (int)sizeof text - said ? count : (int)sizeof text - said - 1;
}

void outcome(long returned)
{
	say("%s", returned < 0 ? strerrorname_np(errno) : "ok");
}

void counted(long returned)
{
	if (returned < 0)
		say("%s", strerrorname_np(errno));
	else
		say("%ld", returned);
}

void show(const char *bytes, long count)
{
	unsigned long hash = 14695981039346656037ul;
	for (long i = 0; i < count; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211ul;
	say(" \"");
	int begun = said;
	for (long i = 0, run; i < count; i += run) {
		for (run = 1; i + run < count && bytes[i + run] == bytes[i]; run++)
			;
		char shown = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : bytes[i] ? '?' : '.';
		if (run > 3)
			say("%c*%ld ", shown, run);
		else
			say("%.*s", (int)run, (char[]){shown, shown, shown, 0});
		if (said - begun > 160 && i + run < count) {
			say("~");
			break;
		}
	}
	say("\" %lx", hash);
}

void fill(long count, char letter)
{
	memset(data, letter, count);
	for (long i = 63; i < count; i += 64)
		data[i] = '0' + i / 64 % 10;
}

const char *word(const struct step *step, int index)
{
	return index < step->count ? step->word[index] : "";
}

long number(const struct step *step, int index)
{
	return atol(word(step, index));
}

int descriptor(const struct step *step, int index)
{
	long wanted = number(step, index);
	return wanted >= 0 && wanted < SLOTS ? slot[wanted] : -1;
}

const char *path(const struct step *step, int index, int *directory)
{
	static char absolute[2][8192];
	static int turn;
	const char *given = word(step, index);
	*directory = AT_FDCWD;
	if (given[0] == '@') {
		*directory = slot[(given[1] - '0') & (SLOTS - 1)];
		return given + 3;
	}
	if (given[0] != '/')
		return given;
	turn = !turn;
	snprintf(absolute[turn], sizeof absolute[turn], "%s%s", root, given);
	return absolute[turn];
}

int lowest_free(void)
{
	int low = (int)raw_call(SYS_dup, control, 0, 0, 0, 0, 0);
	raw_call(SYS_close, low, 0, 0, 0, 0, 0);
	return low;
}

void keep(const struct step *step, int index, int fd, int lowest)
{
	outcome(fd);
	if (fd < 0)
		return;
	say("%s", fd == lowest ? "" : " not the lowest free number");
	slot[number(step, index) & (SLOTS - 1)] = fd;
}

int connect_for(const char *process)
{
	const char *address = getenv("EXERCISER_ADDRESS");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	strncpy(to.sun_path, address, sizeof to.sun_path - 1);
	int fd = (int)raw_call(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0, 0);
	/* The descriptor is moved away from those that the test compares. */
	int high = (int)raw_call(SYS_fcntl, fd, F_DUPFD, 200, 0, 0, 0);
	raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
	if (raw_call(SYS_connect, high, (long)&to, sizeof to, 0, 0, 0) != 0)
		abort();
	char hello[64];
	int count = snprintf(hello, sizeof hello, "%s\n", process);
	raw_call(SYS_write, high, (long)hello, count, 0, 0, 0);
	return high;
}

static int receive(void)
{
	for (size_t got = 0; got < sizeof line - 1; got++) {
		if (raw_call(SYS_read, control, (long)(line + got), 1, 0, 0, 0) != 1)
			return 0;
		if (line[got] == '\n') {
			line[got] = 0;
			return 1;
		}
	}
	return 0;
}

static void split(struct step *step)
{
	step->count = 0;
	for (char *rest = line, *part; step->count < WORDS_MAX && (part = strsep(&rest, " "));)
		step->word[step->count++] = part;
}

void serve(void)
{
	static int (*const tried[])(const char *, const struct step *) = {
		file_step, name_step, stream_step, lock_step, process_step, more_step, map_step, refused_step};
	struct step step;
	while (receive()) {
		split(&step);
		said = 0;
		unsigned i = 0;
		while (i < sizeof tried / sizeof *tried && !tried[i](step.word[0], &step))
			i++;
		if (i == sizeof tried / sizeof *tried)
			say("no such step");
		say("\n");
		raw_call(SYS_write, control, (long)text, said, 0, 0, 0);
	}
	_exit(0);
}

void execute(int connection)
{
	char slots[256] = "", connected[16], where[2] = {'0' + !!on_mount, 0};
	for (int i = 0, used = 0; i < SLOTS; i++)
		if (slot[i] >= 0)
			used += snprintf(slots + used, sizeof slots - used, "%d:%d,", i, slot[i]);
	snprintf(connected, sizeof connected, "%d", connection);
	raw_call(SYS_fcntl, connection, F_SETFD, 0, 0, 0, 0);
	execl(getenv("EXERCISER_ACTOR"), "actor", "go", connected, root, where, slots, (char *)NULL);
	_exit(127);
}

static int go(char **argument)
{
	control = atoi(argument[0]);
	raw_call(SYS_fcntl, control, F_SETFD, FD_CLOEXEC, 0, 0, 0);
	snprintf(root, sizeof root, "%s", argument[1]);
	on_mount = atoi(argument[2]);
	memset(slot, -1, sizeof slot);
	for (char *rest = argument[3], *part; (part = strsep(&rest, ","));) {
		int index, fd;
		if (sscanf(part, "%d:%d", &index, &fd) == 2 && raw_call(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) >= 0)
			slot[index & (SLOTS - 1)] = fd;
	}
	if (posix_memalign((void **)&data, 4096, DATA_MAX) != 0)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	serve();
	return 0;
}

/* Starts processes as the driver orders: `start NUMBER UID DIRECTORY`, or `end`. */
static int start(char **argument)
{
	struct step step;
	setenv("EXERCISER_ADDRESS", argument[0], 1);
	on_mount = atoi(argument[1]);
	control = connect_for("start");
	while (receive() && (split(&step), strcmp(step.word[0], "start") == 0)) {
		int connection = connect_for(step.word[1]);
		memset(slot, -1, sizeof slot);
		snprintf(root, sizeof root, "%s", step.word[3]);
		pid_t pid = fork();
		if (pid == 0) {
			raw_call(SYS_close, control, 0, 0, 0, 0, 0);
			uid_t uid = atoi(step.word[2]);
			if (uid != 0 && (setgid(uid) != 0 || setuid(uid) != 0))
				_exit(126);
			if (chdir(root) != 0)
				_exit(125);
			umask(022);
			execute(connection);
		}
		raw_call(SYS_close, connection, 0, 0, 0, 0, 0);
		said = 0;
		say("ok\t%d\n", pid);
		raw_call(SYS_write, control, (long)text, said, 0, 0, 0);
	}
	return 0;
}

int main(int count, char **argument)
{
	/* No process waits for children. The driver detects their end. */
	signal(SIGCHLD, SIG_IGN);
	setenv("EXERCISER_ACTOR", argument[0][0] == '/' ? argument[0] : getenv("EXERCISER_ACTOR"), 1);
	if (count == 4 && strcmp(argument[1], "start") == 0)
		return start(argument + 2);
	if (count == 6 && strcmp(argument[1], "go") == 0)
		return go(argument + 2);
	fprintf(stderr, "usage: actor start ADDRESS ON-MOUNT\n");
	return 2;
}
