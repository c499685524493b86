/* What a mount refuses by name (docs/compat/preload.md). These steps run on the mount only, and
 * change nothing. */
#include "actor.h"
#include <sys/xattr.h>

int refused_step(const char *name, const struct step *step)
{
	const char *what = word(step, 1);
	int fd = descriptor(step, 2);
	if (strcmp(name, "refused") != 0)
		return 0;
	struct stat found;
	if (fstat(fd, &found) != 0 || S_ISDIR(found.st_mode))
		say("free");
	else if (strcmp(what, "fallocate") == 0)
		outcome(fallocate(fd, 0, 0, 100));
	else if (strcmp(what, "fsetxattr") == 0)
		outcome(fsetxattr(fd, "user.x", "1", 1, 0));
	else if (strcmp(what, "tmpfile") == 0)
		outcome(open(".", O_TMPFILE | O_RDWR, 0600));
	else
		outcome(renameat2(AT_FDCWD, root, AT_FDCWD, root, RENAME_EXCHANGE));
	return 1;
}
