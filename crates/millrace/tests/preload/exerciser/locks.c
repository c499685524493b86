/* Steps on locks. No step waits for a lock. */
#include "actor.h"
#include <sys/file.h>

static void record_lock(const char *name, const struct step *step)
{
	const char *kind = word(step, 2), *from = word(step, 5);
	struct flock lock = {
		.l_type = kind[0] == 'r' ? F_RDLCK : kind[0] == 'w' ? F_WRLCK : F_UNLCK,
		.l_whence = from[0] == 'c' ? SEEK_CUR : from[0] == 'e' ? SEEK_END : SEEK_SET,
		.l_start = number(step, 3),
		.l_len = number(step, 4),
	};
	int open_file = name[0] == 'o', asks = name[1] == 'g' || name[0] == 'g';
	int command = asks ? (open_file ? F_OFD_GETLK : F_GETLK) : (open_file ? F_OFD_SETLK : F_SETLK);
	int status = fcntl(descriptor(step, 1), command, &lock);
	outcome(status);
	if (status != 0 || !asks)
		return;
	say(" %s", lock.l_type == F_UNLCK ? "free" : lock.l_type == F_RDLCK ? "read" : "write");
	if (lock.l_type != F_UNLCK)
		say(" %ld+%ld #%d", (long)lock.l_start, (long)lock.l_len, lock.l_pid);
}

int lock_step(const char *name, const struct step *step)
{
	struct stat found;
	if (strcmp(name, "flock") == 0 && fstat(descriptor(step, 1), &found) == 0 && S_ISDIR(found.st_mode)) {
		say("a directory"); /* known.rs, `directory locks` */
	} else if (strcmp(name, "flock") == 0) {
		const char *kind = word(step, 2);
		outcome(flock(descriptor(step, 1), (kind[0] == 's' ? LOCK_SH : kind[0] == 'e' ? LOCK_EX : LOCK_UN) | LOCK_NB));
	} else if (strcmp(name, "setlk") == 0 || strcmp(name, "getlk") == 0 || strcmp(name, "osetlk") == 0 || strcmp(name, "ogetlk") == 0)
		record_lock(name, step);
	else
		return 0;
	return 1;
}
