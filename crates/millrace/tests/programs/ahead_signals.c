/* Reads a file sequentially, and gives hints for blocks and reads them. Meanwhile a signal handler
 * does the same with its own descriptors. Each block of 8 KiB begins with its number. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { PIECE = 8192, PIECES = 1024 };
static int handlers, in_order, at_random;
static volatile sig_atomic_t inside, signals, failed;

static void block(int fd, long number, int seeks)
{
	long found[PIECE / sizeof(long)];
	ssize_t got = seeks ? pread(fd, found, PIECE, number * PIECE) : read(fd, found, PIECE);
	if (got != PIECE || found[0] != number || found[PIECE / sizeof(long) - 1] != number)
		failed = 1;
}

/* Sets the next signal. This is not an interval timer: on a slow processor a handler takes longer
 * than any interval, and the program would run nothing else. */
static void arm(void)
{
	struct itimerval once = { { 0, 0 }, { 0, 300 } };
	setitimer(ITIMER_REAL, &once, NULL);
}

static void handler(int signal)
{
	static long next;
	static unsigned chance = 1;
	(void)signal;
	if (inside++ < 2) {
		if (inside == 1)
			arm(); /* one more signal may interrupt this handler */
		for (int i = 0; i < 4; i++) {
			block(handlers, next++ % PIECES, 1);
			chance = chance * 1103515245 + 12345;
			long number = chance / 65536 % PIECES;
			posix_fadvise(handlers, number * PIECE, PIECE, POSIX_FADV_WILLNEED);
			block(handlers, number, 1);
		}
		signals++;
	}
	if (--inside == 0)
		arm();
}

int main(int count, char **names)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER };
	(void)count;
	handlers = open(names[1], O_RDONLY), in_order = open(names[1], O_RDONLY), at_random = open(names[1], O_RDWR);
	sigaction(SIGALRM, &action, NULL);
	arm();
	for (int round = 0; round < 3 || signals < 100; round++) {
		lseek(in_order, 0, SEEK_SET);
		for (long i = 0; i < PIECES; i++) {
			block(in_order, i, 0);
			free(malloc(i * 64)); /* a handler may not wait for the allocator's locks */
			if (i % 64 == 0)
				for (long j = 0; j < 64; j++)
					posix_fadvise(at_random, (i + j * 37) % PIECES * PIECE, PIECE, POSIX_FADV_WILLNEED);
			if (i % 64 < 32)
				block(at_random, (i / 64 * 64 + i % 64 * 37) % PIECES, 1);
		}
	}
	struct itimerval never = { 0 };
	setitimer(ITIMER_REAL, &never, NULL);
	puts(failed ? "wrong" : "right");
	return 0;
}
