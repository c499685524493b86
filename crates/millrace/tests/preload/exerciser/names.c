/* Steps on names: links, directories, attributes, and the content of a path. */
#include "actor.h"
#include <dirent.h>
#include <sys/syscall.h>
#include <time.h>

static void attributes(const struct stat *found)
{
	int kind = found->st_mode & S_IFMT;
	say(" %c %o links %lu owner %u:%u", kind == S_IFDIR ? 'd' : kind == S_IFLNK ? 'l' : kind == S_IFREG ? 'f' : '?',
		found->st_mode & 07777, (unsigned long)found->st_nlink, found->st_uid, found->st_gid);
	if (kind != S_IFDIR)
		say(" size %ld", (long)found->st_size);
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
	return strcmp((*one)->d_name, (*other)->d_name);
}

static void list(const char *name, int tree)
{
	struct dirent **entries;
	char below[8192];
	int count = scandir(name, &entries, NULL, by_name);
	if (count < 0) {
		say(" %s", strerrorname_np(errno));
		return;
	}
	for (int i = 0; i < count; free(entries[i++])) {
		const char *entry = entries[i]->d_name;
		int dots = strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0;
		say(" %s:%d", entry, entries[i]->d_type);
		snprintf(below, sizeof below, "%s/%s", name, entry);
		struct stat found;
		if (!tree || dots || lstat(below, &found) != 0)
			continue;
		attributes(&found);
		say(";");
		if (S_ISDIR(found.st_mode)) {
			say(" [");
			list(below, 1);
			say(" ]");
		}
	}
	free(entries);
}

static void stat_step(const char *how, const struct step *step)
{
	struct stat found;
	int directory, status;
	if (how[0] == 'f') {
		status = fstat(descriptor(step, 1), &found);
	} else {
		const char *name = path(step, 1, &directory);
		int follow = how[0] == 's';
		if (directory != AT_FDCWD)
			status = fstatat(directory, name, &found, follow ? 0 : AT_SYMLINK_NOFOLLOW);
		else
			status = follow ? stat(name, &found) : lstat(name, &found);
	}
	outcome(status);
	if (status == 0)
		attributes(&found);
}

/* Whether a descriptor and a path are the same file. */
static void same(const struct step *step)
{
	struct stat one, other;
	int directory, has_one = fstat(descriptor(step, 1), &one);
	const char *name = path(step, 2, &directory);
	if (has_one != 0 || fstatat(directory, name, &other, 0) != 0)
		say("not both there");
	else
		say("%s", one.st_ino == other.st_ino && one.st_dev == other.st_dev ? "same" : "different");
}

/* Whether a write, a truncation or a change of mode moves a file's times forward, and which. */
static void moves(const struct step *step)
{
	struct stat before, after;
	int fd = descriptor(step, 1);
	if (fstat(fd, &before) != 0) {
		say("%s", strerrorname_np(errno));
		return;
	}
	/* Longer than a tick of any kernel, which is the unit of file times. */
	nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
	if (word(step, 2)[0] == 'w') {
		fill(10, 'm');
		counted(pwrite(fd, data, 10, 5));
	} else if (word(step, 2)[0] == 't')
		outcome(ftruncate(fd, before.st_size + 1));
	else
		outcome(fchmod(fd, before.st_mode ^ 010));
	if (fstat(fd, &after) != 0) {
		say(" %s", strerrorname_np(errno));
		return;
	}
	int wrote = after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
		(after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
	int changed = after.st_ctim.tv_sec > before.st_ctim.tv_sec ||
		(after.st_ctim.tv_sec == before.st_ctim.tv_sec && after.st_ctim.tv_nsec > before.st_ctim.tv_nsec);
	say(" mtime %s ctime %s", wrote ? "later" : "not later", changed ? "later" : "not later");
}

static void cat(const struct step *step)
{
	int directory;
	const char *name = path(step, 1, &directory);
	int fd = openat(directory, name, O_RDONLY);
	if (fd < 0) {
		outcome(fd);
		return;
	}
	long all = 0, got = 0;
	while (all < DATA_MAX && (got = read(fd, data + all, DATA_MAX - all)) > 0)
		all += got;
	counted(got < 0 ? got : all);
	show(data, all);
	close(fd);
}

static void two_names(const char *name, const struct step *step)
{
	int from_directory, to_directory;
	const char *from = path(step, 1, &from_directory), *to = path(step, 2, &to_directory);
	int plain = from_directory == AT_FDCWD && to_directory == AT_FDCWD;
	if (strcmp(name, "symlink") == 0)
		outcome(to_directory == AT_FDCWD ? symlink(word(step, 1), to) : symlinkat(word(step, 1), to_directory, to));
	else if (strcmp(name, "link") == 0)
		outcome(plain ? link(from, to) : linkat(from_directory, from, to_directory, to, 0));
	else if (strcmp(name, "linkfollow") == 0)
		outcome(linkat(from_directory, from, to_directory, to, AT_SYMLINK_FOLLOW));
	else if (strcmp(name, "rename") == 0)
		outcome(plain ? rename(from, to) : renameat(from_directory, from, to_directory, to));
	else {
		int done = renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE);
		/* A mount has no rename flags and refuses them if the new name is free. Programs
		 * then use a plain rename. */
		outcome(done != 0 && errno == EINVAL ? renameat(from_directory, from, to_directory, to) : done);
	}
}

/* Whether a step would leave the program's directory. Programs stay in it, because the directory
 * above it has other programs and is not compared. */
static int leaves(const char *name)
{
	char buffer[4096];
	return strcmp(name, "..") == 0 && (!getcwd(buffer, sizeof buffer) || strcmp(buffer, root) == 0);
}

static void one_name(const char *how, const struct step *step)
{
	int directory;
	const char *name = path(step, 1, &directory);
	int mode = (int)strtol(word(step, 2), NULL, 8), plain = directory == AT_FDCWD;
	if (strcmp(how, "unlink") == 0)
		outcome(plain ? unlink(name) : unlinkat(directory, name, 0));
	else if (strcmp(how, "rmdir") == 0)
		outcome(plain ? rmdir(name) : unlinkat(directory, name, AT_REMOVEDIR));
	else if (strcmp(how, "remove") == 0)
		outcome(remove(name));
	else if (strcmp(how, "mkdir") == 0)
		outcome(plain ? mkdir(name, mode) : mkdirat(directory, name, mode));
	else if (strcmp(how, "chmod") == 0)
		outcome(fchmodat(directory, name, mode, 0));
	else if (strcmp(how, "access") == 0)
		outcome(faccessat(directory, name, (int)number(step, 2), 0));
	else if (strcmp(how, "truncate") == 0)
		outcome(truncate(name, number(step, 2)));
	else if (strcmp(how, "chdir") == 0 && leaves(name))
		say("stays");
	else if (strcmp(how, "chdir") == 0)
		outcome(chdir(name));
	else if (strcmp(how, "readlink") == 0) {
		long count = readlinkat(directory, name, data, 4096);
		counted(count);
		say(" %.*s", count > 0 ? (int)count : 0, data);
	} else {
		say("%s:", how);
		list(name, how[0] == 't');
	}
}

static void where(void)
{
	char buffer[4096];
	const char *found = getcwd(buffer, sizeof buffer);
	size_t length = strlen(root);
	say("%s", !found ? strerrorname_np(errno) : strncmp(found, root, length) == 0 ? found + length : found);
}

static void times(const struct step *step)
{
	int directory;
	const char *name = path(step, 1, &directory);
	struct timespec given[2] = {{number(step, 2), 123456789}, {number(step, 2), 987654321}};
	struct stat found;
	int set = utimensat(directory, name, given, 0);
	outcome(set);
	if (set == 0 && fstatat(directory, name, &found, 0) == 0) /* otherwise the times are those of any moment */
		say(" %ld.%09ld", (long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

int name_step(const char *name, const struct step *step)
{
	static const char *const ones[] = {"unlink", "rmdir", "remove", "mkdir", "chmod", "access", "truncate", "chdir", "readlink",
		"ls", "tree"};
	static const char *const twos[] = {"symlink", "link", "linkfollow", "rename", "noreplace"};
	for (unsigned i = 0; i < sizeof ones / sizeof *ones; i++)
		if (strcmp(name, ones[i]) == 0)
			return one_name(name, step), 1;
	for (unsigned i = 0; i < sizeof twos / sizeof *twos; i++)
		if (strcmp(name, twos[i]) == 0)
			return two_names(name, step), 1;
	if (strcmp(name, "stat") == 0 || strcmp(name, "lstat") == 0 || strcmp(name, "fstat") == 0)
		stat_step(name, step);
	else if (strcmp(name, "same") == 0)
		same(step);
	else if (strcmp(name, "moves") == 0)
		moves(step);
	else if (strcmp(name, "cat") == 0)
		cat(step);
	else if (strcmp(name, "fchdir") == 0)
		outcome(fchdir(descriptor(step, 1)));
	else if (strcmp(name, "fchmod") == 0)
		outcome(fchmod(descriptor(step, 1), strtol(word(step, 2), NULL, 8)));
	else if (strcmp(name, "getcwd") == 0)
		where();
	else if (strcmp(name, "utimes") == 0)
		times(step);
	else if (strcmp(name, "umask") == 0)
		say("%o", umask(strtol(word(step, 1), NULL, 8)));
	else
		return 0;
	return 1;
}
