/* Steps on one shared mapping per process: create, store, read, msync and unmap it. */
#include "actor.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static char *mapped;
static long mapped_bytes;
static int may_store, mapped_file = -1;
static sigjmp_buf beyond;

static void caught(int number)
{
	siglongjmp(beyond, number);
}

static void share(const struct step *step)
{
	int fd = descriptor(step, 1);
	struct stat found;
	if (mapped || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) {
		say("nothing to map");
		return;
	}
	may_store = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	char *made = mmap(NULL, found.st_size, may_store ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	outcome(made == MAP_FAILED ? -1 : 0);
	if (made == MAP_FAILED)
		return;
	mapped = made, mapped_bytes = found.st_size;
	mapped_file = fcntl(fd, F_DUPFD_CLOEXEC, 200);
}

/* Number of bytes of the mapping that are in the file now. Bytes after the file's end belong to no file. */
static long bytes_there(void)
{
	struct stat found;
	if (fstat(mapped_file, &found) != 0)
		return 0;
	return found.st_size < mapped_bytes ? found.st_size : mapped_bytes;
}

static void store(const struct step *step)
{
	long at = number(step, 1), there = bytes_there();
	if (at >= there || !may_store)
		say("nowhere to store");
	else
		mapped[at] = word(step, 2)[0], outcome(0);
}

static void look(void)
{
	long there = bytes_there();
	show(mapped, there);
	long behind = (there + 4095) / 4096 * 4096;
	if (behind >= mapped_bytes)
		return;
	int number = sigsetjmp(beyond, 1);
	if (number == 0)
		say(" %d behind the end", mapped[behind]);
	else
		say(" %s behind the end", number == SIGBUS ? "SIGBUS" : "SIGSEGV");
}

static void end(void)
{
	outcome(munmap(mapped, mapped_bytes));
	close(mapped_file);
	mapped = NULL, mapped_file = -1;
}

int map_step(const char *name, const struct step *step)
{
	if (strcmp(name, "share") != 0 && strcmp(name, "store") != 0 && strcmp(name, "look") != 0 && strcmp(name, "msync") != 0 &&
	    strcmp(name, "unshare") != 0)
		return 0;
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_NODEFER};
	sigaction(SIGBUS, &action, NULL);
	if (name[0] == 's' && name[1] == 'h')
		share(step);
	else if (!mapped)
		say("no mapping");
	else if (strcmp(name, "store") == 0)
		store(step);
	else if (strcmp(name, "look") == 0)
		look();
	else if (strcmp(name, "msync") == 0)
		outcome(msync(mapped, mapped_bytes, MS_SYNC));
	else
		end();
	return 1;
}
