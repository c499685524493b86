/* What the calls of a load cost a server that has no protocol: as many preads, pwrites and fdatasyncs of the same sizes over plain TCP, at the same
 * pace, each connection with a thread of its own.
 *
 * usage: raw_calls FILE FILE_BYTES CONNECTIONS SECONDS KIND:BYTES:COUNT…
 *
 * KIND is read, write (buffered), stable (written and flushed), flush (fdatasync) or other (fstat). A request is 132 bytes and what is written, a reply
 * 128 and what is read, as of NFS. The calls come in a random order, spread evenly over SECONDS, at random places of FILE, which is made and filled
 * first; stable writes go one behind the other into FILE.log, made likewise, as those of a database's log do. Prints one line of JSON: calls,
 * server_cpu_us and server_cpu_us_per_op.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 132, REPLY_BYTES = 128, DATA_BYTES_MAX = 1 << 20, CONNECTIONS_MAX = 64 };
enum kind { READ, WRITE, STABLE, FLUSH, OTHER, KINDS };
static const char *const names[KINDS] = {"read", "write", "stable", "flush", "other"};

struct call {
    uint32_t kind, bytes;
    uint64_t offset;
};

static int file, log_file;
static struct call *calls;
static size_t count;
static int connections, sockets[CONNECTIONS_MAX];
static double seconds;

static void die(const char *what) {
    perror(what);
    exit(2);
}

static void move_all(int is_write, int fd, char *bytes, size_t left) {
    while (left > 0) {
        ssize_t done = is_write ? write(fd, bytes, left) : read(fd, bytes, left);
        if (done == 0 && !is_write) pthread_exit(NULL); /* the peer has ended */
        if (done <= 0) die("move bytes");
        bytes += done;
        left -= (size_t)done;
    }
}

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument;
    char *memory = malloc(REQUEST_BYTES + DATA_BYTES_MAX);
    struct call call;
    struct stat stat;
    for (;;) {
        move_all(0, fd, memory, REQUEST_BYTES);
        memcpy(&call, memory, sizeof call);
        size_t given = call.kind == WRITE || call.kind == STABLE ? call.bytes : 0, back = call.kind == READ ? call.bytes : 0;
        move_all(0, fd, memory, given);
        int failed = 0, written = call.kind == STABLE ? log_file : file;
        if (given) failed = pwrite(written, memory, given, (off_t)call.offset) < 0;
        if (back) failed = pread(file, memory + REPLY_BYTES, back, (off_t)call.offset) < 0;
        if (call.kind == STABLE || call.kind == FLUSH) failed |= fdatasync(written);
        if (call.kind == OTHER) failed = fstat(file, &stat);
        if (failed) die("call");
        move_all(1, fd, memory, REPLY_BYTES + back);
    }
    return NULL;
}

static void *drive(void *argument) {
    size_t number = (size_t)(intptr_t)argument;
    char *memory = calloc(1, REQUEST_BYTES + DATA_BYTES_MAX);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t i = number; i < count; i += (size_t)connections) {
        double due_s = seconds * (double)i / (double)count;
        clock_gettime(CLOCK_MONOTONIC, &now);
        double early_s = due_s - (double)(now.tv_sec - start.tv_sec) - (double)(now.tv_nsec - start.tv_nsec) / 1e9;
        if (early_s > 0) usleep((useconds_t)(early_s * 1e6));
        memcpy(memory, &calls[i], sizeof calls[i]);
        size_t given = calls[i].kind == WRITE || calls[i].kind == STABLE ? calls[i].bytes : 0;
        size_t back = calls[i].kind == READ ? calls[i].bytes : 0;
        move_all(1, sockets[number], memory, REQUEST_BYTES + given);
        move_all(0, sockets[number], memory, REPLY_BYTES + back);
    }
    free(memory);
    return NULL;
}

/* Fills the list from KIND:BYTES:COUNT, then shuffles it. */
static void plan(int argc, char **argv, uint64_t file_bytes) {
    for (int i = 0; i < argc; i++) {
        char name[8];
        unsigned bytes;
        size_t more;
        int kind = 0;
        if (sscanf(argv[i], "%7[a-z]:%u:%zu", name, &bytes, &more) != 3 || bytes > DATA_BYTES_MAX) die(argv[i]);
        while (kind < KINDS && strcmp(names[kind], name)) kind++;
        if (kind == KINDS) die(argv[i]);
        calls = realloc(calls, (count + more) * sizeof *calls);
        for (size_t end = count + more; count < end; count++) {
            uint64_t places = bytes ? file_bytes / bytes : 1;
            calls[count] = (struct call){(uint32_t)kind, bytes, (uint64_t)random() % places * bytes};
        }
    }
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)random() % i;
        struct call swapped = calls[i - 1];
        calls[i - 1] = calls[other];
        calls[other] = swapped;
    }
    for (uint64_t i = 0, end = 0; i < count; i++) {
        if (calls[i].kind != STABLE) continue;
        if (end + calls[i].bytes > file_bytes) end = 0;
        calls[i].offset = end;
        end += calls[i].bytes;
    }
}

static int filled(const char *path, uint64_t bytes) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    char *block = calloc(1, DATA_BYTES_MAX);
    for (uint64_t at = 0; at < bytes; at += DATA_BYTES_MAX)
        if (pwrite(fd, block, DATA_BYTES_MAX, (off_t)at) < 0) die(path);
    fsync(fd);
    free(block);
    return fd;
}

int main(int argc, char **argv) {
    uint64_t file_bytes = argc > 5 ? strtoull(argv[2], NULL, 10) : 0;
    connections = argc > 5 ? atoi(argv[3]) : 0;
    seconds = argc > 5 ? atof(argv[4]) : 0;
    if (file_bytes < DATA_BYTES_MAX || connections < 1 || connections > CONNECTIONS_MAX || seconds <= 0) {
        fprintf(stderr, "usage: raw_calls FILE FILE_BYTES(from %d) CONNECTIONS(1..%d) SECONDS KIND:BYTES:COUNT...\n", DATA_BYTES_MAX, CONNECTIONS_MAX);
        return 2;
    }
    plan(argc - 5, argv + 5, file_bytes);
    if (count == 0) die("no calls");
    char log_path[4096];
    snprintf(log_path, sizeof log_path, "%s.log", argv[1]);
    file = filled(argv[1], file_bytes);
    log_file = filled(log_path, file_bytes);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, CONNECTIONS_MAX) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        die("listen");
    pthread_t threads[CONNECTIONS_MAX];
    pid_t server = fork();
    if (server < 0) die("fork");
    for (int i = 0; i < connections; i++) {
        int fd = server ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, NULL, NULL);
        if (server && connect(fd, (struct sockaddr *)&address, length)) die("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        sockets[i] = fd;
        if (!server) pthread_create(&threads[i], NULL, serve, (void *)(intptr_t)fd);
    }
    for (intptr_t i = 0; server && i < connections; i++) pthread_create(&threads[i], NULL, drive, (void *)i);
    for (int i = 0; i < connections; i++) pthread_join(threads[i], NULL);
    if (!server) return 0;
    for (int i = 0; i < connections; i++) close(sockets[i]);
    struct rusage usage;
    int status;
    if (wait4(server, &status, 0, &usage) < 0 || status) die("server");
    double cpu_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    printf("{\"calls\": %zu, \"server_cpu_us\": %.0f, \"server_cpu_us_per_op\": %.3f}\n", count, cpu_us, cpu_us / (double)count);
    return 0;
}
