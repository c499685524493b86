/* The raw TCP baseline: on loopback with the bytes of an 8 KiB NFS READ (132 asked, 8320 answered) and no
 * protocol work at all. What a client and a server cost here is the least any NFS pair can cost on this host.
 *
 * usage: raw_tcp DEPTH SECONDS [CPU OF THE SERVER PROCESS [FILE]]
 *
 * With FILE, the server does for each request what every file server must: one fstat and one pread of 8 KiB of it, at random.
 *
 * One client and one server process, blocking sockets, DEPTH requests under way. Prints one line of JSON:
 * iops, p50_us and p99_us of a round trip (at depth 1; above it, of the time since the request was written),
 * client_cpu_us_per_op, server_cpu_us_per_op.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
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

enum {
    REQUEST_BYTES = 132,
    REPLY_BYTES = 8320,
    BLOCK_BYTES = 8192,
    DEPTH_MAX = 256,
    /* Buckets of 100 ns up to 100 ms; what takes longer is counted in the last one. */
    BUCKET_NS = 100,
    BUCKET_COUNT = 1000000,
};

static char received[1 << 20];
static char replies[REPLY_BYTES * DEPTH_MAX];
static char requests[REQUEST_BYTES * DEPTH_MAX];
static uint32_t histogram[BUCKET_COUNT];
static uint64_t sent_at_ns[DEPTH_MAX];

static void die(const char *what) {
    perror(what);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_us(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void write_all(int socket_fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = write(socket_fd, bytes, count);
        if (done <= 0) die("write");
        bytes += done;
        count -= (size_t)done;
    }
}

/* Puts a block of the file, drawn at random, into each of the next replies. */
static void read_blocks(int file, size_t count) {
    static uint64_t drawn = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        struct stat attributes;
        if (fstat(file, &attributes)) die("fstat");
        drawn ^= drawn << 13, drawn ^= drawn >> 7, drawn ^= drawn << 17;
        off_t block = (off_t)(drawn % (uint64_t)(attributes.st_size / BLOCK_BYTES));
        if (pread(file, replies + i * REPLY_BYTES, BLOCK_BYTES, block * BLOCK_BYTES) != BLOCK_BYTES) die("pread");
    }
}

static void serve(int listener, const char *cpu, int file) {
    int one = 1;
    cpu_set_t only;
    CPU_ZERO(&only);
    if (cpu) {
        CPU_SET((size_t)atoi(cpu), &only);
        if (sched_setaffinity(0, sizeof only, &only)) die("sched_setaffinity");
    }
    size_t have = 0;
    int socket_fd = accept(listener, NULL, NULL);
    if (socket_fd < 0) die("accept");
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        ssize_t got = read(socket_fd, received, sizeof received);
        if (got <= 0) _exit(0);
        have += (size_t)got;
        if (file >= 0) read_blocks(file, have / REQUEST_BYTES);
        write_all(socket_fd, replies, have / REQUEST_BYTES * REPLY_BYTES);
        have %= REQUEST_BYTES;
    }
}

static void count_latency(uint64_t ns) {
    uint64_t bucket = ns / BUCKET_NS;
    histogram[bucket < BUCKET_COUNT ? bucket : BUCKET_COUNT - 1]++;
}

static double percentile_us(uint64_t total, double share) {
    uint64_t below = 0;
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++) {
        below += histogram[bucket];
        if ((double)below >= share * (double)total) return (bucket + 0.5) * BUCKET_NS / 1000.0;
    }
    return 0;
}

/* Answers come in the order of the requests, so a ring of times is enough. */
static uint64_t drive(int socket_fd, int depth, double seconds) {
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), operations = 0;
    size_t have = 0;
    for (int slot = 0; slot < depth; slot++) sent_at_ns[slot] = start;
    write_all(socket_fd, requests, (size_t)(REQUEST_BYTES * depth));
    for (;;) {
        ssize_t got = read(socket_fd, received, sizeof received);
        if (got <= 0) die("read");
        have += (size_t)got;
        size_t answered = have / REPLY_BYTES;
        have %= REPLY_BYTES;
        if (answered == 0) continue;
        uint64_t now = now_ns();
        for (size_t i = 0; i < answered; i++) {
            uint64_t *sent = &sent_at_ns[operations++ % (uint64_t)depth];
            count_latency(now - *sent);
            *sent = now;
        }
        if (now >= end) return operations;
        write_all(socket_fd, requests, REQUEST_BYTES * answered);
    }
}

int main(int argc, char **argv) {
    int depth = argc >= 3 ? atoi(argv[1]) : 0;
    double seconds = argc >= 3 ? atof(argv[2]) : 0;
    if (depth < 1 || depth > DEPTH_MAX || seconds <= 0) {
        fprintf(stderr, "usage: raw_tcp DEPTH(1..%d) SECONDS [CPU [FILE]]\n", DEPTH_MAX);
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        die("listen");
    int file = argc > 4 ? open(argv[4], O_RDONLY) : -1;
    if (argc > 4 && file < 0) die(argv[4]);
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) serve(listener, argc > 3 ? argv[3] : NULL, file);

    int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (socket_fd < 0 || connect(socket_fd, (struct sockaddr *)&address, length)) die("connect");
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    uint64_t start = now_ns();
    double cpu_before = cpu_us(RUSAGE_SELF);
    uint64_t operations = drive(socket_fd, depth, seconds);
    double elapsed_s = (double)(now_ns() - start) / 1e9, client_us = cpu_us(RUSAGE_SELF) - cpu_before;
    close(socket_fd);
    waitpid(server, NULL, 0);
    printf("{\"iops\":%.0f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"client_cpu_us_per_op\":%.3f,\"server_cpu_us_per_op\":%.3f}\n",
           (double)operations / elapsed_s, percentile_us(operations, 0.5), percentile_us(operations, 0.99),
           client_us / (double)operations, cpu_us(RUSAGE_CHILDREN) / (double)operations);
    return 0;
}
