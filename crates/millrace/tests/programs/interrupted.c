/* Opens the file of its argument while somebody else holds the exclusive lock of its placeholder: it prints where the placeholder
 * is, waits for a line, and prints a line when its handler has run three times inside open; then the lock may be given up. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t rung, inside;

static void handler(int number)
{
	(void)number;
	if (inside && ++rung == 3 && write(1, "three\n", 6) != 6)
		_exit(3);
}

int main(int count, char **arguments)
{
	char link[64], placeholder[4096], line[16];
	struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART */
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	if (count != 2)
		return 2;
	int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, placeholder, sizeof placeholder - 1);
	if (length < 0 || close(fd) != 0)
		return 3;
	placeholder[length] = 0;
	printf("%s\n", placeholder);
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 4;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	inside = 1;
	fd = open(arguments[1], O_RDWR);
	int error = errno;
	inside = 0;
	setitimer(ITIMER_REAL, &never, NULL);
	printf("open: %s, rung %d\n", fd < 0 ? strerror(error) : "done", rung >= 3);
	return fd < 0;
}
