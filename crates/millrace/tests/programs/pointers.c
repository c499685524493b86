/* Pointers to no memory: each call returns EFAULT, and the program continues (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>

static void with(const char *kind, char *bad)
{
	char text[100];
	struct iovec one = {bad, 10};
	int fd = open("file", O_RDWR | O_CREAT, 0644), top = open(".", O_RDONLY | O_DIRECTORY);
	tell("%s", kind);
	write(fd, "some bytes", 10);
	E(open(bad, O_RDONLY) < 0);
	E(openat(top, bad, O_CREAT | O_RDWR, 0644) < 0);
	E(access(bad, R_OK));
	E(mkdir(bad, 0755));
	E(rename("file", bad));
	E(rename(bad, "file"));
	E(link("file", bad));
	E(symlink(bad, "link"));
	E(unlink(bad));
	E(chmod(bad, 0600));
	E(chdir(bad));
	E(truncate(bad, 1));
	E(readlink(bad, text, sizeof text) < 0);
	E(stat(bad, &(struct stat){0}));
	E(stat("file", (struct stat *)bad));
	E(fstat(fd, (struct stat *)bad));
	E(fstatat(top, "file", (struct stat *)bad, 0));
	E(statfs("file", (struct statfs *)bad));
	E(pread(fd, bad, 10, 0) < 0);
	E(pwrite(fd, bad, 10, 0) < 0);
	E(readv(fd, (struct iovec *)bad, 1) < 0);
	lseek(fd, 0, SEEK_SET);
	E(readv(fd, &one, 1) < 0);
	E(writev(fd, &one, 1) < 0);
	T(lseek(fd, 0, SEEK_CUR));
	T(pread(fd, bad, 0, 0));
	E(utimensat(top, "file", (struct timespec *)bad, 0));
	E(fcntl(fd, F_GETLK, bad));
	E(copy_file_range(fd, (off_t *)bad, fd, NULL, 10, 0) < 0);
	T(pread(fd, text, 10, 0));
	close(top);
	close(fd);
}

static void pointers(void)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(pages, 'x', 3 * 4096);
	mprotect(pages + 4096, 4096, PROT_NONE);
	with("nowhere", (char *)0xdeadc0de);
	with("without any right", pages + 4096);
	tell("a string that does not end");
	E(open(pages + 4000, O_RDONLY) < 0);
	E(stat(pages + 4095, &(struct stat){0}));
	tell("a buffer that does not end");
	int fd = open("file", O_RDWR);
	T(pwrite(fd, pages + 4090, 20, 0) <= 6); /* only the part before the hole, or an error */
	E(fstat(fd, (struct stat *)(pages + 4090)));
	tell("text of the program");
	E(stat("file", (struct stat *)"a constant that is long enough for a page of its own, or not"));
	strcpy(pages + 4000, "file");
	E(access(pages + 4000, R_OK));
	strcpy(pages + 4091, "file"); /* its NUL is the last byte before the hole */
	E(access(pages + 4091, R_OK));
	mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE);
	strcpy(pages + 4094, "file");
	E(access(pages + 4094, R_OK));
}

int main(int count, char **arguments)
{
	static const struct section sections[] = {{"pointers", pointers}};
	return run_section(count, arguments, sections, sizeof sections / sizeof *sections);
}
