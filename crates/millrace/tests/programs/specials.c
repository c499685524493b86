/* splice, posix_fallocate, FIFOs and sockets with a path (tell.h). */
#define _GNU_SOURCE
#include "tell.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static void tell_bytes(const char *what, const char *bytes, ssize_t count)
{
	tell("%s %zd: %.*s", what, count, count < 0 ? 0 : (int)count, bytes);
}

static void splice_section(void)
{
	char buffer[1 << 17];
	int ends[2], other[2];
	off_t at = 2, past = 100;
	signal(SIGPIPE, SIG_IGN);
	put("f", "0123456789");
	int fd = open("f", O_RDWR), reads = open("f", O_RDONLY), appends = open("f", O_RDWR | O_APPEND);
	int directory = open(".", O_RDONLY), writes = open("f", O_WRONLY);
	if (pipe(ends) != 0 || pipe(other) != 0)
		_exit(92);
	T(splice(fd, NULL, ends[1], NULL, 4, 0));
	T(lseek(fd, 0, SEEK_CUR));
	T(splice(fd, &at, ends[1], NULL, 3, SPLICE_F_MOVE | SPLICE_F_MORE));
	T(at);
	T(lseek(fd, 0, SEEK_CUR));
	tell_bytes("read", buffer, read(ends[0], buffer, sizeof buffer));
	T(splice(fd, NULL, ends[1], NULL, 100, 0));
	T(splice(fd, NULL, ends[1], NULL, 100, 0));
	T(splice(fd, &past, ends[1], NULL, 100, 0));
	tell_bytes("read", buffer, read(ends[0], buffer, sizeof buffer));
	/* Calls that are refused. */
	at = 0;
	E(splice(fd, NULL, ends[1], &at, 1, 0) < 0);
	E(splice(ends[0], &at, fd, NULL, 1, 0) < 0);
	E(splice(fd, NULL, reads, NULL, 1, 0) < 0);
	E(splice(fd, NULL, writes, NULL, 1, 0) < 0);
	E(splice(writes, NULL, ends[1], NULL, 1, 0) < 0);
	E(splice(ends[0], NULL, reads, NULL, 1, 0) < 0);
	E(splice(ends[0], NULL, appends, NULL, 1, 0) < 0);
	E(splice(fd, NULL, ends[1], NULL, 1, 0x100) < 0);
	E(splice(fd, NULL, ends[0], NULL, 1, 0) < 0);
	E(splice(ends[1], NULL, fd, NULL, 1, 0) < 0);
	E(splice(directory, NULL, ends[1], NULL, 1, 0) < 0);
	E(splice(99, NULL, ends[1], NULL, 1, 0) < 0);
	E(splice(fd, NULL, 99, NULL, 1, 0) < 0);
	at = -1;
	E(splice(fd, &at, ends[1], NULL, 1, 0) < 0);
	E(splice(ends[0], NULL, fd, NULL, 1, SPLICE_F_NONBLOCK) < 0);
	T(splice(fd, NULL, ends[1], NULL, 0, 0));
	/* From a pipe to a file. */
	T(write(ends[1], "abcdef", 6));
	T(lseek(fd, 8, SEEK_SET));
	T(splice(ends[0], NULL, fd, NULL, 4, 0));
	T(lseek(fd, 0, SEEK_CUR));
	at = 1;
	T(syscall(SYS_splice, ends[0], NULL, fd, &at, 100, 0));
	T(at);
	tell_file("f");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	E(splice(ends[0], NULL, fd, NULL, 4, 0) < 0);
	fcntl(ends[0], F_SETFL, 0);
	/* A full pipe. */
	int big = open("big", O_RDWR | O_CREAT | O_TRUNC, 0600);
	memset(buffer, 'x', sizeof buffer);
	T(write(big, buffer, sizeof buffer));
	at = 0;
	T(splice(big, &at, ends[1], NULL, sizeof buffer, 0));
	E(splice(big, &at, ends[1], NULL, 1, SPLICE_F_NONBLOCK) < 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	E(splice(big, &at, ends[1], NULL, 1, 0) < 0);
	fcntl(ends[1], F_SETFL, 0);
	T(at);
	T(lseek(big, 0, SEEK_SET));
	T(splice(ends[0], NULL, big, NULL, 1 << 20, 0));
	T(lseek(big, 0, SEEK_CUR));
	/* Bytes, free space and the end of the other side each end a wait. */
	pid_t child = fork();
	if (child == 0) {
		usleep(50000);
		_exit(write(ends[1], "late", 4) != 4);
	}
	T(splice(ends[0], NULL, fd, NULL, 100, 0));
	waitpid(child, NULL, 0);
	at = 0;
	T(splice(big, &at, ends[1], NULL, sizeof buffer, 0));
	child = fork();
	if (child == 0) {
		usleep(50000);
		for (ssize_t got = 0, more; got < 1 << 16; got += more)
			if ((more = read(ends[0], buffer, sizeof buffer)) <= 0)
				_exit(1);
		_exit(0);
	}
	at = 7;
	T(splice(big, &at, ends[1], NULL, 5, 0));
	waitpid(child, NULL, 0);
	tell_bytes("read", buffer, read(ends[0], buffer, sizeof buffer));
	close(ends[1]);
	T(splice(ends[0], NULL, fd, NULL, 100, 0));
	close(other[0]);
	at = 0;
	E(splice(big, &at, other[1], NULL, 5, 0) < 0);
	signal(SIGPIPE, SIG_DFL);
	child = fork();
	if (child == 0)
		_exit(splice(big, &at, other[1], NULL, 5, 0) < 0);
	int how;
	waitpid(child, &how, 0);
	T(WIFSIGNALED(how) && WTERMSIG(how) == SIGPIPE);
}

static void lost_section(void)
{
	/* Data that cannot be written stays in the pipe. */
	char buffer[100];
	int ends[2];
	int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (pipe(ends) != 0 || write(ends[1], "kept", 4) != 4)
		_exit(92);
	off_t at = 0x7fffffffffffffffll - 1;
	T(splice(ends[0], NULL, fd, &at, 4, 0) < 0);
	tell_bytes("read", buffer, read(ends[0], buffer, sizeof buffer));
}

static void fallocate_section(void)
{
	struct stat st;
	int ends[2];
	put("f", "0123456789");
	int fd = open("f", O_RDWR), reads = open("f", O_RDONLY), appends = open("f", O_RDWR | O_APPEND), directory = open(".", O_RDONLY);
	if (pipe(ends) != 0)
		_exit(92);
	tell("%s", strerrorname_np(posix_fallocate(fd, -1, 10)));
	tell("%s", strerrorname_np(posix_fallocate(fd, 0, -1)));
	tell("%s", strerrorname_np(posix_fallocate(fd, 0, 0)));
	tell("%s", strerrorname_np(posix_fallocate(fd, 0x7fffffffffffffffll, 2)));
	tell("%s", strerrorname_np(posix_fallocate(reads, 0, 10)));
	tell("%s", strerrorname_np(posix_fallocate(directory, 0, 10)));
	tell("%s", strerrorname_np(posix_fallocate(ends[1], 0, 10)));
	tell("%s", strerrorname_np(posix_fallocate(99, 0, 10)));
	tell("%s", strerrorname_np(posix_fallocate(-1, 0, 10)));
	T(lseek(fd, 3, SEEK_SET));
	errno = 7;
	T(posix_fallocate(fd, 2, 5));
	T(fstat(fd, &st) == 0 ? st.st_size : -1);
	T(posix_fallocate(fd, 5, 100));
	T(errno);
	T(fstat(fd, &st) == 0 ? st.st_size : -1);
	tell_file("f");
	T(lseek(fd, 0, SEEK_CUR));
	T(posix_fallocate(fd, 5000000, 3000000));
	T(stat("f", &st) == 0 ? st.st_size : -1);
	T(posix_fallocate(appends, 8000000, 10));
	T(stat("f", &st) == 0 ? st.st_size : -1);
	T(write(appends, "end", 3));
	T(stat("f", &st) == 0 ? st.st_size : -1);
	char *all = malloc(8000013);
	T(pread(fd, all, 8000013, 0));
	long others = 0;
	for (int i = 10; i < 8000010; i++)
		others += all[i] != 0;
	T(others);
	T(memcmp(all, "0123456789", 10) == 0 && memcmp(all + 8000010, "end", 3) == 0);
	/* A file that is a hole except for some bytes: the bytes stay, and the whole file gets space. */
	int holes = open("holes", O_RDWR | O_CREAT | O_TRUNC, 0600);
	T(ftruncate(holes, 3000001) == 0 && pwrite(holes, "mid", 3, 1500000) == 3 && fsync(holes) == 0);
	T(posix_fallocate(holes, 100, 3000000));
	T(fsync(holes) == 0 && fstat(holes, &st) == 0 ? st.st_size : -1);
	T(st.st_blocks * 512 >= 2990000);
	others = 0;
	T(pread(holes, all, 8000013, 0));
	for (int i = 0; i < 3000001; i++)
		others += all[i] != 0;
	T(others == 3 && memcmp(all + 1500000, "mid", 3) == 0);
	free(all);
}

static void tell_node(const char *name)
{
	struct stat st;
	E(lstat(name, &st) < 0);
	tell("mode %o links %d size %d", st.st_mode, (int)st.st_nlink, (int)st.st_size);
}

static int in_child(void (*what)(const char *), const char *name)
{
	pid_t child = fork();
	if (child == 0) {
		what(name);
		_exit(0);
	}
	return child;
}

static void say_hello(const char *name)
{
	int fd = open(name, O_WRONLY);
	_exit(fd < 0 || write(fd, "hello", 5) != 5);
}

static int ended(pid_t child)
{
	int how = -1;
	waitpid(child, &how, 0);
	return how;
}

static void fifo_section(void)
{
	char buffer[100], line[100];
	struct stat st, by_fd;
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	E(mkfifo("p", 0666));
	tell_node("p");
	E(mkfifo("p", 0666));
	E(mkfifoat(AT_FDCWD, "q", 0620));
	tell_node("q");
	E(mknod("r", S_IFIFO | 0600, 0));
	E(lchmod("r", 0611));
	E(symlink("r", "to-r"));
	E(lchmod("to-r", 0600));
	E(fchmodat(AT_FDCWD, "to-r", 0600, AT_SYMLINK_NOFOLLOW));
	E(unlink("to-r"));
	tell_node("r");
	E(mkfifo("none/p", 0600));
	E(open("p", O_WRONLY | O_NONBLOCK) < 0);
	E(open("p", O_RDONLY | O_DIRECTORY) < 0);
	E(open("p", O_WRONLY | O_CREAT | O_EXCL, 0600) < 0);
	E(truncate("p", 0));
	int reader = open("p", O_RDONLY | O_NONBLOCK);
	T(reader >= 0);
	T(read(reader, buffer, sizeof buffer));
	int writer = open("p", O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0600);
	T(writer >= 0);
	E(read(reader, buffer, sizeof buffer) < 0);
	T(write(writer, "words", 5));
	tell_bytes("read", buffer, read(reader, buffer, sizeof buffer));
	E(lseek(writer, 0, SEEK_SET) < 0);
	E(fsync(writer));
	E(ftruncate(writer, 0));
	T(stat("p", &st) == 0 && fstat(reader, &by_fd) == 0);
	T(S_ISFIFO(by_fd.st_mode) && st.st_mode == by_fd.st_mode && st.st_ino == by_fd.st_ino && st.st_dev == by_fd.st_dev);
	T(st.st_nlink == by_fd.st_nlink && st.st_uid == by_fd.st_uid);
	E(fchmod(reader, 0640));
	tell_node("p");
	E(fchown(reader, -1, getegid()));
	/* A second name is the same FIFO. After a rename the FIFO is still the same. */
	E(link("p", "second"));
	E(rename("p", "moved"));
	int third = open("second", O_WRONLY | O_NONBLOCK);
	T(third >= 0 && write(third, "third", 5) == 5);
	tell_bytes("read", buffer, read(reader, buffer, sizeof buffer));
	E(unlink("second"));
	int fourth = open("moved", O_WRONLY | O_NONBLOCK);
	T(fourth >= 0 && write(fourth, "fourth", 6) == 6);
	tell_bytes("read", buffer, read(reader, buffer, sizeof buffer));
	/* Without a name a FIFO exists as long as it is open. A new FIFO of that name is another one. */
	E(unlink("moved"));
	T(write(fourth, "fifth", 5));
	tell_bytes("read", buffer, read(reader, buffer, sizeof buffer));
	T(fstat(reader, &by_fd) == 0 && S_ISFIFO(by_fd.st_mode) ? (int)by_fd.st_nlink : -1);
	E(mkfifo("moved", 0600));
	E(open("moved", O_WRONLY | O_NONBLOCK) < 0);
	close(writer), close(third), close(fourth);
	T(read(reader, buffer, sizeof buffer));
	close(reader);
	/* A rename replaces a FIFO. */
	put("file", "file");
	E(rename("file", "moved"));
	tell_file("moved");
	/* Opens wait for each other, with C streams too. */
	pid_t child = in_child(say_hello, "q");
	FILE *stream = fopen("q", "r");
	T(stream && fgets(line, sizeof line, stream) ? (long)strlen(line) : -1);
	tell("line %s", line);
	T(stream && fseek(stream, 0, SEEK_SET) < 0 && fclose(stream) == 0);
	T(ended(child));
	child = fork();
	if (child == 0) {
		FILE *out = fopen("q", "w");
		_exit(!out || fprintf(out, "from %s", "fprintf") < 0 || fclose(out) != 0);
	}
	reader = open("q", O_RDONLY);
	tell_bytes("read", buffer, read(reader, buffer, sizeof buffer));
	T(ended(child));
	close(reader);
	int both = open("q", O_RDWR);
	struct pollfd ready = {.fd = both, .events = POLLIN};
	T(poll(&ready, 1, 0));
	T(write(both, "x", 1) == 1 && poll(&ready, 1, 1000) == 1);
	/* splice treats it as a pipe. */
	int file = open("moved", O_RDWR);
	T(splice(both, NULL, file, NULL, 10, 0));
	tell_file("moved");
	close(both), close(file);
	reader = open("q", O_RDONLY | O_NONBLOCK);
	writer = open("q", O_WRONLY);
	close(reader);
	E(write(writer, "x", 1) < 0);
	if (geteuid() == 0) {
		E(chmod("q", 0600));
		child = fork();
		if (child == 0)
			_exit(setegid(4321) != 0 || seteuid(4321) != 0 || open("q", O_RDWR) >= 0 || errno != EACCES);
		T(ended(child));
	}
	E(unlink("q") || unlink("r") || unlink("moved"));
}

static struct sockaddr_un named(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strncpy(address.sun_path, path, sizeof address.sun_path);
	return address;
}

static socklen_t length_of(const struct sockaddr_un *address)
{
	return offsetof(struct sockaddr_un, sun_path) + strlen(address->sun_path) + 1;
}

static int use(int (*call)(int, const struct sockaddr *, socklen_t), int fd, const char *path)
{
	struct sockaddr_un address = named(path);
	return call(fd, (struct sockaddr *)&address, length_of(&address));
}

static void tell_address(const char *what, int answer, const struct sockaddr_un *address, socklen_t length)
{
	tell("%s %d, family %d, %d bytes: %s", what, answer, length ? address->sun_family : -1, (int)length,
		length > 2 ? address->sun_path : "");
}

static void tell_names(const char *what, int fd)
{
	struct sockaddr_un address = named("before");
	socklen_t length = sizeof address;
	int answer = getsockname(fd, (struct sockaddr *)&address, &length);
	tell("%s", what);
	tell_address("own", answer, &address, length);
	address = named("before"), length = sizeof address;
	answer = getpeername(fd, (struct sockaddr *)&address, &length);
	tell_address("peer", answer, &address, answer ? 0 : length);
}

static int unix_socket(int type) { return socket(AF_UNIX, type | SOCK_CLOEXEC, 0); }

static void stream_section(void)
{
	char buffer[100];
	umask(027);
	int listener = unix_socket(SOCK_STREAM), client = unix_socket(SOCK_STREAM);
	E(use(connect, client, "s"));
	E(use(bind, listener, "none/s"));
	E(use(bind, listener, "s"));
	tell_node("s");
	E(use(bind, unix_socket(SOCK_STREAM), "s"));
	E(use(bind, listener, "t"));
	tell("t is %s", access("t", F_OK) == 0 ? "there" : "not there");
	E(use(connect, client, "s"));
	E(open("s", O_RDWR) < 0);
	E(listen(listener, 5));
	E(use(connect, client, "s"));
	struct sockaddr_un address = named("before");
	socklen_t length = sizeof address;
	int served = accept(listener, (struct sockaddr *)&address, &length);
	tell_address("accept", served >= 0, &address, length);
	tell_names("listener", listener);
	tell_names("client", client);
	tell_names("served", served);
	address = named("before"), length = 5;
	int answer = getsockname(listener, (struct sockaddr *)&address, &length);
	tell("short %d %d %.5s", answer, (int)length, address.sun_path);
	T(write(client, "over", 4));
	address = named("before"), length = sizeof address;
	tell_bytes("recvfrom", buffer, recvfrom(served, buffer, sizeof buffer, 0, (struct sockaddr *)&address, &length));
	T(length);
	/* A client with its own name. */
	int second = unix_socket(SOCK_STREAM);
	E(use(bind, second, "client"));
	E(use(connect, second, "./s"));
	address = named("before"), length = sizeof address;
	int other = accept4(listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
	tell_address("accept4", other >= 0, &address, length);
	tell_names("other", other);
	/* The name changes, then is removed. The listener stays. */
	E(rename("s", "renamed"));
	E(use(connect, unix_socket(SOCK_STREAM), "s"));
	E(use(connect, unix_socket(SOCK_STREAM), "renamed"));
	E(symlink("renamed", "by-link"));
	E(use(connect, unix_socket(SOCK_STREAM), "by-link"));
	E(unlink("renamed"));
	E(use(connect, unix_socket(SOCK_STREAM), "renamed"));
	T(write(other, "still", 5));
	tell_bytes("read", buffer, read(second, buffer, sizeof buffer));
	/* The listener is closed. */
	int again = unix_socket(SOCK_STREAM);
	E(use(bind, again, "renamed"));
	E(listen(again, 5));
	close(again);
	tell_node("renamed");
	E(use(connect, unix_socket(SOCK_STREAM), "renamed"));
	E(use(bind, unix_socket(SOCK_STREAM), "renamed"));
	E(use(connect, unix_socket(SOCK_DGRAM), "client"));
	put("file", "x");
	E(use(connect, unix_socket(SOCK_STREAM), "file"));
	E(use(connect, unix_socket(SOCK_STREAM), "file/s"));
	E(use(connect, unix_socket(SOCK_STREAM), "."));
	E(use(bind, socket(AF_INET, SOCK_STREAM, 0), "inet"));
	tell("inet is %s", access("inet", F_OK) == 0 ? "there" : "not there");
	if (geteuid() == 0) {
		int guarded = unix_socket(SOCK_STREAM);
		E(use(bind, guarded, "guarded"));
		E(listen(guarded, 1) || chmod("guarded", 0600));
		int child = fork();
		if (child == 0)
			_exit(setegid(4321) != 0 || seteuid(4321) != 0 || use(connect, unix_socket(SOCK_STREAM), "guarded") == 0 || errno != EACCES);
		T(ended(child));
	}
	E(mknod("node", S_IFSOCK | 0600, 0));
	tell_node("node");
	E(use(connect, unix_socket(SOCK_STREAM), "node"));
}

static void datagram_section(void)
{
	char buffer[100];
	struct sockaddr_un address, to = named("server");
	int server = unix_socket(SOCK_DGRAM), client = unix_socket(SOCK_DGRAM), nameless = unix_socket(SOCK_DGRAM);
	E(sendto(client, "x", 1, 0, (struct sockaddr *)&to, length_of(&to)) < 0);
	E(use(bind, server, "server"));
	E(use(bind, client, "client"));
	T(sendto(client, "ask", 3, 0, (struct sockaddr *)&to, length_of(&to)));
	socklen_t length = sizeof address;
	address = named("before");
	tell_bytes("recvfrom", buffer, recvfrom(server, buffer, sizeof buffer, 0, (struct sockaddr *)&address, &length));
	tell_address("from", 0, &address, length);
	T(sendto(server, "answer", 6, 0, (struct sockaddr *)&address, length));
	tell_bytes("recv", buffer, recv(client, buffer, sizeof buffer, 0));
	struct iovec vector = {"message", 7};
	struct msghdr message = {.msg_name = &to, .msg_namelen = length_of(&to), .msg_iov = &vector, .msg_iovlen = 1};
	T(sendmsg(client, &message, 0));
	T(message.msg_name == &to && message.msg_namelen == length_of(&to));
	vector = (struct iovec){buffer, sizeof buffer};
	address = named("before");
	message = (struct msghdr){.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &vector, .msg_iovlen = 1};
	tell_bytes("recvmsg", buffer, recvmsg(server, &message, 0));
	tell_address("from", message.msg_name == &address, &address, message.msg_namelen);
	T(sendto(nameless, "no name", 7, 0, (struct sockaddr *)&to, length_of(&to)));
	length = sizeof address;
	tell_bytes("recvfrom", buffer, recvfrom(server, buffer, sizeof buffer, 0, (struct sockaddr *)&address, &length));
	T(length);
	E(use(connect, nameless, "server"));
	T(send(nameless, "connected", 9, 0));
	tell_bytes("recv", buffer, recv(server, buffer, sizeof buffer, 0));
	tell_names("nameless", nameless);
	E(unlink("server"));
	E(sendto(client, "x", 1, 0, (struct sockaddr *)&to, length_of(&to)) < 0);
	T(send(nameless, "still", 5, 0));
	tell_bytes("recv", buffer, recv(server, buffer, sizeof buffer, 0));
	int pair[2];
	T(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	tell_names("pair", pair[0]);
}

static const struct section SECTIONS[] = {
	{"splice", splice_section}, {"lost", lost_section}, {"fallocate", fallocate_section}, {"fifo", fifo_section},
	{"stream", stream_section}, {"datagram", datagram_section},
};

int main(int count, char **arguments)
{
	return run_section(count, arguments, SECTIONS, sizeof SECTIONS / sizeof *SECTIONS);
}
