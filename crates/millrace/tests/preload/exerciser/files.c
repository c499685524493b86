/* Steps on descriptors: open, close, duplicates, data, size, durability. */
#include "actor.h"
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

int open_flags(const char *words)
{
	static const struct { const char *name; int flag; } flags[] = {
		{"r", O_RDONLY}, {"w", O_WRONLY}, {"rw", O_RDWR}, {"creat", O_CREAT}, {"excl", O_EXCL}, {"trunc", O_TRUNC},
		{"append", O_APPEND}, {"direct", O_DIRECT}, {"sync", O_SYNC}, {"dsync", O_DSYNC}, {"cloexec", O_CLOEXEC},
		{"nofollow", O_NOFOLLOW}, {"dir", O_DIRECTORY}, {"nonblock", O_NONBLOCK}, {"path", O_PATH}};
	char copy[256];
	int all = 0;
	snprintf(copy, sizeof copy, "%s", words);
	for (char *rest = copy, *part; (part = strsep(&rest, "+"));)
		for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
			if (strcmp(part, flags[i].name) == 0)
				all |= flags[i].flag;
	/* A local file system needs aligned O_DIRECT, a mount does not: the model leaves it out
	 * (known.rs, `alignment`). */
	return on_mount ? all : all & ~O_DIRECT;
}

static int opened(int directory, const char *name, int flags, int mode)
{
	struct stat found;
	int fd = directory == AT_FDCWD ? open(name, flags, mode) : openat(directory, name, flags, mode);
	/* FUSE cannot open directories with O_DIRECT (known.rs, `alignment`). */
	if (fd < 0 && errno == EINVAL && flags & O_DIRECT && fstatat(directory, name, &found, 0) == 0 && S_ISDIR(found.st_mode))
		fd = openat(directory, name, flags & ~O_DIRECT, mode);
	return fd;
}

static void open_step(const struct step *step)
{
	int directory;
	const char *name = path(step, 2, &directory);
	int flags = open_flags(word(step, 3)), mode = (int)strtol(word(step, 4), NULL, 8), lowest = lowest_free();
	if (descriptor(step, 1) >= 0)
		say("busy");
	else
		keep(step, 1, opened(directory, name, flags, mode), lowest);
}

static void duplicate(const char *how, const struct step *step)
{
	int from = descriptor(step, 1), to = descriptor(step, 2), lowest = lowest_free();
	if (how[3] == 0 || how[3] == 'f') {
		if (to >= 0)
			say("busy");
		else if (how[3] == 0)
			keep(step, 2, dup(from), lowest);
		else
			keep(step, 2, fcntl(from, F_DUPFD_CLOEXEC, 50), -1 /* it is not the lowest free number */);
		return;
	}
	int target = to >= 0 ? to : 80 + (int)number(step, 2);
	keep(step, 2, how[3] == '2' ? dup2(from, target) : dup3(from, target, O_CLOEXEC), target);
}

/* Divides `count` bytes of `data` into pieces of unequal length. */
static int vector(long count, struct iovec *parts)
{
	int used = 0;
	for (long at = 0, piece = 1; at < count && used < 16; at += parts[used++].iov_len, piece = piece * 3 + 1)
		parts[used] = (struct iovec){data + at, used == 15 || at + piece > count ? count - at : piece};
	return used;
}

static void write_step(const char *how, const struct step *step)
{
	int fd = descriptor(step, 1);
	long count = number(step, 2), offset = number(step, 4);
	struct iovec parts[16];
	fill(count, word(step, 3)[0]);
	if (strcmp(how, "write") == 0)
		counted(write(fd, data, count));
	else if (strcmp(how, "pwrite") == 0)
		counted(pwrite(fd, data, count, offset));
	else if (strcmp(how, "writev") == 0)
		counted(writev(fd, parts, vector(count, parts)));
	else if (strcmp(how, "pwritev") == 0)
		counted(pwritev(fd, parts, vector(count, parts), offset));
	else
		counted(pwritev2(fd, parts, vector(count, parts), offset, strcmp(how, "pappend") == 0 ? RWF_APPEND : RWF_DSYNC));
}

/* Many small sequential writes. */
static void run_step(const struct step *step)
{
	int fd = descriptor(step, 1);
	long count = number(step, 2), sum = 0;
	for (long piece = 0; piece < number(step, 3); piece++) {
		fill(count, (char)('A' + (word(step, 4)[0] - 'A' + piece) % 26));
		long written = write(fd, data, count);
		if (written < 0) {
			counted(written);
			return;
		}
		sum += written;
	}
	counted(sum);
}

static void read_step(const char *how, const struct step *step)
{
	int fd = descriptor(step, 1);
	long count = number(step, 2), offset = number(step, 3), got;
	struct iovec parts[16];
	if (strcmp(how, "read") == 0)
		got = read(fd, data, count);
	else if (strcmp(how, "pread") == 0)
		got = pread(fd, data, count, offset);
	else if (strcmp(how, "readv") == 0)
		got = readv(fd, parts, vector(count, parts));
	else
		got = preadv(fd, parts, vector(count, parts), offset);
	counted(got);
	if (got >= 0)
		show(data, got);
}

static void seek(const struct step *step)
{
	const char *from = word(step, 3);
	struct stat found;
	if (fstat(descriptor(step, 1), &found) == 0 && S_ISDIR(found.st_mode))
		say("directory"); /* known.rs, `directory offsets` */
	else
		counted(lseek(descriptor(step, 1), number(step, 2), from[0] == 's' ? SEEK_SET : from[0] == 'c' ? SEEK_CUR : SEEK_END));
}

static void map(const struct step *step)
{
	int fd = descriptor(step, 1);
	struct stat found;
	if (fstat(fd, &found) != 0 || found.st_size == 0) {
		say("nothing to map");
		return;
	}
	char *mapped = mmap(NULL, found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	outcome(mapped == MAP_FAILED ? -1 : 0);
	if (mapped != MAP_FAILED) {
		show(mapped, found.st_size);
		munmap(mapped, found.st_size);
	}
}

static void transfer(const char *how, const struct step *step)
{
	int from = descriptor(step, 1), to = descriptor(step, 2);
	long count = number(step, 3);
	struct stat one, other;
	if (fstat(from, &one) == 0 && fstat(to, &other) == 0 && one.st_ino == other.st_ino) {
		say("one file"); /* known.rs, `copies within a file` */
		return;
	}
	counted(how[0] == 's' ? sendfile(to, from, NULL, count) : copy_file_range(from, NULL, to, NULL, count, 0));
}

static void flags(const char *how, const struct step *step)
{
	int fd = descriptor(step, 1), on = number(step, 2) != 0;
	if (strcmp(how, "getfl") == 0) {
		int found = fcntl(fd, F_GETFL);
		if (found < 0)
			outcome(found);
		else /* O_LARGEFILE depends on libc, O_DIRECT is `alignment` */
			say("%o", found & ~O_DIRECT & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC));
	} else if (strcmp(how, "getfd") == 0)
		counted(fcntl(fd, F_GETFD));
	else if (strcmp(how, "cloexec") == 0)
		outcome(fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0));
	else
		outcome(fcntl(fd, F_SETFL, on ? O_APPEND : 0));
}

static void hint(const char *how, const struct step *step)
{
	int fd = descriptor(step, 1), kind = number(step, 4);
	off_t offset = number(step, 2), length = number(step, 3);
	if (strcmp(how, "fadvise") == 0) {
		errno = posix_fadvise(fd, offset, length, kind);
		outcome(errno == 0 ? 0 : -1);
	} else if (strcmp(how, "readahead") == 0)
		outcome(readahead(fd, offset, length));
	else
		outcome(sync_file_range(fd, offset, length, kind));
}
/* Makes all open files of this process durable. */

static void sync_all(void)
{
	int failed = 0;
	for (int i = 0; i < SLOTS; i++)
		if (slot[i] >= 0 && (fcntl(slot[i], F_GETFL) & O_PATH) == 0 && fsync(slot[i]) != 0)
			failed = errno;
	for (int i = 0; i < STREAMS; i++)
		if (stream[i] && fsync(fileno(stream[i])) != 0)
			failed = errno;
	errno = failed;
	outcome(failed ? -1 : 0);
}

/* Works on a file of this process only, and reads the shared files, while other processes do the same. */
static void own_work(const struct step *step)
{
	char name[5000], read_back[4096];
	snprintf(name, sizeof name, "%s/own-%s", root, word(step, 1));
	long rounds = number(step, 2), wrong = 0;
	int fd = open(name, O_RDWR | O_CREAT, 0600);
	for (long i = 0; i < rounds; i++) {
		long at = i % 7 * 4096;
		fill(4096, 'a' + (i + number(step, 1)) % 26);
		wrong += pwrite(fd, data, 4096, at) != 4096;
		wrong += pread(fd, read_back, 4096, at) != 4096 || memcmp(read_back, data, 4096) != 0;
	}
	counted(close(fd) < 0 ? -1 : wrong);
	say(" wrong");
}

static void close_step(const struct step *step)
{
	int index = (int)number(step, 1) & (SLOTS - 1);
	outcome(close(slot[index]));
	slot[index] = -1;
}

int file_step(const char *name, const struct step *step)
{
	if (strcmp(name, "open") == 0)
		open_step(step);
	else if (strcmp(name, "close") == 0)
		close_step(step);
	else if (strncmp(name, "dup", 3) == 0)
		duplicate(name, step);
	else if (strstr(name, "write") == name || strstr(name, "pwrite") == name || strcmp(name, "pappend") == 0)
		write_step(name, step);
	else if (strcmp(name, "fadvise") == 0 || strcmp(name, "readahead") == 0 || strcmp(name, "syncrange") == 0)
		hint(name, step);
	else if (strstr(name, "read") == name && strcmp(name, "readlink") != 0 || strstr(name, "pread") == name)
		read_step(name, step);
	else if (strcmp(name, "run") == 0)
		run_step(step);
	else if (strcmp(name, "lseek") == 0)
		seek(step);
	else if (strcmp(name, "ftruncate") == 0)
		outcome(ftruncate(descriptor(step, 1), number(step, 2)));
	else if (strcmp(name, "fsync") == 0)
		outcome(fsync(descriptor(step, 1)));
	else if (strcmp(name, "fdatasync") == 0)
		outcome(fdatasync(descriptor(step, 1)));
	else if (strcmp(name, "own") == 0)
		own_work(step);
	else if (strcmp(name, "fsyncs") == 0)
		sync_all();
	else if (strcmp(name, "syncfs") == 0)
		sync(), outcome(0);
	else if (strcmp(name, "mmap") == 0)
		map(step);
	else if (strcmp(name, "sendfile") == 0 || strcmp(name, "copy_file_range") == 0)
		transfer(name, step);
	else if (strcmp(name, "getfl") == 0 || strcmp(name, "getfd") == 0 || strcmp(name, "cloexec") == 0 || strcmp(name, "setfl") == 0)
		flags(name, step);
	else
		return 0;
	return 1;
}
