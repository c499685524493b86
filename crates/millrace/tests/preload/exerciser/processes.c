/* Steps on processes: forks of every kind, exec, the end, and unmodified programs. */
#include "actor.h"
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static pid_t forked(const char *kind)
{
	if (strcmp(kind, "fork") == 0)
		return fork();
	if (strcmp(kind, "_Fork") == 0)
		return _Fork();
	if (strcmp(kind, "syscall") == 0)
		return (pid_t)syscall(SYS_fork);
	if (strcmp(kind, "clone") == 0)
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (strcmp(kind, "clone3") == 0) {
		struct clone_args how = {.exit_signal = SIGCHLD};
		return (pid_t)syscall(SYS_clone3, &how, sizeof how);
	}
	/* As a language runtime or a static library of the program would fork. */
	return (pid_t)raw_call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

static pid_t spawned(int connection)
{
	char slots[256] = "", connected[16], where[2] = {'0' + !!on_mount, 0};
	for (int i = 0, used = 0; i < SLOTS; i++)
		if (slot[i] >= 0)
			used += snprintf(slots + used, sizeof slots - used, "%d:%d,", i, slot[i]);
	snprintf(connected, sizeof connected, "%d", connection);
	raw_call(SYS_fcntl, connection, F_SETFD, 0, 0, 0, 0);
	char *arguments[] = {"actor", "go", connected, root, where, slots, NULL};
	pid_t pid;
	int error = posix_spawn(&pid, getenv("EXERCISER_ACTOR"), NULL, NULL, arguments, environ);
	errno = error;
	return error ? -1 : pid;
}

static void fork_step(const struct step *step)
{
	const char *kind = word(step, 2);
	int connection = connect_for(word(step, 1));
	pid_t pid;
	if (strcmp(kind, "spawn") == 0) {
		pid = spawned(connection);
	} else if (strcmp(kind, "vfork") == 0) {
		pid = vfork();
		if (pid == 0)
			execute(connection);
	} else {
		pid = forked(strcmp(kind, "exec") == 0 ? "fork" : kind);
		if (pid == 0 && strcmp(kind, "exec") == 0)
			execute(connection);
		if (pid == 0) {
			raw_call(SYS_close, control, 0, 0, 0, 0, 0);
			control = connection;
			forked_unseen |= strcmp(kind, "fork") != 0 || used_aio;
			serve();
		}
	}
	outcome(pid);
	if (pid > 0)
		say("\t%d", pid);
	raw_call(SYS_close, connection, 0, 0, 0, 0, 0);
}

/* A command for a shell. Its underscores become spaces. */
static void shell(const struct step *step)
{
	char command[1024];
	snprintf(command, sizeof command, "exec 2>/dev/null; %s", word(step, 1));
	for (char *at = command; *at; at++)
		if (*at == '_')
			*at = ' ';
	signal(SIGCHLD, SIG_DFL);
	int status = system(command);
	signal(SIGCHLD, SIG_IGN);
	say("%d", WIFEXITED(status) ? WEXITSTATUS(status) : -status);
}

int process_step(const char *name, const struct step *step)
{
	if (strcmp(name, "fork") == 0)
		fork_step(step);
	else if (strcmp(name, "exec") == 0)
		execute(control);
	else if (strcmp(name, "exit") == 0)
		exit(0);
	else if (strcmp(name, "_exit") == 0)
		_exit(0);
	else if (strcmp(name, "die") == 0)
		raise(SIGKILL);
	else if (strcmp(name, "alive") == 0)
		for (int i = 0; i < SLOTS; i++)
			say("%s", slot[i] < 0 ? "-" : "+");
	else if (strcmp(name, "sh") == 0)
		shell(step);
	else
		return 0;
	return 1;
}
