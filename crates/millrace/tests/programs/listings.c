/* What the functions that list directories and walk trees find (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { FILES = 200 };
static char *lines[4 * FILES + 40];
static int line_count;

static void note(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	if (vasprintf(&lines[line_count++], format, list) < 0)
		_exit(92);
	va_end(list);
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* In an order of their own: that of a directory is the file system's. */
static void tell_notes(void)
{
	qsort(lines, line_count, sizeof *lines, by_text);
	for (int i = 0; i < line_count; i++) {
		tell("  %s", lines[i]);
		free(lines[i]);
	}
	line_count = 0;
}

static void make_many(void)
{
	char name[64];
	mkdir("many", 0755);
	for (int i = 0; i < FILES; i++) {
		sprintf(name, "many/file-%03d", i);
		put(name, "");
	}
}

static void make_tree(void)
{
	mkdir("t", 0755), mkdir("t/a", 0755), mkdir("t/a/deep", 0700), mkdir("t/b", 0755);
	put("t/one", "1"), put("t/a/two", "22"), put("t/a/deep/three", "333");
	if (symlink("../one", "t/a/link") || symlink("nowhere", "t/dangling") || symlink("../a", "t/b/up"))
		_exit(93);
	make_many();
}

static int not_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void scans(void)
{
	struct dirent **list;
	make_tree();
	int top = open("t", O_RDONLY | O_DIRECTORY), here = open(".", O_RDONLY | O_DIRECTORY), file = open("t/one", O_RDONLY), found;
	int places[] = {top, here, AT_FDCWD, file, 99};
	const char *const paths[] = {"a", "t/a", "many", ".", "none", "b/up", "t/one"};
	for (int place = 0; place < 5; place++)
		for (int path = 0; path < 7; path++) {
			tell("scandirat %d %s", place, paths[path]);
			E((found = scandirat(places[place], paths[path], &list, not_dots, alphasort)) < 0);
			T(found);
			for (int i = 0; i < found && i < 5; i++)
				tell("  %s %d", list[i]->d_name, list[i]->d_type);
			for (int i = 0; i < found; i++)
				free(list[i]);
			if (found >= 0)
				free(list);
		}
	E((found = scandir(local, &list, not_dots, alphasort)) < 0); /* a link into the folder */
	T(found);
}

static int raw_getdents(int fd, void *buffer, int bytes) { return syscall(SYS_getdents64, fd, buffer, bytes); }
static int libc_getdents(int fd, void *buffer, int bytes) { return getdents64(fd, buffer, bytes); }
static off64_t place;
static int directory_entries(int fd, void *buffer, int bytes) { return getdirentries64(fd, buffer, bytes, &place); }

static void entries(void)
{
	static int (*const calls[])(int, void *, int) = {raw_getdents, libc_getdents, directory_entries};
	char buffer[1024];
	make_tree();
	for (int call = 0; call < 3; call++)
		for (int removes = 0; removes < 2; removes++) {
			int fd = open("many", O_RDONLY | O_DIRECTORY), got, dots = 0, names = 0;
			while ((got = calls[call](fd, buffer, sizeof buffer)) > 0)
				for (int at = 0; at < got;) {
					struct dirent64 *entry = (void *)(buffer + at);
					struct stat st;
					dots += entry->d_name[0] == '.';
					if (entry->d_name[0] != '.' && fstatat(fd, entry->d_name, &st, 0) == 0) {
						names += st.st_ino == entry->d_ino && entry->d_type == DT_REG;
						/* Removing what was listed skips nothing. */
						if (removes)
							unlinkat(fd, entry->d_name, 0);
					}
					at += entry->d_reclen;
				}
			T(got);
			T(dots);
			T(names);
			T(lseek(fd, 0, SEEK_SET));
			int twin = dup(fd), again = 0;
			while ((got = calls[call](again++ % 2 ? fd : twin, buffer, sizeof buffer)) > 0)
				for (int at = 0; at < got; at += ((struct dirent64 *)(buffer + at))->d_reclen)
					names--;
			T(names); /* the dots, or both */
			E(calls[call](fd, buffer, 1024) < 0);
			T(lseek(fd, 0, SEEK_SET));
			E(calls[call](fd, buffer, 4) < 0);
			close(fd), close(twin);
			make_many();
		}
	int file = open("t/one", O_RDONLY);
	E(raw_getdents(file, buffer, sizeof buffer) < 0);
	E(libc_getdents(file, buffer, sizeof buffer) < 0);
	E(raw_getdents(99, buffer, sizeof buffer) < 0);
#ifdef SYS_getdents
	int fd = open("t/a", O_RDONLY | O_DIRECTORY), got;
	while ((got = syscall(SYS_getdents, fd, buffer, sizeof buffer)) > 0)
		for (int at = 0; at < got;) {
			struct { unsigned long inode, next; unsigned short length; char name[]; } *entry = (void *)(buffer + at);
			note("%s %d", entry->name, buffer[at + entry->length - 1]);
			at += entry->length;
		}
	tell_notes();
#endif
}

static int skip_a, stop_at_two;

static int seen(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	struct stat here;
	/* With FTW_CHDIR the name can be reached from where we are. */
	int reached = lstat(path + where->base, &here) == 0 && here.st_ino == st->st_ino;
	note("%s is %d, size %ld, base %s, level %d, reached %d", path, kind, kind == FTW_F ? (long)st->st_size : 0L, path + where->base,
	     where->level, reached);
	if (skip_a && strcmp(path + where->base, "a") == 0)
		return FTW_SKIP_SUBTREE;
	return stop_at_two && strcmp(path + where->base, "one") == 0 ? 42 : 0;
}

static int seen_by_ftw(const char *path, const struct stat *st, int kind)
{
	note("%s is %d, size %ld", path, kind, kind == FTW_F ? (long)st->st_size : 0L);
	return 0;
}

static void walks(void)
{
	static const int flags[] = {0, FTW_PHYS, FTW_DEPTH, FTW_PHYS | FTW_DEPTH, FTW_PHYS | FTW_MOUNT, FTW_PHYS | FTW_CHDIR,
				    FTW_PHYS | FTW_CHDIR | FTW_DEPTH, FTW_PHYS | FTW_ACTIONRETVAL};
	static const char *const paths[] = {"t", "t/", "./t/a//", "t/one", "t/dangling", "t/a/link", "none", "t/b/up"};
	char before[4096], after[4096];
	make_tree();
	for (unsigned flag = 0; flag < sizeof flags / sizeof *flags; flag++)
		for (unsigned path = 0; path < sizeof paths / sizeof *paths; path++) {
			tell("nftw %s %d", paths[path], flags[flag]);
			skip_a = (flags[flag] & FTW_ACTIONRETVAL) != 0;
			getcwd(before, sizeof before);
			E(nftw(paths[path], seen, 5, flags[flag]));
			tell_notes();
			getcwd(after, sizeof after);
			T(strcmp(before, after));
		}
	skip_a = 0, stop_at_two = 1;
	T(nftw("t", seen, 5, FTW_PHYS));
	line_count = 0;
	stop_at_two = 0;
	for (unsigned path = 0; path < sizeof paths / sizeof *paths; path++) {
		tell("ftw %s", paths[path]);
		E(ftw(paths[path], seen_by_ftw, 5));
		tell_notes();
	}
	E(nftw("t", seen, 5, 1 << 20));
}

static int opened; /* by the program's own function */
static void *my_opendir(const char *path) { opened++; return opendir(path); }
static struct dirent *my_readdir(void *stream) { return readdir(stream); }
static void my_closedir(void *stream) { closedir(stream); }

static void globs(void)
{
	glob_t found = {0};
	make_tree();
	found.gl_opendir = my_opendir, found.gl_readdir = my_readdir, found.gl_closedir = my_closedir;
	found.gl_stat = stat, found.gl_lstat = lstat;
	E(glob("t/*/*", GLOB_ALTDIRFUNC, NULL, &found));
	for (size_t i = 0; i < found.gl_pathc; i++)
		tell("  %s", found.gl_pathv[i]);
	T(opened > 0);
	globfree(&found);
	E(glob("many/file-00[0-3]", GLOB_MARK, NULL, &found));
	E(glob("t/*", GLOB_APPEND | GLOB_MARK, NULL, &found));
	for (size_t i = 0; i < found.gl_pathc; i++)
		tell("  %s", found.gl_pathv[i]);
	globfree(&found);
	E(glob("t/none*", 0, NULL, &found));
}

/* The directory and the beginning of the name; the rest is chance. */
static void names(void)
{
	static const char *const folders[] = {"t", "t/a//", ".", "none", NULL};
	static const char *const prefixes[] = {"", "ab", "abcdefgh", NULL};
	make_tree();
	for (int environment = 0; environment < 3; environment++) {
		if (environment)
			setenv("TMPDIR", environment == 1 ? "many" : "none", 1);
		for (int folder = 0; folder < 5; folder++)
			for (int prefix = 0; prefix < 4; prefix++) {
				char *name = tempnam(folders[folder], prefixes[prefix]);
				tell("%.*s, %zu", (int)strlen(name) - 6, name, strlen(name));
				E(access(name, F_OK));
				free(name);
			}
	}
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"scans", scans}, {"entries", entries}, {"walks", walks}, {"globs", globs}, {"names", names}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
