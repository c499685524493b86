/* A program prints its results line by line. It runs in a folder on local disk and in one on a
 * mount, and must print the same. The programs of this folder include this file. Arguments: the
 * folder, the name of a section, a path outside the folder. The output goes to descriptor REPORT,
 * because a section may replace the others. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT = 200 };

static void tell(const char *format, ...)
{
	char line[4096];
	va_list list;
	va_start(list, format);
	int length = vsnprintf(line, sizeof line - 1, format, list);
	va_end(list);
	line[length++] = '\n';
	if (write(REPORT, line, length) != length)
		_exit(90);
}

/* Prints an expression and its value. One call per expression, so that the order is fixed. */
#define T(expression) tell(" %s = %ld", #expression, (long)(expression))
/* The same for a call that may fail, with its error. */
#define E(failed) do { errno = 0; int is = (failed) != 0; tell(" %s = %d %s", #failed, is, is ? strerrorname_np(errno) : ""); } while (0)

__attribute__((unused)) static void put(const char *name, const char *text)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0)
		_exit(91);
}

__attribute__((unused)) static void tell_file(const char *name)
{
	char buffer[1024];
	int fd = open(name, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
	buffer[got < 0 ? 0 : got] = 0;
	tell("%s holds %zd: %s", name, got, buffer);
	if (fd >= 0)
		close(fd);
}


static const char *local; /* a path outside the folder */

struct section { const char *name; void (*run)(void); };

static int run_section(int count, char **arguments, const struct section *sections, int sections_count)
{
	if (count != 4 || dup2(1, REPORT) != REPORT || fcntl(REPORT, F_SETFD, FD_CLOEXEC) != 0 || chdir(arguments[1]) != 0)
		return 2;
	local = arguments[3];
	for (int i = 0; i < sections_count; i++)
		if (strcmp(sections[i].name, arguments[2]) == 0) {
			sections[i].run();
			return 0;
		}
	return 3;
}
