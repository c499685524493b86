/* System calls on the descriptor given, by a statically linked program, which the preload library
 * cannot see. Prints one line for each call that did not fail, and returns their number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

static int succeeded;

#define FAILS(call) do { if ((long)(call) != -1) { succeeded++; printf("%s\n", #call); } } while (0)

int main(int count, char **arguments)
{
	int fd = atoi(arguments[1]), ends[2], local = open(arguments[0], O_RDONLY);
	char buffer[8] = "stray", name[32], *none[] = {arguments[0], NULL};
	struct iovec vector = {buffer, 5};
	struct epoll_event event = {.events = EPOLLIN};
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	loff_t at = 0, to = 0;
	if (count > 2) { /* one call; the exit status is its errno */
		int failed = strcmp(arguments[2], "read") == 0 ? read(fd, buffer, 5) < 0 : write(fd, buffer, 5) < 0;
		return failed ? errno : 0;
	}
	if (local < 0 || pipe(ends) != 0 || write(ends[1], "stray", 5) != 5)
		return 100;
	sprintf(name, "/proc/self/fd/%d", fd);
	FAILS(read(fd, buffer, 5));
	FAILS(pread(fd, buffer, 5, 0));
	FAILS(readv(fd, &vector, 1));
	FAILS(write(fd, buffer, 5));
	FAILS(pwrite(fd, buffer, 5, 0));
	FAILS(writev(fd, &vector, 1));
	FAILS(pwritev2(fd, &vector, 1, -1, RWF_APPEND));
	FAILS(lseek(fd, 0, SEEK_END));
	FAILS(ftruncate(fd, 0));
	FAILS(fallocate(fd, 0, 0, 4096));
	FAILS(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	FAILS(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	FAILS(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	FAILS(sendfile(fd, local, NULL, 5));
	FAILS(sendfile(ends[1], fd, NULL, 5));
	FAILS(copy_file_range(fd, &at, fd, &to, 5, 0));
	FAILS(splice(fd, &at, ends[1], NULL, 5, 0));
	FAILS(splice(ends[0], NULL, fd, &to, 5, 0));
	FAILS(epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, fd, &event));
	FAILS(fcntl(fd, F_SETLK, &lock));
	FAILS(fcntl(fd, F_OFD_SETLK, &lock));
	FAILS(open(name, O_WRONLY));
	FAILS(open(name, O_RDWR | O_TRUNC));
	FAILS(fexecve(fd, none, none));
	if (getuid() != 0) {
		FAILS(fchdir(fd));
		FAILS(openat(fd, "made", O_CREAT | O_RDWR, 0600));
	}
	return succeeded;
}
