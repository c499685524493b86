/* Paths that end in a slash, in dots or in a link, given to every call that creates, removes or
 * opens a name (tell.h). Only the name itself may be created or removed, and an error must be the
 * kernel's. */
#define _GNU_SOURCE
#include "tell.h"
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static const char *const PATHS[] = {
	"file", "file/", "file/.", "dir", "dir/", "dir/.", "dir/..", "dir/in", "dir/in/", "empty", "empty/", "empty/.", "to-file", "to-file/",
	"to-dir", "to-dir/", "to-dir/.", "to-empty", "to-empty/", "with-slash", "with-slash/", "dangling", "dangling/", "dangling/x", "loop",
	"loop/", "new", "new/", "new/.", "new/x", "dir/new", "dir/new/", ".", "..", "./", "../", "",
};
enum { COUNT = sizeof PATHS / sizeof *PATHS };

static void begin(void)
{
	static const char *const left[] = {"file", "dir/in", "dir/new", "new", "to-file", "to-dir", "to-empty", "with-slash", "dangling", "loop", "nowhere"};
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		remove(left[i]);
	remove("dir/new");
	remove("dir");
	remove("empty");
	put("file", "text");
	mkdir("dir", 0755);
	mkdir("empty", 0755);
	put("dir/in", "");
	symlink("file", "to-file");
	symlink("dir", "to-dir");
	symlink("empty", "to-empty");
	symlink("dir/", "with-slash");
	symlink("nowhere", "dangling");
	symlink("loop", "loop");
}

static int removed_at(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
static int directory(const char *path) { return mkdir(path, 0755); }
static int link_text(const char *path) { return symlink("text", path); }
static int fifo(const char *path) { return mkfifo(path, 0644); }
static int node(const char *path) { return mknod(path, S_IFREG | 0644, 0); }
static int no_node(const char *path) { return mknod(path, S_IFDIR | 0644, 0); }
static int read_nothing(const char *path) { return readlink(path, (char[1]){0}, 0); }
static int shorter(const char *path) { return truncate(path, -1); }

static int opened(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK, 0644);
	return fd < 0 ? -1 : close(fd);
}
static int created(const char *path) { return opened(path, O_CREAT | O_RDWR); }
static int created_new(const char *path) { return opened(path, O_CREAT | O_EXCL | O_RDWR); }
static int created_directory(const char *path) { return opened(path, O_CREAT | O_DIRECTORY); }

static int bound(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, *path ? path : "file");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), is = bind(fd, (struct sockaddr *)&address, sizeof address), error = errno;
	close(fd);
	errno = error;
	return is;
}

static const struct { const char *name; int (*call)(const char *); } CALLS[] = {
	{"rmdir", rmdir}, {"unlink", unlink}, {"remove", remove}, {"unlinkat", removed_at}, {"mkdir", directory}, {"symlink", link_text},
	{"mkfifo", fifo}, {"mknod", node}, {"open", created}, {"open O_EXCL", created_new}, {"bind", bound},
};
/* These calls are refused before or after the path is resolved. */
static const struct { const char *name; int (*call)(const char *); } REFUSED[] = {
	{"mknod S_IFDIR", no_node}, {"readlink of 0 bytes", read_nothing}, {"truncate to -1", shorter}, {"open O_DIRECTORY", created_directory},
};

static void one(void)
{
	begin();
	for (size_t call = 0; call < sizeof CALLS / sizeof *CALLS; call++)
		for (int i = 0; i < COUNT; i++) {
			errno = 0;
			int is = CALLS[call].call(PATHS[i]);
			tell("%s \"%s\" = %d %s", CALLS[call].name, PATHS[i], is, is < 0 ? strerrorname_np(errno) : "");
			if (is == 0)
				begin(); /* a failed call must have changed nothing */
		}
	for (size_t call = 0; call < sizeof REFUSED / sizeof *REFUSED; call++) {
		errno = 0;
		int is = REFUSED[call].call("file");
		tell("%s = %d %s", REFUSED[call].name, is, is < 0 ? strerrorname_np(errno) : "");
	}
	struct stat found;
	E(fstatat(AT_FDCWD, "file", &found, 8));
	E(access("file", 8));
	E(faccessat(AT_FDCWD, "file", F_OK, 8));
	E(unlinkat(AT_FDCWD, "file", 1));
	E(fchownat(AT_FDCWD, "file", -1, -1, 8));
	E(utimensat(AT_FDCWD, "file", NULL, 8));
	E(linkat(AT_FDCWD, "file", AT_FDCWD, "new", 8));
	tell_file("file");
}

static void two(void)
{
	static const char *const from[] = {"file", "file/", "dir", "dir/.", "empty/", "empty/.", "to-file", "to-file/", "to-empty/", "dangling/", "new", "..", ""};
	static const char *const calls[] = {"rename", "renameat2", "link"};
	begin();
	for (int call = 0; call < 3; call++)
		for (size_t i = 0; i < sizeof from / sizeof *from; i++)
			for (int j = 0; j < COUNT; j++) {
				errno = 0;
				int is = call == 0 ? rename(from[i], PATHS[j])
					: call == 1 ? renameat2(AT_FDCWD, from[i], AT_FDCWD, PATHS[j], 0)
					: link(from[i], PATHS[j]);
				tell("%s \"%s\" \"%s\" = %d %s", calls[call], from[i], PATHS[j], is, is < 0 ? strerrorname_np(errno) : "");
				if (is == 0)
					begin();
			}
}

/* A path of this many bytes that leads to `name` in the working directory: `./` repeated, after the
 * working directory's path or not. */
static const char *of_length(char *into, size_t bytes, int from_root, const char *name)
{
	size_t length = strlen(name), at = 0;
	if (from_root) {
		if (!getcwd(into, PATH_MAX))
			_exit(92);
		at = strlen(into);
		into[at++] = '/';
	}
	while (at + length + 2 <= bytes) {
		into[at++] = '.';
		into[at++] = '/';
	}
	while (at + length < bytes)
		into[at++] = '/';
	strcpy(into + at, name);
	return into;
}

/* The longest path and link that a kernel accepts, and ones that are one byte and much longer. */
static void lengths(void)
{
	static const size_t bytes[] = {4000, 4094, 4095, 4096, 4097, 9000};
	static char path[10000], text[10000];
	for (int from_root = 0; from_root < 2; from_root++)
		for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
			if (!from_root && (bytes[i] == 4094 || bytes[i] == 4095))
				continue; /* on a mount the length counts from the root: docs/compat/preload.md */
			begin();
			tell("%zu bytes, %d", bytes[i], from_root);
			struct stat found;
			const char *file = of_length(path, bytes[i], from_root, "file");
			E(stat(file, &found));
			E(lstat(file, &found));
			E(access(file, F_OK));
			E(chmod(file, 0600));
			E(chown(file, -1, -1));
			E(truncate(file, 1));
			E(utimensat(AT_FDCWD, file, NULL, 0));
			E(readlink(file, text, sizeof text));
			E(opened(file, O_RDONLY));
			E(rename(file, "new"));
			E(rename("new", file));
			E(link(file, "new"));
			E(chdir(of_length(path, bytes[i], from_root, "dir")) || chdir(".."));
			E(unlink(of_length(path, bytes[i], from_root, "file")));
			E(rmdir(of_length(path, bytes[i], from_root, "empty")));
			for (size_t call = 4; call < sizeof CALLS / sizeof *CALLS - 1; call++) { /* calls that create a name, except bind: a socket's path is short */
				remove("made");
				E(CALLS[call].call(of_length(path, bytes[i], from_root, "made")));
			}
			memset(text, 'x', bytes[i]);
			text[bytes[i]] = 0;
			E(symlink(text, "made-link"));
			remove("made-link");
		}
}

/* A link's text is checked before its path; and the longest name. */
static void texts_and_names(void)
{
	static char path[300], text[4097];
	begin();
	static const char *const places[] = {"made", "file", "dir/", "nowhere/new", "file/new"};
	memset(text, 'x', 4096);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		tell("%s", places[i]);
		E(symlink("", places[i]));
		E(symlink(text, places[i]));
		E(symlink((char *)-1, places[i]));
		E(symlinkat((char *)-1, AT_FDCWD, places[i]));
	}
	for (int letters = 254; letters < 258; letters++) {
		memset(path, 'n', letters);
		path[letters] = 0;
		tell("a name of %d letters", letters);
		E(mkdir(path, 0755));
		E(rename(path, "short") && errno != ENOENT);
		E(rmdir("short"));
		E(opened(path, O_CREAT | O_RDWR));
		E(unlink(path));
		E(access(path, F_OK));
	}
}

static const struct section SECTIONS[] = {{"one", one}, {"two", two}, {"lengths", lengths}, {"texts", texts_and_names}};

int main(int count, char **arguments) { return run_section(count, arguments, SECTIONS, sizeof SECTIONS / sizeof *SECTIONS); }
