/* Random 8 KiB reads or stable writes through libnfs, the client library to measure ours against.
 *
 * usage: libnfs_load URL FILE read|write DEPTH SECONDS FILE_BYTES [CONNECTIONS]
 *
 * Each of CONNECTIONS contexts (default 1) has DEPTH requests under way; one thread polls them all. The port
 * of a server without a portmapper goes into the URL: ?nfsport=N&mountport=N. Prints one line of JSON: iops,
 * p50_us, p99_us, client_cpu_us_per_op. A failed or short transfer ends the program with 1.
 *
 * Versions before 6 hand read data over inside their own buffer. It is copied to the caller's then, as their
 * blocking nfs_pread does and as a database needs it; later versions receive into the caller's buffer.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h> /* libnfs.h of version 4 forgets it */
#include <time.h>

#include <nfsc/libnfs.h>

enum {
    BLOCK_BYTES = 8192,
    DEPTH_MAX = 1024,
    CONNECTIONS_MAX = 256,
    BUCKET_NS = 100,
    BUCKET_COUNT = 1000000,
};

struct connection {
    struct nfs_context *nfs;
    struct nfsfh *file;
};

struct slot {
    struct connection *connection;
    uint64_t sent_at_ns;
    char *block;
};

static uint32_t histogram[BUCKET_COUNT];
static uint64_t operations, in_flight, end_ns, block_count, chance = 88172645463325252u;
static int writing;

static void die(struct nfs_context *nfs, const char *what) {
    fprintf(stderr, "libnfs_load: cannot %s: %s\n", what, nfs ? nfs_get_error(nfs) : "out of memory");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* xorshift64 */
static uint64_t random_offset(void) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance % block_count * BLOCK_BYTES;
}

static void send_next(struct slot *slot);

static void answered(int status, struct nfs_context *nfs, void *data, void *slot_pointer) {
    struct slot *slot = slot_pointer;
    if (status != BLOCK_BYTES) {
        fprintf(stderr, "libnfs_load: cannot transfer %d bytes, got %d: %s\n", BLOCK_BYTES, status,
                status < 0 ? (char *)data : nfs_get_error(nfs));
        exit(1);
    }
#ifndef LIBNFS_API_V2
    if (!writing) memcpy(slot->block, data, BLOCK_BYTES);
#endif
    uint64_t now = now_ns(), bucket = (now - slot->sent_at_ns) / BUCKET_NS;
    histogram[bucket < BUCKET_COUNT ? bucket : BUCKET_COUNT - 1]++;
    operations++;
    in_flight--;
    if (now < end_ns) send_next(slot);
}

static void send_next(struct slot *slot) {
    struct connection *c = slot->connection;
    uint64_t offset = random_offset();
    slot->sent_at_ns = now_ns();
    in_flight++;
#ifdef LIBNFS_API_V2
    int refused = writing ? nfs_pwrite_async(c->nfs, c->file, slot->block, BLOCK_BYTES, offset, answered, slot)
                          : nfs_pread_async(c->nfs, c->file, slot->block, BLOCK_BYTES, offset, answered, slot);
#else
    int refused = writing ? nfs_pwrite_async(c->nfs, c->file, offset, BLOCK_BYTES, slot->block, answered, slot)
                          : nfs_pread_async(c->nfs, c->file, offset, BLOCK_BYTES, answered, slot);
#endif
    if (refused) die(c->nfs, "send");
}

static void connect_to(struct connection *c, const char *url_text, const char *path) {
    c->nfs = nfs_init_context();
    if (!c->nfs) die(NULL, "begin");
    struct nfs_url *url = nfs_parse_url_dir(c->nfs, url_text);
    if (!url) die(c->nfs, "read the URL");
    if (nfs_mount(c->nfs, url->server, url->path)) die(c->nfs, "mount");
    if (nfs_open(c->nfs, path, writing ? O_RDWR | O_SYNC : O_RDONLY, &c->file)) die(c->nfs, "open the file");
    nfs_destroy_url(url);
}

static void drive(struct connection *connections, int count) {
    struct pollfd polled[CONNECTIONS_MAX];
    while (in_flight > 0) {
        for (int i = 0; i < count; i++) {
            polled[i].fd = nfs_get_fd(connections[i].nfs);
            polled[i].events = (short)nfs_which_events(connections[i].nfs);
            polled[i].revents = 0;
        }
        if (poll(polled, (nfds_t)count, 1000) < 0) {
            perror("poll");
            exit(1);
        }
        for (int i = 0; i < count; i++)
            if (polled[i].revents && nfs_service(connections[i].nfs, polled[i].revents) < 0)
                die(connections[i].nfs, "talk to the server");
    }
}

static double percentile_us(double share) {
    uint64_t below = 0;
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++) {
        below += histogram[bucket];
        if ((double)below >= share * (double)operations) return (bucket + 0.5) * BUCKET_NS / 1000.0;
    }
    return 0;
}

int main(int argc, char **argv) {
    int depth = argc >= 7 ? atoi(argv[4]) : 0, count = argc >= 8 ? atoi(argv[7]) : 1;
    double seconds = argc >= 7 ? atof(argv[5]) : 0;
    block_count = argc >= 7 ? strtoull(argv[6], NULL, 10) / BLOCK_BYTES : 0;
    if (depth < 1 || depth > DEPTH_MAX || count < 1 || count > CONNECTIONS_MAX || seconds <= 0 || block_count == 0) {
        fprintf(stderr, "usage: libnfs_load URL FILE read|write DEPTH SECONDS FILE_BYTES [CONNECTIONS]\n");
        return 2;
    }
    writing = argv[3][0] == 'w';
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    struct slot *slots = calloc((size_t)(count * depth), sizeof *slots);
    if (!connections || !slots) die(NULL, "begin");
    for (int i = 0; i < count; i++) connect_to(&connections[i], argv[1], argv[2]);

    double cpu_before = cpu_us();
    uint64_t start = now_ns();
    end_ns = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < count * depth; i++) {
        slots[i].connection = &connections[i % count];
        slots[i].block = malloc(BLOCK_BYTES);
        if (!slots[i].block) die(NULL, "begin");
        memset(slots[i].block, i, BLOCK_BYTES);
        send_next(&slots[i]);
    }
    drive(connections, count);
    double elapsed_s = (double)(now_ns() - start) / 1e9, client_us = cpu_us() - cpu_before;
    printf("{\"operations\":%llu,\"iops\":%.0f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"client_cpu_us_per_op\":%.3f}\n",
           (unsigned long long)operations, (double)operations / elapsed_s, percentile_us(0.5), percentile_us(0.99), client_us / (double)operations);
    return 0;
}
