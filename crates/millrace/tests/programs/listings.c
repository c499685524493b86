/* Results of the functions that list directories and walk trees (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <dirent.h>
#include <fts.h>
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

/* Prints the notes in sorted order, because the order of a directory depends on the file system. */
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
	E((found = scandir(local, &list, not_dots, alphasort)) < 0); /* a link to the folder */
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
						/* The removal of listed names skips no other name. */
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
			T(names); /* minus the dots, if this function lists them */
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
	/* With FTW_CHDIR the name is in the working directory. */
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

static int by_name(const FTSENT **one, const FTSENT **other) { return strcmp((*one)->fts_name, (*other)->fts_name); }
static int by_name_back(const FTSENT **one, const FTSENT **other) { return by_name(other, one); }

static int has_stat; /* whether the walk has attributes */

static void tell_entry(const char *how, FTSENT *entry, int is_reached)
{
	struct stat here;
	int told = has_stat && entry->fts_info != FTS_NS && entry->fts_info != FTS_NSOK && entry->fts_info != FTS_DNR;
	int reached = is_reached && told && lstat(entry->fts_accpath, &here) == 0 && here.st_ino == entry->fts_statp->st_ino;
	tell("  %s %s is %d, name %s, lengths %d %d, level %d, errno %s, type %o size %ld, reached %d, above %s, cycle %s, mine %ld", how,
	     is_reached ? entry->fts_path : "", entry->fts_info, entry->fts_name,
	     is_reached || entry->fts_level > 0 ? entry->fts_pathlen : 0, entry->fts_namelen, entry->fts_level,
	     entry->fts_errno ? strerrorname_np(entry->fts_errno) : "", told ? entry->fts_statp->st_mode : 0,
	     told && S_ISREG(entry->fts_statp->st_mode) ? (long)entry->fts_statp->st_size : 0L, reached,
	     entry->fts_level > 0 ? entry->fts_parent->fts_name : "", entry->fts_info == FTS_DC ? entry->fts_cycle->fts_name : "",
	     entry->fts_level > 0 ? entry->fts_parent->fts_number : 0);
}

static void tell_children(FTS *walk, int only)
{
	errno = 77;
	FTSENT *each = fts_children(walk, only);
	if (!each)
		tell("  no children %s", errno ? strerrorname_np(errno) : "");
	for (; each; each = each->fts_link)
		if (only)
			tell("  named %s %d, level %d", each->fts_name, each->fts_namelen, each->fts_level);
		else
			tell_entry("child", each, 0);
}

/* What to do with an entry of this name: 0 nothing, one of the values of fts_set, or a list of its
 * children first. */
enum { CHILDREN = 100, NAMES, CHILDREN_SKIP_B };
static struct { const char *name; int what; } wishes[4];

static void walk_of(const char *title, char *const *roots, int options, int (*order)(const FTSENT **, const FTSENT **))
{
	char before[4096], after[4096];
	getcwd(before, sizeof before);
	tell("fts %s %#x", title, options);
	errno = 0;
	FTS *walk = fts_open(roots, options, order);
	if (!walk) {
		tell("  not opened %s", strerrorname_np(errno));
		return;
	}
	has_stat = !(options & FTS_NOSTAT);
	tell_children(walk, 0); /* the roots */
	FTSENT *entry;
	for (int count = 0; count < 100 && (entry = fts_read(walk)); count++) {
		tell_entry("read", entry, 1);
		entry->fts_number = count;
		for (int i = 0; i < 4; i++) {
			if (!wishes[i].name || strcmp(wishes[i].name, entry->fts_name) != 0 || entry->fts_info == FTS_DP)
				continue;
			if (wishes[i].what < CHILDREN) {
				T(fts_set(walk, entry, wishes[i].what));
				wishes[i].name = wishes[i].what == FTS_AGAIN ? NULL : wishes[i].name;
			} else {
				tell_children(walk, wishes[i].what == NAMES ? FTS_NAMEONLY : 0);
				if (wishes[i].what == CHILDREN_SKIP_B)
					for (FTSENT *child = fts_children(walk, 0); child; child = child->fts_link)
						if (strcmp(child->fts_name, "b") == 0 || strcmp(child->fts_name, "dangling") == 0)
							T(fts_set(walk, child, *child->fts_name == 'b' ? FTS_SKIP : FTS_FOLLOW));
			}
		}
		if (count == 0)
			E(fts_set(walk, entry, 9) != 0);
	}
	tell("  ended %s", errno ? strerrorname_np(errno) : "");
	E(fts_children(walk, 7) != NULL);
	E(fts_close(walk));
	getcwd(after, sizeof after);
	T(strcmp(before, after));
	memset(wishes, 0, sizeof wishes);
}

static void fts(void)
{
	static const int options[] = {FTS_PHYSICAL, FTS_LOGICAL, FTS_PHYSICAL | FTS_NOCHDIR, FTS_PHYSICAL | FTS_COMFOLLOW, FTS_PHYSICAL | FTS_NOSTAT,
				      FTS_PHYSICAL | FTS_NOSTAT | FTS_NOCHDIR, FTS_PHYSICAL | FTS_SEEDOT, FTS_PHYSICAL | FTS_XDEV, FTS_LOGICAL | FTS_NOSTAT};
	char *const all[][6] = {{"t"}, {"t/"}, {"./t/a//"}, {"t/one", "t/b", "t/a", "none"}, {"t/b/up", "t/dangling", "t/a/link"}, {"t/a/.", "t/a/.."},
				{"t", ""}, {"t/c", "t/empty"}};
	char from_root[4096];
	make_tree();
	mkdir("t/empty", 0755), mkdir("t/c", 0755);
	if (symlink("..", "t/c/round") || symlink("../b", "t/c/to-b"))
		_exit(94);
	for (unsigned option = 0; option < sizeof options / sizeof *options; option++)
		for (unsigned roots = 0; roots < sizeof all / sizeof *all; roots++)
			walk_of(all[roots][0], all[roots], options[option], roots % 2 ? by_name_back : by_name);
	char *const tree[] = {"t", NULL}, *const absolute[] = {getcwd(from_root, sizeof from_root), NULL};
	walk_of("unknown option", tree, 1 << 12, by_name);
	walk_of("no order", (char *[]){"t/one", "t/empty", "t/a/deep", NULL}, FTS_PHYSICAL, NULL);
	for (unsigned option = 0; option < 4; option++) {
		wishes[0].name = "a", wishes[0].what = FTS_SKIP, wishes[1].name = "up", wishes[1].what = FTS_FOLLOW;
		wishes[2].name = "one", wishes[2].what = FTS_AGAIN;
		walk_of("skip, follow, again", tree, options[option], by_name);
		wishes[0].name = "t", wishes[0].what = CHILDREN, wishes[1].name = "a", wishes[1].what = NAMES;
		wishes[2].name = "empty", wishes[2].what = CHILDREN, wishes[3].name = "one", wishes[3].what = CHILDREN;
		walk_of("children", tree, options[option], by_name);
		wishes[0].name = "t", wishes[0].what = CHILDREN_SKIP_B;
		walk_of("children with wishes", tree, options[option], by_name);
	}
	FTS *left = fts_open(absolute, FTS_PHYSICAL, by_name); /* closed before its end */
	for (int i = 0; i < 5; i++)
		fts_read(left);
	E(fts_close(left));
	E(access("t", F_OK));
	/* Directories that are removed, or become unreadable, before the walk enters them. */
	FTS *walk = fts_open(tree, FTS_PHYSICAL, by_name);
	FTSENT *entry;
	while ((entry = fts_read(walk))) {
		if (entry->fts_info == FTS_DNR)
			tell("  unreadable %s", strerrorname_np(errno)); /* programs read errno too */
		tell_entry("read", entry, 1);
		if (strcmp(entry->fts_name, "empty") == 0 && entry->fts_info == FTS_D)
			rmdir("empty");
		if (strcmp(entry->fts_name, "a") == 0 && entry->fts_info == FTS_D)
			chmod("a", 0);
	}
	tell("  ended %s", errno ? strerrorname_np(errno) : "");
	E(fts_close(walk));
	chmod("t/a", 0755);
	/* The removal of a tree. */
	walk = fts_open(tree, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	while ((entry = fts_read(walk)))
		if (entry->fts_info != FTS_D && (entry->fts_info == FTS_DP ? rmdir(entry->fts_accpath) : unlink(entry->fts_accpath)) != 0)
			tell("  not removed %s %s", entry->fts_path, strerrorname_np(errno));
	E(fts_close(walk));
	E(access("t", F_OK));
}

static int opened; /* number of opens by the program's own function */
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

/* Prints the directory and the beginning of the name. The rest is random. */
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
	static const struct section sections[] = {{"scans", scans}, {"entries", entries}, {"walks", walks}, {"fts", fts}, {"globs", globs}, {"names", names}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
