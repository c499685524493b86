/* C streams (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <signal.h>
#include <stdio_ext.h>

static int child(void (*work)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int appends(int fd) { return (fcntl(fd, F_GETFL) & O_APPEND) != 0; }

static void fdopen_append(void)
{
	static const struct { int flags; const char *mode; } cases[] = {
		{O_WRONLY, "a"}, {O_RDWR, "a"}, {O_RDWR, "a+"}, {O_WRONLY | O_APPEND, "a"}, {O_RDWR | O_APPEND, "a+"},
		{O_WRONLY | O_APPEND, "w"}, {O_RDWR, "r+"}, {O_RDWR, "w"}, {O_RDWR, "w+"}, {O_RDONLY, "r"}, {O_RDONLY, "a"},
		{O_RDONLY, "w"}, {O_RDONLY, "r+"}, {O_WRONLY, "r"}, {O_WRONLY, "a+"}, {O_WRONLY, "r+"}, {O_WRONLY, "w+e"},
		{O_RDWR, "x"}, {O_RDWR, ""}, {O_RDWR, "ab+"}, {O_RDWR, "r,ccs=+"},
	};
	FILE *file;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		put("f", "0123456789");
		int fd = open("f", cases[i].flags);
		tell("fdopen %x %s", cases[i].flags, cases[i].mode);
		E(!(file = fdopen(fd, cases[i].mode)));
		T(appends(fd));
		T(lseek(fd, 0, SEEK_CUR));
		if (!file) {
			close(fd);
			continue;
		}
		T(ftell(file));
		T(fputs("XX", file));
		T(ftell(file));
		T(fflush(file));
		T(lseek(fd, 0, SEEK_CUR));
		T(ftell(file));
		T(fclose(file));
		tell_file("f");
	}
	E(!fdopen(77, "r"));
	int fd = open(".", O_RDONLY | O_DIRECTORY);
	E(!(file = fdopen(fd, "r")));
	E(getc(file) == EOF);
	T(ferror(file) != 0);
	fclose(file);
	E(!fopen(".", "r+"));
}

static void positions(void)
{
	static const char *const modes[] = {"a", "a+", "r+", "w", "w+", "r", "ae", "abx", "wx", "r+e", "a+x", "rc", "rm", "wbx+", "q"};
	char text[8], *line = NULL;
	size_t space = 0;
	fpos_t mark;
	FILE *file;
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
		put("p", "0123456789");
		tell("fopen %s", modes[i]);
		E(!(file = fopen("p", modes[i])));
		if (!file)
			continue;
		T(ftell(file));
		T(lseek(fileno(file), 0, SEEK_CUR));
		T(appends(fileno(file)));
		T(fcntl(fileno(file), F_GETFD));
		T(fread(text, 1, 3, file));
		T(ftell(file));
		T(ferror(file) != 0);
		clearerr(file);
		T(fseek(file, 2, SEEK_SET));
		T(fputs("ab", file));
		T(ftell(file));
		T(fflush(file));
		T(ftell(file));
		T(fseek(file, -1, SEEK_END));
		T(ftell(file));
		T(getc(file));
		T(ferror(file) != 0);
		T(fclose(file));
		tell_file("p");
	}
	/* Alternate reads and writes, characters pushed back, and offsets above 4 GiB. */
	put("p", "0123456789abcdefghij");
	file = fopen("p", "r+");
	T(getc(file));
	T(getc(file));
	T(ungetc('Z', file));
	T(ftell(file));
	T(getc(file));
	T(fgetpos(file, &mark));
	T(fseek(file, 0, SEEK_CUR));
	T(fputc('W', file));
	T(fflush(file));
	T(getc(file));
	T(fsetpos(file, &mark));
	T(getc(file));
	T(fseeko(file, 5LL << 30, SEEK_SET));
	T(ftello(file));
	T(fputc('!', file));
	T(fflush(file));
	T(ftello(file));
	E(fseek(file, -1, SEEK_SET));
	rewind(file);
	T(getdelim(&line, &space, 'a', file));
	tell(" %s", line);
	free(line);
	T(ftello(file));
	rewind(file);
	T(getc(file));
	T(fflush(file));
	T(lseek(fileno(file), 0, SEEK_CUR));
	T(fclose(file));
	T(truncate("p", 30));
	tell_file("p");
}

static FILE *tell_reopen(const char *name, const char *mode, FILE *file)
{
	int fd = fileno(file);
	FILE *again;
	tell("freopen %s %s", name ? name == local ? "local" : name : "nothing", mode);
	E(!(again = freopen(name, mode, file)));
	if (!again)
		return NULL;
	T(fd < 3 || again == file); /* for a standard stream, the program's variable changes (compat/preload.md) */
	T(fileno(again) == fd);
	T(ftell(again));
	T(appends(fileno(again)));
	T(fcntl(fileno(again), F_GETFD));
	T(fcntl(fileno(again), F_GETFL) & O_ACCMODE);
	T(__freadable(again) != 0);
	T(__fwritable(again) != 0);
	T(feof(again) != 0);
	T(ferror(again) != 0);
	return again;
}

static void tell_use(FILE *file, const char *text)
{
	T(getc(file));
	T(ferror(file) != 0);
	clearerr(file);
	T(fputs(text, file));
	T(fflush(file));
	clearerr(file);
}

static void reopened(void)
{
	static const char *const modes[] = {"r", "r+", "a", "a+", "w", "w+", "we", "ae", "q"};
	FILE *file;
	for (unsigned from = 0; from < 4; from++) /* opened in the folder or locally; then reopened there, or without a path */
		for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
			for (unsigned to = 0; to < 3; to++) {
				char *mine = malloc(64);
				put("one", "one one"), put("two", "two two"), put(local, "local local");
				tell("from %u", from);
				file = fopen(from & 1 ? local : "one", from & 2 ? "r+" : "w+");
				setvbuf(file, mine, from & 2 ? _IOLBF : _IOFBF, 64);
				fputs("before", file);
				if (from & 2) {
					rewind(file);
					getc(file);
					ungetc('u', file);
				}
				file = tell_reopen(to == 0 ? "two" : to == 1 ? local : NULL, modes[i], file);
				memset(mine, '#', 64); /* the stream no longer uses this buffer */
				if (file) {
					tell_use(file, "after");
					T(fseek(file, 0, SEEK_END));
					T(fclose(file));
				}
				tell_file("one"), tell_file("two"), tell_file(local);
				free(mine);
			}
	/* A failed freopen closes the stream. */
	file = fopen("one", "w");
	int fd = fileno(file);
	fputs("kept", file);
	tell_reopen("none/x", "r", file);
	E(fcntl(fd, F_GETFD) < 0);
	T(fputs("lost", file));
	T(fileno(file));
	T(fclose(file));
	tell_file("one");
	/* A stream is reopened after its file has lost its name. */
	file = fopen("one", "w+");
	fputs("unlinked", file);
	T(unlink("one"));
	if ((file = tell_reopen(NULL, "r+", file))) {
		tell_use(file, "!");
		fclose(file);
	}
	/* Many streams, none of which may be confused with another. */
	FILE *many[50];
	for (int i = 0; i < 50; i++)
		many[i] = fopen(i % 2 ? local : "one", "a");
	for (int i = 0; i < 50; i++) {
		many[i] = freopen(i % 3 ? "two" : local, "a", many[i]);
		fprintf(many[i], "%d ", i);
	}
	for (int i = 0; i < 50; i++)
		fclose(many[i]);
	tell_file("one"), tell_file("two"), tell_file(local);
}

static void standard_reopened(void)
{
	char line[64] = "";
	put("in", "first\nsecond\n"), put(local, "local\n");
	T(tell_reopen("out", "w", stdout) == stdout);
	printf("printf\n");
	puts("puts");
	T(fflush(stdout));
	T(system("echo child"));
	T(tell_reopen(NULL, "a", stdout) == stdout);
	printf("second\n");
	T(fflush(stdout));
	tell_file("out");
	T(tell_reopen(NULL, "w", stdout) == stdout);
	printf("third\n");
	T(fflush(stdout));
	tell_file("out");
	printf("to the old place");
	T(tell_reopen(local, "w", stdout) == stdout);
	printf("to the new place");
	T(fflush(stdout));
	tell_file("out"), tell_file(local);
	T(tell_reopen("out2", "w+", stdout) == stdout);
	printf("again");
	T(tell_reopen("/dev/null", "w", stdout) == stdout);
	printf("nowhere");
	T(fflush(stdout));
	tell_file("out2");
	/* glibc buffers a stream after freopen, stderr too. */
	T(tell_reopen("err", "w", stderr) == stderr);
	fputs("stderr ", stderr);
	tell_file("err");
	errno = ENOENT;
	perror("perror");
	T(fflush(stderr));
	tell_file("err");
	T(tell_reopen("in", "r", stdin) == stdin);
	tell(" %s", fgets(line, sizeof line, stdin));
	T(tell_reopen(local, "r", stdin) == stdin);
	tell(" %s", fgets(line, sizeof line, stdin) ? line : "nothing");
	T(tell_reopen("in", "r", stdin) == stdin);
	T(getchar());
	T(scanf("%63s", line));
	tell(" %s", line);
	T(fclose(stdin));
	E(fcntl(0, F_GETFD) < 0);
	T(open("in", O_RDONLY));
	tell_reopen("none/x", "w", stdout);
	E(fcntl(1, F_GETFD) < 0);
}

/* dup2 to a standard descriptor does not change the stream's buffering. */
static void redirected_buffering(void)
{
	int fd = open("b", O_CREAT | O_TRUNC | O_WRONLY, 0644), other = open(local, O_CREAT | O_TRUNC | O_WRONLY, 0644);
	setvbuf(stdout, NULL, _IONBF, 0);
	dup2(fd, 1);
	printf("at once ");
	tell_file("b");
	dup2(other, 1);
	printf("at once ");
	tell_file(local);
	setvbuf(stderr, NULL, _IOLBF, 0);
	dup2(fd, 2);
	fprintf(stderr, "a line\nhalf a line");
	tell_file("b");
	dup2(other, 2);
	fprintf(stderr, ", the other half");
	tell_file(local);
	fflush(stderr);
	tell_file(local);
}

/* As in a shell, stderr goes to a file before the program sets line buffering. A line is then one write. */
static void lines(void)
{
	dup2(open("b", O_CREAT | O_TRUNC | O_WRONLY, 0644), 2);
	setvbuf(stderr, NULL, _IOLBF, 0);
	fprintf(stderr, "%s: line %d: ", "name", 1);
	tell_file("b");
	fprintf(stderr, "%s\nhalf", "text");
	tell_file("b");
	fflush(stderr);
	tell_file("b");
	setvbuf(stderr, NULL, _IONBF, 0);
	fprintf(stderr, " at %s", "once");
	tell_file("b");
}

/* Data that was read ahead is still read after descriptor 0 was replaced, also when it is replaced again. */
static void ahead(void)
{
	char line[16];
	put("in", "first\nsecond\n"), put(local, "one\ntwo\n");
	dup2(open(local, O_RDONLY), 0);
	for (int i = 0; i < 4; i++) {
		tell(" %s", fgets(line, sizeof line, stdin) ? line : "nothing");
		if (i == 0)
			dup2(open("in", O_RDONLY), 0);
		if (i == 2)
			dup2(open(local, O_RDONLY), 0);
	}
	T(getchar());
	T(getchar());
}

static void leave(void) { exit(0); }

static void leave_by_exit(void)
{
	char line[16];
	fputs("flushed by exit", fopen("x", "w"));
	tell(" %s", fgets(line, sizeof line, stdin));
	exit(0);
}

static void leave_at_once(void)
{
	fputs("lost by _exit", fopen("x", "w"));
	_exit(0);
}

static void leave_by_quick_exit(void)
{
	fputs("lost by quick_exit", fopen("x", "w"));
	quick_exit(0);
}

static void endings(void)
{
	char line[16];
	put("in", "first\nsecond\n");
	int in = open("in", O_RDONLY);
	dup2(in, 0);
	T(child(leave_by_exit));
	tell_file("x");
	T(lseek(0, 0, SEEK_CUR));
	T(child(leave_at_once));
	tell_file("x");
	T(child(leave_by_quick_exit));
	tell_file("x");
	/* Parent and child both write what the parent had buffered. */
	FILE *file = fopen("twice", "w");
	fputs("twice ", file);
	T(child(leave));
	T(fclose(file));
	tell_file("twice");
	/* At its end, a stream leaves the offset where its reader was. */
	file = fopen("in", "r");
	int fd = dup(fileno(file));
	tell(" %s", fgets(line, sizeof line, file));
	T(lseek(fd, 0, SEEK_CUR));
	T(fflush(file));
	T(lseek(fd, 0, SEEK_CUR));
	T(getc(file));
	T(fclose(file));
	T(lseek(fd, 0, SEEK_CUR));
	T(lseek(fd, 0, SEEK_SET));
	file = fdopen(fd, "r");
	T(getc(file));
	T(fflush(NULL));
	T(lseek(fd, 0, SEEK_CUR));
	T(fcloseall());
	T(lseek(fd, 0, SEEK_CUR));
}

/* Errors are reported when a stream is flushed or closed. A failed close frees the descriptor too. */
static void errors(void)
{
	FILE *file;
	put("e", "");
	int reader = open("e", O_RDONLY);
	file = fopen("e", "w");
	int fd = fileno(file);
	T(fputs("not to be written", file));
	dup3(reader, fd, 0);
	E(fclose(file));
	E(fcntl(fd, F_GETFD) < 0);
	file = fopen("e", "w");
	T(fputs("not to be written", file));
	dup3(reader, fileno(file), 0);
	E(fflush(file));
	T(ferror(file) != 0);
	T(fclose(file));
	file = fopen("e", "w");
	close(fileno(file));
	E(fclose(file));
	file = fopen("e", "r");
	E(fputc('x', file) == EOF);
	T(ferror(file) != 0);
	T(fclose(file));
	file = fopen("e", "w");
	E(fgetc(file) == EOF);
	T(ferror(file) != 0);
	T(fclose(file));
	E(!fopen("none", "r"));
	E(!fopen("e", "wx"));
	E(!fopen(".", "w"));
	E(!fopen("e", "r,ccs=NO-SUCH-SET"));
}

/* Buffers of all kinds, and less usual functions. */
static void buffers(void)
{
	static char mine[100];
	char text[32] = "";
	int number;
	FILE *file = fopen("b", "w+");
	T(setvbuf(file, mine, _IOFBF, sizeof mine));
	T(fputs("0123456789", file));
	T(__fpending(file));
	T(memcmp(mine, "0123456789", 10));
	tell_file("b");
	T(setvbuf(file, NULL, _IOLBF, 0));
	T(fputs("line\nhalf", file));
	tell_file("b");
	T(fflush(file));
	T(setvbuf(file, NULL, _IONBF, 0));
	T(fputs("!", file));
	tell_file("b");
	T(fputc_unlocked('u', file));
	T(fileno_unlocked(file) == fileno(file));
	rewind(file);
	T(fread_unlocked(text, 1, 20, file));
	tell(" %s", text);
	T(feof(file) != 0);
	T(getw(file));
	T(feof(file) != 0);
	clearerr(file);
	T(fprintf(file, "%d %s", 42, "x"));
	T(fseek(file, -4, SEEK_END));
	T(fscanf(file, "%d", &number));
	T(number);
	T(fseek(file, 0, SEEK_END));
	flockfile(file);
	T(putc_unlocked('p', file));
	funlockfile(file);
	T(fclose(file));
	tell_file("b");
	file = fmemopen(mine, sizeof mine, "w");
	T(fputs("in memory", file));
	T(fclose(file));
	tell(" %s", mine);
	file = tmpfile();
	T(fputs("temporary", file));
	T(fclose(file));
	file = fopen("big", "w");
	for (int i = 0; i < 40000; i++)
		fprintf(file, "%d\n", i);
	T(ftell(file));
	T(fclose(file));
	file = fopen("big", "r");
	long sum = 0;
	while (fscanf(file, "%d", &number) == 1)
		sum += number;
	T(sum);
	T(ftell(file));
	T(feof(file) != 0);
	T(fclose(file));
}

/* The program closes its streams and is then killed. Nothing that normally follows close is executed. */
static void closed(void)
{
	FILE *file = fopen("closed", "w");
	T(fputs("by fclose", file));
	E(fclose(file));
	file = fopen("left", "w");
	T(fputs("by freopen", file));
	file = freopen("closed", "r", file);
	raise(SIGKILL);
}

/* A pointer to libc's own stream from before its replacement: some functions work (C++ calls them),
 * the others fail. */
static void kept(void)
{
	FILE *before = stdout;
	dup2(open("kept", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
	printf("by stdout ");
	T(fputs("by the pointer ", before));
	T(fwrite("too ", 1, 4, before));
	T(putc('!', before));
	T(fflush(before));
	T(fileno(before));
	E(fprintf(before, "%d", 1) < 0); /* by a function that the library does not replace */
	E(putc_unlocked('1', before) == EOF);
	printf(" again");
	T(fflush(stdout));
	tell_file("kept");
	E(!freopen("other", "w", before));
	printf("reopened by the pointer");
	T(fflush(stdout));
	tell_file("other");
	dup2(open(local, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
	T(fputs("back", before));
	T(fflush(before));
	tell_file(local);
}

/* The server refuses these writes, so that local disk gives no comparison. */
static void full(void)
{
	FILE *file = fopen("full", "w");
	T(fputs("no place", file));
	E(fclose(file));
	file = fopen("full", "w");
	T(fputs("no place", file));
	E(fflush(file));
	T(ferror(file) != 0);
	E(fclose(file));
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {
		{"fdopen", fdopen_append}, {"positions", positions}, {"freopen", reopened}, {"standard", standard_reopened},
		{"redirect", redirected_buffering}, {"lines", lines}, {"ahead", ahead}, {"endings", endings}, {"errors", errors}, {"buffers", buffers},
		{"closed", closed}, {"full", full}, {"kept", kept},
	};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
