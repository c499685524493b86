/* What the files of the actor share: the state of one process of a program, and how a step's result is said. */
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

/* Descriptors and streams of the program, by number of the slot; -1 and NULL are free. */
extern int slot[SLOTS];
extern FILE *stream[STREAMS];
/* The program's directory, and whether it lies on a mount. */
extern char root[4096];
extern int on_mount;
/* Connection to the driver. */
extern int control;
/* Whether this process, or one it came from, was forked behind libc's back: what uses libc's threads may hang for ever then. */
extern int forked_unseen;
/* Whether it used libc's asynchronous I/O: a child of fork believes that its parent's threads are there, and hangs. */
extern int used_aio;
/* Where data is read into and written from; aligned for O_DIRECT. */
extern char *data;

struct step {
	int count;
	char *word[WORDS_MAX];
};

/* Appends to the result of the step. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The result of a call that returned -1, or that it succeeded. */
void outcome(long returned);
/* The same with the number it returned. */
void counted(long returned);
/* `count` bytes of `data`, runs shortened, and their hash. */
void show(const char *bytes, long count);
/* Fills `data` for a write: the letter, and every 64th byte tells which it is. */
void fill(long count, char letter);
/* Words of a step; what is missing is 0 or "". */
const char *word(const struct step *step, int index);
long number(const struct step *step, int index);
/* Descriptor in the slot that a word names; -1 when it is free. */
int descriptor(const struct step *step, int index);
/* A path of the program: relative, `/…` from its directory, or `@slot/…` relative to a descriptor. */
const char *path(const struct step *step, int index, int *directory);
/* open flags of words joined by `+`. */
int open_flags(const char *words);
/* A system call by an instruction of our own, which no library sees. */
long raw_call(long call, long a, long b, long c, long d, long e, long f);
/* Whether a descriptor just returned is the lowest that was free. */
int lowest_free(void);
/* Puts a new descriptor into a slot and says so. */
void keep(const struct step *step, int index, int fd, int lowest);

/* Each tries the step and returns 0 when it is none of its own. */
int file_step(const char *name, const struct step *step);
int name_step(const char *name, const struct step *step);
int stream_step(const char *name, const struct step *step);
int lock_step(const char *name, const struct step *step);
int process_step(const char *name, const struct step *step);
int more_step(const char *name, const struct step *step);
int map_step(const char *name, const struct step *step);
int refused_step(const char *name, const struct step *step);

/* A connection of its own for the process of that number, made by this one. */
int connect_for(const char *process);
/* Runs the steps of a process until it is told to end. */
void serve(void);
/* Becomes the actor again by exec, with the descriptors it has. */
void execute(int connection);
