/* posix_spawn with files and directories (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <spawn.h>
#include <sys/stat.h>

extern char **environ;

/* Prints its result, and the exit status of the program that it started. */
static void spawn(const posix_spawn_file_actions_t *actions, const char *script)
{
	char *const arguments[] = {"sh", "-c", (char *)script, NULL};
	int status = -1;
	pid_t pid;
	int error = posix_spawnp(&pid, "sh", actions, NULL, arguments, environ);
	if (error == 0)
		waitpid(pid, &status, 0);
	tell(" spawn %s: %s, status %d", script, error ? strerrorname_np(error) : "done", status);
}

static int descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 900; fd++) /* above that the library has its own descriptors: sockets and locks */
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void opens(void)
{
	posix_spawn_file_actions_t actions;
	put("in", "first\nsecond\n");
	int before = descriptors();
	T(posix_spawn_file_actions_init(&actions));
	T(posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0));
	T(posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0640));
	T(posix_spawn_file_actions_adddup2(&actions, 1, 2));
	T(posix_spawn_file_actions_addopen(&actions, 9, "log", O_WRONLY | O_CREAT | O_APPEND, 0600));
	/* A spawn opens the files, and each spawn opens them again. */
	E(access("out", F_OK));
	spawn(&actions, "read line; echo got $line; echo error >&2; echo log >&9");
	tell_file("out"), tell_file("log");
	spawn(&actions, "read line; echo again $line; echo log >&9");
	tell_file("out"), tell_file("log");
	T(unlink("in"));
	spawn(&actions, "echo never");
	tell_file("out");
	T(posix_spawn_file_actions_destroy(&actions));
	T(descriptors() - before);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, "made", O_WRONLY | O_CREAT | O_EXCL, 0600));
	spawn(&actions, "echo made");
	tell_file("made");
	spawn(&actions, "echo never");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, "none/x", O_WRONLY | O_CREAT, 0600));
	spawn(&actions, "echo never");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, ".", O_WRONLY, 0600));
	spawn(&actions, "echo never");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, "closed", O_WRONLY | O_CREAT, 0600));
	T(posix_spawn_file_actions_addclose(&actions, 1));
	spawn(&actions, "echo to a closed descriptor");
	tell_file("closed");
	posix_spawn_file_actions_destroy(&actions);
	E(posix_spawn_file_actions_addopen(&actions, -1, "x", O_RDONLY, 0));
	T(descriptors() - before);
	spawn(NULL, "exit 7");
}

static void directories(void)
{
	posix_spawn_file_actions_t actions;
	char here[4096];
	mkdir("d", 0755), mkdir("d/e", 0755);
	int folder = open("d", O_RDONLY | O_DIRECTORY);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, "before", O_WRONLY | O_CREAT, 0600));
	T(posix_spawn_file_actions_addchdir_np(&actions, "d"));
	spawn(&actions, "echo in d; echo x > made");
	tell_file("before"), tell_file("d/made");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addfchdir_np(&actions, folder));
	spawn(&actions, "echo y > e/made");
	tell_file("d/e/made");
	posix_spawn_file_actions_destroy(&actions);
	/* After a change to a directory of this host, relative paths are on this host. */
	snprintf(here, sizeof here, "%s/relative", local);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addchdir_np(&actions, local));
	T(posix_spawn_file_actions_addopen(&actions, 1, "relative", O_WRONLY | O_CREAT, 0600));
	spawn(&actions, "echo here");
	E(access("relative", F_OK));
	E(access(here, F_OK));
	unlink(here);
	posix_spawn_file_actions_destroy(&actions);
}

/* A relative path after a change to a directory of a mount: the right file, or an error, and never
 * another file. */
static void relative(void)
{
	posix_spawn_file_actions_t actions;
	mkdir("d", 0755);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addchdir_np(&actions, "d");
	E(posix_spawn_file_actions_addopen(&actions, 1, "x", O_WRONLY | O_CREAT, 0600));
	E(posix_spawn_file_actions_addchdir_np(&actions, ".."));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addfchdir_np(&actions, open("d", O_RDONLY | O_DIRECTORY));
	int error = posix_spawn_file_actions_addopen(&actions, 1, "x", O_WRONLY | O_CREAT, 0600);
	tell(" after fchdir: %s", strerrorname_np(error));
	/* A new list in the same memory has none of the old state. */
	posix_spawn_file_actions_destroy(&actions);
	posix_spawn_file_actions_init(&actions);
	T(posix_spawn_file_actions_addopen(&actions, 1, "x", O_WRONLY | O_CREAT, 0600));
	spawn(&actions, "echo here");
	tell_file("x");
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"opens", opens}, {"directories", directories}, {"relative", relative}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
