// What mmap(2) promises for MAP_SHARED, line by line. The output must be the same in a directory of
// the host and on a mount.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static sigjmp_buf out;
static void caught(int signal) { siglongjmp(out, signal); }

static const char *touch(volatile char *at) {
	int signal = sigsetjmp(out, 1);
	if (signal == 0) { (void)*at; return "read"; }
	return signal == SIGBUS ? "SIGBUS" : "SIGSEGV";
}

static const char *store(volatile char *at) {
	int signal = sigsetjmp(out, 1);
	if (signal == 0) { *at = 'x'; return "stored"; }
	return signal == SIGBUS ? "SIGBUS" : "SIGSEGV";
}

static int make(const char *name, int pages) {
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	char page[PAGE];
	for (int n = 0; n < pages; n++) {
		memset(page, 'a' + n, PAGE);
		if (write(fd, page, PAGE) != PAGE) abort();
	}
	return fd;
}

static char *map(int fd, size_t bytes, int protection, off_t offset) {
	return mmap(NULL, bytes, protection, MAP_SHARED, fd, offset);
}

// The result of a call that returns 0, or -1 with an error.
static const char *outcome(int answer) { return answer == 0 ? "done" : strerrorname_np(errno); }

static const char *failed(void *at) { return at == MAP_FAILED ? strerrorname_np(errno) : "mapped"; }

static char at_file(const char *name, off_t offset) {
	char byte = '-';
	int fd = open(name, O_RDONLY);
	if (pread(fd, &byte, 1, offset) != 1) byte = '0';
	close(fd);
	return byte;
}

// Runs code in a child, and returns the child's exit status.
#define IN_CHILD(code) ({ pid_t pid = fork(); if (pid == 0) { code; } int status; waitpid(pid, &status, 0); WEXITSTATUS(status); })

static void refusals(void) {
	int fd = make("refused", 2);
	int reads = open("refused", O_RDONLY), writes = open("refused", O_WRONLY);
	printf("write to O_RDONLY %s\n", failed(map(reads, PAGE, PROT_READ | PROT_WRITE, 0)));
	printf("O_WRONLY %s\n", failed(map(writes, PAGE, PROT_WRITE, 0)));
	printf("offset %s\n", failed(map(fd, PAGE, PROT_READ, 100)));
	printf("nothing %s\n", failed(map(fd, 0, PROT_READ, 0)));
	printf("validate %s\n", failed(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE, fd, 0)));
	// Programs make this call to find out whether a file is in persistent memory.
	printf("sync %s\n", failed(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0)));
	char *m = map(reads, PAGE, PROT_READ, 0);
	printf("mprotect %s\n", outcome(mprotect(m, PAGE, PROT_READ | PROT_WRITE)));
	printf("store %s\n", store(m));
	close(fd), close(reads), close(writes);
}

static void coherence(void) {
	int fd = make("coherent", 4);
	char *m = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, 0), byte;
	printf("first %c %c\n", m[0], m[4 * PAGE - 1]);
	m[10] = 'X';
	pread(fd, &byte, 1, 10);
	printf("a store is read %c\n", byte);
	printf("by another process %c\n", IN_CHILD(execlp("sh", "sh", "-c", "exit $(dd if=coherent bs=1 skip=10 count=1 2>/dev/null | od -An -tu1)", NULL)));
	pwrite(fd, "YZ", 2, PAGE + 5);
	printf("a write is seen %c%c\n", m[PAGE + 5], m[PAGE + 6]);
	printf("of another process %d", IN_CHILD(execlp("sh", "sh", "-c", "printf WW | dd of=coherent bs=1 seek=20 conv=notrunc 2>/dev/null", NULL)));
	printf(" %c%c\n", m[20], m[21]);
	int again = open("coherent", O_RDWR | O_APPEND);
	write(again, "tail", 4);
	printf("store beside a write %c%c\n", m[10], m[11]);
	char *longer = map(again, 5 * PAGE, PROT_READ, 0);
	printf("an append is there %.4s\n", longer + 4 * PAGE);
	printf("msync %d\n", msync(m, 4 * PAGE, MS_SYNC));
	printf("async %d\n", msync(m, 4 * PAGE, MS_ASYNC));
	printf("bad flags %s\n", outcome(msync(m, PAGE, MS_SYNC | MS_ASYNC)));
	struct stat found;
	fstat(fd, &found);
	printf("size %ld\n", (long)found.st_size);
	close(fd), close(again);
	m[30] = 'C';
	printf("closed, and lives on %c %c\n", m[30], at_file("coherent", 30));
	munmap(m, 4 * PAGE), munmap(longer, 5 * PAGE);
	printf("unmapped %c %c\n", at_file("coherent", 30), at_file("coherent", 10));
}

static void sizes(void) {
	int fd = make("sizes", 3);
	char *m = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, 0);
	printf("beyond the end %s\n", touch(m + 3 * PAGE));
	ftruncate(fd, PAGE + 100);
	printf("cut %s %s %s\n", touch(m + PAGE), touch(m + 2 * PAGE), store(m + 2 * PAGE));
	printf("zeroes behind the end %d\n", m[PAGE + 100]);
	m[PAGE + 200] = 'b';
	ftruncate(fd, 4 * PAGE);
	printf("longer %s %d\n", touch(m + 3 * PAGE), m[3 * PAGE]);
	m[3 * PAGE] = 'N';
	printf("stored in it %c\n", at_file("sizes", 3 * PAGE));
	truncate("sizes", 10);
	printf("by name %s %c\n", touch(m + PAGE), m[5]);
	int again = open("sizes", O_RDWR | O_TRUNC);
	printf("O_TRUNC %s\n", touch(m));
	write(again, "new", 3);
	printf("new %.3s\n", m);
	close(fd), close(again), munmap(m, 4 * PAGE);
}

static void parts(void) {
	int fd = make("parts", 6);
	char *m = map(fd, 6 * PAGE, PROT_READ | PROT_WRITE, 0);
	munmap(m + 2 * PAGE, PAGE);
	m[0] = '0', m[3 * PAGE] = '3';
	printf("a hole %s %s\n", touch(m + PAGE), touch(m + 2 * PAGE));
	printf("msync of a hole %s\n", outcome(msync(m, 6 * PAGE, MS_SYNC)));
	printf("msync %d %d\n", msync(m, 2 * PAGE, MS_SYNC), msync(m + 3 * PAGE, PAGE, MS_SYNC));
	char *moved = mremap(m + 3 * PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	moved[2 * PAGE] = '5';
	printf("mremap %c %c %c\n", moved[0], moved[PAGE], at_file("parts", 5 * PAGE));
	printf("msync moved %d\n", msync(moved, 3 * PAGE, MS_SYNC));
	char *fixed = mmap(m, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	printf("replaced %d %c\n", fixed[0], at_file("parts", 0));
	char *tail = map(fd, PAGE, PROT_READ, 4 * PAGE);
	printf("from an offset %c\n", tail[0]);
	mprotect(tail, PAGE, PROT_READ | PROT_WRITE);
	tail[1] = 'T';
	printf("mprotect %c %c\n", at_file("parts", 4 * PAGE + 1), moved[PAGE + 1]);
	munmap(m, 6 * PAGE), munmap(moved, 3 * PAGE), munmap(tail, PAGE);
	close(fd);
	printf("after all %c%c%c%c\n", at_file("parts", 0), at_file("parts", 3 * PAGE), at_file("parts", 4 * PAGE + 1), at_file("parts", 5 * PAGE));
}

static void processes(void) {
	int fd = make("family", 2);
	char *m = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	IN_CHILD(m[0] = 'c'; _exit(0));
	printf("a child's store %c\n", m[0]);
	IN_CHILD(munmap(m, 2 * PAGE); _exit(0));
	m[1] = 'p';
	printf("a child has unmapped %c\n", at_file("family", 1));
	IN_CHILD(char *own = map(open("family", O_RDWR), PAGE, PROT_READ | PROT_WRITE, PAGE); own[0] = 'o'; kill(getpid(), SIGKILL));
	printf("killed %c %c\n", m[PAGE], at_file("family", PAGE));
	close(fd), munmap(m, 2 * PAGE);
	IN_CHILD(m = map(open("family", O_RDWR), PAGE, PROT_READ | PROT_WRITE, 0); m[5] = 'k'; kill(getpid(), SIGKILL));
	printf("killed alone %c\n", at_file("family", 5));
	IN_CHILD(m = map(open("family", O_RDWR), PAGE, PROT_READ | PROT_WRITE, 0); m[6] = 'e'; execlp("true", "true", NULL));
	printf("exec %c\n", at_file("family", 6));
	IN_CHILD(m = map(open("family", O_RDWR), PAGE, PROT_READ | PROT_WRITE, 0); m[7] = 'x'; exit(0));
	printf("exit %c\n", at_file("family", 7));
}

static void names(void) {
	int fd = make("unlinked", 1);
	char *m = map(fd, PAGE, PROT_READ | PROT_WRITE, 0);
	unlink("unlinked");
	close(fd);
	m[0] = 'u';
	printf("unlinked %c %d\n", m[0], access("unlinked", F_OK));
	printf("msync %d\n", msync(m, PAGE, MS_SYNC));
	int other = make("unlinked", 1);
	printf("another of the name %c %c\n", at_file("unlinked", 0), m[0]);
	munmap(m, PAGE), close(other);
	fd = make("renamed", 1);
	m = map(fd, PAGE, PROT_READ | PROT_WRITE, 0);
	rename("renamed", "to");
	m[0] = 'r';
	printf("renamed %c\n", at_file("to", 0));
	close(fd), munmap(m, PAGE);
	printf("unmapped %c\n", at_file("to", 0));
	fd = open("empty", O_RDWR | O_CREAT, 0644);
	m = map(fd, PAGE, PROT_READ | PROT_WRITE, 0);
	printf("empty %s\n", touch(m));
	pwrite(fd, "full", 4, 0);
	printf("filled %.4s\n", m);
	close(fd);
}

int main(int count, char **arguments) {
	if (count > 1 && chdir(arguments[1]) != 0) return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_NODEFER};
	sigaction(SIGBUS, &action, NULL), sigaction(SIGSEGV, &action, NULL);
	refusals(), coherence(), sizes(), parts(), processes(), names();
	return 0;
}
