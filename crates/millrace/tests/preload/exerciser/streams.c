/* Steps on C streams. Between a read and a write the actor seeks to the present offset, because the
 * C standard requires that. */
#include "actor.h"

static char last[STREAMS];

static FILE *taken(const struct step *step)
{
	return stream[number(step, 1) & (STREAMS - 1)];
}

static void turn(const struct step *step, char direction)
{
	int index = (int)number(step, 1) & (STREAMS - 1);
	if (last[index] && last[index] != direction)
		fseek(stream[index], 0, SEEK_CUR);
	last[index] = direction;
}

static char buffer[STREAMS][4096];

/* The buffer's size decides what other processes see of unflushed data, so it is the same on every
 * file system (known.rs, `stream buffers`). */
static void opened(const struct step *step, FILE *fresh)
{
	int index = (int)number(step, 1) & (STREAMS - 1);
	stream[index] = fresh;
	last[index] = 0;
	outcome(fresh ? 0 : -1);
	if (fresh)
		setvbuf(fresh, buffer[index], _IOFBF, sizeof buffer[index]);
}

static void flags_of(FILE *file)
{
	say("%s%s", feof(file) ? " eof" : "", ferror(file) ? " error" : "");
}

static void open_stream(const char *name, const struct step *step)
{
	int directory, index = (int)number(step, 2) & (SLOTS - 1);
	if (strcmp(name, "fopen") == 0) {
		opened(step, fopen(path(step, 2, &directory), word(step, 3)));
	} else {
		FILE *fresh = fdopen(slot[index], word(step, 3));
		if (fresh)
			slot[index] = -1;
		opened(step, fresh);
	}
}

static void reopen(const struct step *step)
{
	int directory;
	const char *name = word(step, 2)[0] == '-' ? NULL : path(step, 2, &directory);
	opened(step, freopen(name, word(step, 3), taken(step)));
}

static void data_step(const char *name, const struct step *step, FILE *file)
{
	long count = number(step, 2);
	if (strcmp(name, "fwrite") == 0) {
		turn(step, 'w');
		fill(count, word(step, 3)[0]);
		say("%zu", fwrite(data, 1, count, file));
	} else if (strcmp(name, "fputc") == 0) {
		turn(step, 'w');
		say("%d", fputc(word(step, 2)[0], file));
	} else if (strcmp(name, "fprintf") == 0) {
		turn(step, 'w');
		say("%d", fprintf(file, "<%ld>\n", count));
	} else if (strcmp(name, "fread") == 0) {
		/* Known.rs, `end of file`. */
		if (feof(file) && count >= (long)sizeof buffer[0])
			clearerr(file);
		turn(step, 'r');
		long got = (long)fread(data, 1, count, file);
		say("%ld", got);
		show(data, got);
	} else if (strcmp(name, "fgetc") == 0) {
		turn(step, 'r');
		say("%d", fgetc(file));
	} else {
		turn(step, 'r');
		int got = fgetc(file);
		say("%d", got < 0 ? got : ungetc(got, file));
	}
	flags_of(file);
}

static void position(const char *name, const struct step *step, FILE *file)
{
	const char *from = word(step, 3);
	if (strcmp(name, "fseek") == 0) {
		last[number(step, 1) & (STREAMS - 1)] = 0;
		outcome(fseek(file, number(step, 2), from[0] == 's' ? SEEK_SET : from[0] == 'c' ? SEEK_CUR : SEEK_END));
	} else if (strcmp(name, "ftell") == 0)
		counted(ftell(file));
	else if (strcmp(name, "rewind") == 0) {
		last[number(step, 1) & (STREAMS - 1)] = 0;
		rewind(file);
		say("done");
	} else if (strcmp(name, "fdpos") == 0) {
		counted(lseek(fileno(file), 0, SEEK_CUR));
		say(" %o", fcntl(fileno(file), F_GETFL) & (O_ACCMODE | O_APPEND));
	} else
		outcome(fflush(file));
	flags_of(file);
}

int stream_step(const char *name, const struct step *step)
{
	static const char *const datas[] = {"fwrite", "fputc", "fprintf", "fread", "fgetc", "ungetc"};
	static const char *const positions[] = {"fseek", "ftell", "rewind", "fdpos", "fflush"};
	int opens = strcmp(name, "fopen") == 0 || strcmp(name, "fdopen") == 0;
	if (opens && taken(step))
		return say("busy"), 1;
	if (opens)
		return open_stream(name, step), 1;
	if (strcmp(name, "flushall") == 0)
		return outcome(fflush(NULL)), 1;
	for (unsigned i = 0; i < sizeof datas / sizeof *datas; i++)
		if (strcmp(name, datas[i]) == 0)
			return taken(step) ? data_step(name, step, taken(step)) : say("free"), 1;
	for (unsigned i = 0; i < sizeof positions / sizeof *positions; i++)
		if (strcmp(name, positions[i]) == 0)
			return taken(step) ? position(name, step, taken(step)) : say("free"), 1;
	if (strcmp(name, "freopen") == 0)
		return taken(step) ? reopen(step) : say("free"), 1;
	if (strcmp(name, "fclose") != 0)
		return 0;
	if (!taken(step))
		return say("free"), 1;
	outcome(fclose(taken(step)));
	stream[number(step, 1) & (STREAMS - 1)] = NULL;
	return 1;
}
