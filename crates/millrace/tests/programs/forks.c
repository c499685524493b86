/* Children of every kind of fork read and write a file at the same time as their parent's threads,
 * block by block, and check every block. Usage: forks FILE KIND ROUNDS. Prints each fault. The
 * status is 0 if there was no fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern pid_t _Fork(void);

enum { BLOCK = 8192, SHARE = 64, THREADS = 3, SECONDS_MAX = 40 };

static int fd;
static const char *path;
static unsigned rounds;
static atomic_int stop;
static atomic_int wrong; /* in this process's memory */

static void say(const char *who, const char *what, unsigned block, long detail)
{
	char line[160];
	int length = snprintf(line, sizeof line, "%s (pid %d): %s, block %u: %ld\n", who, (int)getpid(), what, block, detail);
	if (syscall(SYS_write, 1, line, length) < 0)
		_exit(99);
	wrong++;
}

/* Each user has SHARE blocks of its own. The blocks of user u begin at u * SHARE. */
static int put(uint64_t *buffer, unsigned block, uint64_t version)
{
	for (int at = 0; at < BLOCK / 8; at++)
		buffer[at] = (uint64_t)block << 32 | version;
	return pwrite(fd, buffer, BLOCK, (off_t)block * BLOCK) == BLOCK;
}

static int differs(const uint64_t *buffer, unsigned block, uint64_t version)
{
	for (int at = 0; at < BLOCK / 8; at++)
		if (buffer[at] != ((uint64_t)block << 32 | version))
			return 1;
	return 0;
}

/* Reads and writes the blocks of one user. Only this user writes them. */
static void work(const char *who, unsigned user, uint64_t *versions, unsigned count, atomic_int *until)
{
	uint64_t buffer[BLOCK / 8];
	struct timespec pause = {0, 1000000};
	unsigned seed = user + 1;
	for (unsigned round = 0; count ? round < count : !atomic_load(until); round++) {
		unsigned number = rand_r(&seed) % SHARE, block = user * SHARE + number;
		if (round % 3 == 0 && !put(buffer, block, ++versions[number]))
			say(who, "pwrite", block, errno);
		memset(buffer, 0xee, sizeof buffer);
		ssize_t got = pread(fd, buffer, BLOCK, (off_t)block * BLOCK);
		if (got != BLOCK)
			say(who, "pread", block, got < 0 ? errno : got);
		else if (differs(buffer, block, versions[number]))
			say(who, "holds another's bytes", block, (long)(buffer[0] >> 32));
		if (wrong > 8)
			break;
		if (!count)
			nanosleep(&pause, NULL); /* so that a thread does not always hold what only one may have at a time */
	}
	if (fsync(fd) != 0)
		say(who, "fsync", 0, errno);
}

static uint64_t versions[THREADS + 3][SHARE];

static void *thread(void *number)
{
	work("thread", (unsigned)(uintptr_t)number, versions[(uintptr_t)number], 0, &stop);
	return NULL;
}

/* Reads within the read or write that it interrupts, and sets the next signal for some time later. */
static void on_alarm(int signal)
{
	struct itimerval soon = {{0, 0}, {0, 2000}};
	uint64_t buffer[BLOCK / 8];
	unsigned block = (THREADS + 2) * SHARE + signal;
	int before = errno;
	if (pread(fd, buffer, BLOCK, (off_t)block * BLOCK) != BLOCK || differs(buffer, block, 0))
		say("handler", "pread", block, (long)(buffer[0] >> 32));
	setitimer(ITIMER_REAL, &soon, NULL);
	errno = before;
}

/* The work of a child: its own blocks, under signals, and names. */
static int child(void *shares_memory)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval soon = {{0, 0}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	if (!shares_memory)
		wrong = 0; /* the parent reports what it has found */
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	work("child", THREADS + 1, versions[THREADS + 1], rounds, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	char name[4096];
	snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
	int own = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (own < 0)
		say("child", "open", 0, errno);
	else if (write(own, name, 100) != 100 || close(own) != 0 || unlink(name) != 0)
		say("child", "write, close, unlink", 0, errno);
	return wrong != 0;
}

#ifdef __x86_64__
static long bare(long number, long a, long b, long c, long d, long e)
{
	long answer;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	__asm__ volatile("syscall" : "=a"(answer) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return answer;
}
#endif

static char *stack_end(void)
{
	size_t bytes = 1 << 20;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		abort();
	return stack + bytes;
}

/* Forks in the way of `kind`. Returns -2 for an unknown kind. With a kind that runs `child` by
 * itself, it never returns 0. */
static pid_t make(const char *kind)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	if (!strcmp(kind, "fork"))
		return fork();
	if (!strcmp(kind, "_Fork"))
		return _Fork();
	if (!strcmp(kind, "clone"))
		return clone(child, stack_end(), SIGCHLD, NULL);
	if (!strcmp(kind, "clone_files"))
		return clone(child, stack_end(), CLONE_FILES | SIGCHLD, NULL);
	if (!strcmp(kind, "clone_vm_vfork"))
		return clone(child, stack_end(), CLONE_VM | CLONE_VFORK | SIGCHLD, &stop);
	if (!strcmp(kind, "clone_vm_files"))
		return clone(child, stack_end(), CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &stop);
#ifdef SYS_fork
	if (!strcmp(kind, "SYS_fork"))
		return syscall(SYS_fork);
	if (!strcmp(kind, "SYS_vfork"))
		return syscall(SYS_vfork);
#endif
	if (!strcmp(kind, "SYS_clone"))
		return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!strcmp(kind, "SYS_clone_vfork"))
		return syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	if (!strcmp(kind, "SYS_clone3"))
		return syscall(SYS_clone3, &args, sizeof args);
	if (!strcmp(kind, "SYS_clone3_vfork")) {
		args.flags = CLONE_VM | CLONE_VFORK;
		return syscall(SYS_clone3, &args, sizeof args);
	}
#ifdef __x86_64__
	if (!strcmp(kind, "bare_fork"))
		return bare(SYS_fork, 0, 0, 0, 0, 0);
	if (!strcmp(kind, "bare_clone_files"))
		return bare(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (!strcmp(kind, "bare_clone3"))
		return bare(SYS_clone3, (long)&args, sizeof args, 0, 0, 0);
#endif
	return -2;
}

/* Waits for a child. Returns its status, or -1 if it does not end. */
static int ended(pid_t pid)
{
	struct timespec pause = {0, 5000000};
	int status;
	for (int turn = 0; turn < SECONDS_MAX * 200; turn++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

int main(int count, char **words)
{
	uint64_t buffer[BLOCK / 8];
	pthread_t threads[THREADS];
	if (count != 4)
		return 2;
	path = words[1];
	rounds = (unsigned)atoi(words[3]);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (unsigned block = 0; block < (THREADS + 3) * SHARE; block++)
		if (!put(buffer, block, 0))
			return 3;
	for (int turn = 0; turn < 4; turn++) {
		work("parent", THREADS, versions[THREADS], 20, NULL);
		for (unsigned number = 0; number < SHARE; number++)
			if (!put(buffer, (THREADS + 1) * SHARE + number, versions[THREADS + 1][number] = 0))
				say("parent", "pwrite", number, errno);
		pid_t pid = make(words[2]);
		if (pid == 0)
			_exit(child(NULL));
		if (pid < 0) {
			say("parent", pid == -2 ? "no such kind of fork" : "fork", 0, errno);
			_exit(1);
		}
		work("parent", THREADS, versions[THREADS], rounds, NULL);
		int status = ended(pid);
		if (status != 0)
			say("parent", status == -1 ? "the child does not end" : "the child's status", 0, status);
		if (turn == 0) /* the first child had no threads: these must not use the connections it made */
			for (uintptr_t number = 0; number < THREADS; number++)
				pthread_create(&threads[number], NULL, thread, (void *)number);
		if (wrong)
			break;
	}
	atomic_store(&stop, 1);
	for (int number = 0; number < THREADS; number++)
		pthread_join(threads[number], NULL);
	return wrong != 0;
}
