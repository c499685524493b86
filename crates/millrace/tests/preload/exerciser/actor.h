/* Shared declarations of the actor: the state of one process of a program, and how it reports a
 * step's result. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { SLOTS = 8, STREAMS = 4, WORDS_MAX = 12, TEXT_MAX = 65536, DATA_MAX = 1 << 22 };

/* Descriptors and streams of the program, by slot number. A free slot has -1 or NULL. */
extern int slot[SLOTS];
extern FILE *stream[STREAMS];
/* The program's directory, and whether it is on a mount. */
extern char root[4096];
extern int on_mount;
/* The connection to the driver. */
extern int control;
/* Whether libc did not see a fork of this process or of an ancestor. Functions that use libc's
 * threads may then hang. */
extern int forked_unseen;
/* Whether it used libc's asynchronous I/O. A child of fork then assumes that its parent's threads
 * exist, and hangs. */
extern int used_aio;
/* Buffer for reads and writes, aligned for O_DIRECT. */
extern char *data;

struct step {
	int count;
	char *word[WORDS_MAX];
};

/* Appends to the result of the step. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reports the error of a call that returned -1, or its success. */
void outcome(long returned);
/* The same with the returned number. */
void counted(long returned);
/* Reports `count` bytes, with repetitions shortened, and their hash. */
void show(const char *bytes, long count);
/* Fills `data` for a write with the letter. Every 64th byte says which it is. */
void fill(long count, char letter);
/* Words of a step. A missing word is "" or 0. */
const char *word(const struct step *step, int index);
long number(const struct step *step, int index);
/* The descriptor in the slot that a word names, or -1 if the slot is free. */
int descriptor(const struct step *step, int index);
/* A path of the program: relative, `/…` from its directory, or `@slot/…` relative to a descriptor. */
const char *path(const struct step *step, int index, int *directory);
/* The flags of open(2) from words joined by `+`. */
int open_flags(const char *words);
/* A system call by the actor's own instruction, which no library sees. */
long raw_call(long call, long a, long b, long c, long d, long e, long f);
/* The lowest free descriptor. */
int lowest_free(void);
/* Puts a new descriptor into a slot and reports it. */
void keep(const struct step *step, int index, int fd, int lowest);

/* Each function executes the step if it is one of its own, and otherwise returns 0. */
int file_step(const char *name, const struct step *step);
int name_step(const char *name, const struct step *step);
int stream_step(const char *name, const struct step *step);
int lock_step(const char *name, const struct step *step);
int process_step(const char *name, const struct step *step);
int more_step(const char *name, const struct step *step);
int map_step(const char *name, const struct step *step);
int refused_step(const char *name, const struct step *step);

/* Creates the connection of the process with this number. */
int connect_for(const char *process);
/* Executes the steps of a process until the driver ends it. */
void serve(void);
/* Executes the actor again by exec, with its descriptors. */
void execute(int connection);
