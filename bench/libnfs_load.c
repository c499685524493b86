/* Loads through libnfs, the client library to measure ours against.
 *
 * usage: libnfs_load URL FILE ACTION DEPTH SECONDS FILE_BYTES [CONNECTIONS]
 *
 * ACTION is read or write: 8 KiB at random places, writes stable (FILE_SYNC); extend: stable writes of 8 KiB one behind
 * the other into FILE, which is emptied first; seqread or seqwrite: 1 MiB one behind the other, writes not stable;
 * names: files FILE-0, FILE-1, … are created and removed, FILE_BYTES is how many, SECONDS is not looked at, and an
 * operation is a create or a remove.
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
    BLOCK_BYTES_RANDOM = 8192,
    BLOCK_BYTES_SEQUENTIAL = 1 << 20,
    PATH_BYTES = 512,
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
    char path[PATH_BYTES]; /* of the file of names under way */
};

static uint32_t histogram[BUCKET_COUNT];
static uint64_t operations, in_flight, end_ns, block_count, chance = 88172645463325252u;
static uint64_t next_block, names_left, name_number;
static uint32_t block_bytes = BLOCK_BYTES_RANDOM;
static int writing, stable, in_order, extending, naming;
static const char *file_path;

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
    return chance % block_count * block_bytes;
}

static uint64_t next_offset(void) {
    if (!in_order) return random_offset();
    uint64_t block = next_block++;
    return (extending ? block : block % block_count) * block_bytes;
}

static void count_answer(struct slot *slot, uint64_t now) {
    uint64_t bucket = (now - slot->sent_at_ns) / BUCKET_NS;
    histogram[bucket < BUCKET_COUNT ? bucket : BUCKET_COUNT - 1]++;
    operations++;
}

static void send_next(struct slot *slot);

static void answered(int status, struct nfs_context *nfs, void *data, void *slot_pointer) {
    struct slot *slot = slot_pointer;
    if (status != (int)block_bytes) {
        fprintf(stderr, "libnfs_load: cannot transfer %u bytes, got %d: %s\n", block_bytes, status,
                status < 0 ? (char *)data : nfs_get_error(nfs));
        exit(1);
    }
#ifndef LIBNFS_API_V2
    if (!writing) memcpy(slot->block, data, block_bytes);
#endif
    uint64_t now = now_ns();
    count_answer(slot, now);
    in_flight--;
    if (now < end_ns) send_next(slot);
}

static void removed(int status, struct nfs_context *nfs, void *data, void *slot_pointer) {
    struct slot *slot = slot_pointer;
    (void)data;
    if (status < 0) die(nfs, "remove a file");
    count_answer(slot, now_ns());
    in_flight--;
    if (names_left > 0) send_next(slot);
}

static void closed(int status, struct nfs_context *nfs, void *data, void *slot_pointer) {
    struct slot *slot = slot_pointer;
    (void)data;
    if (status < 0) die(nfs, "close a file");
    slot->sent_at_ns = now_ns();
    if (nfs_unlink_async(nfs, slot->path, removed, slot)) die(nfs, "send");
}

static void created(int status, struct nfs_context *nfs, void *data, void *slot_pointer) {
    struct slot *slot = slot_pointer;
    if (status < 0) die(nfs, "create a file");
    count_answer(slot, now_ns());
    if (nfs_close_async(nfs, data, closed, slot)) die(nfs, "send");
}

static void create_next(struct slot *slot) {
    names_left--;
    snprintf(slot->path, sizeof slot->path, "%s-%llu", file_path, (unsigned long long)name_number++);
    if (nfs_creat_async(slot->connection->nfs, slot->path, 0644, created, slot)) die(slot->connection->nfs, "send");
}

static void send_next(struct slot *slot) {
    struct connection *c = slot->connection;
    slot->sent_at_ns = now_ns();
    in_flight++;
    if (naming) {
        create_next(slot);
        return;
    }
    uint64_t offset = next_offset();
#ifdef LIBNFS_API_V2
    int refused = writing ? nfs_pwrite_async(c->nfs, c->file, slot->block, block_bytes, offset, answered, slot)
                          : nfs_pread_async(c->nfs, c->file, slot->block, block_bytes, offset, answered, slot);
#else
    int refused = writing ? nfs_pwrite_async(c->nfs, c->file, offset, block_bytes, slot->block, answered, slot)
                          : nfs_pread_async(c->nfs, c->file, offset, block_bytes, answered, slot);
#endif
    if (refused) die(c->nfs, "send");
}

static void connect_to(struct connection *c, const char *url_text, const char *path) {
    c->nfs = nfs_init_context();
    if (!c->nfs) die(NULL, "begin");
    struct nfs_url *url = nfs_parse_url_dir(c->nfs, url_text);
    if (!url) die(c->nfs, "read the URL");
    if (nfs_mount(c->nfs, url->server, url->path)) die(c->nfs, "mount");
    nfs_destroy_url(url);
    if (naming) return;
    int flags = writing ? O_RDWR | (stable ? O_SYNC : 0) : O_RDONLY;
    if (extending && nfs_creat(c->nfs, path, 0644, &c->file)) die(c->nfs, "create the file");
    if (extending && (nfs_ftruncate(c->nfs, c->file, 0) || nfs_close(c->nfs, c->file))) die(c->nfs, "empty the file");
    if (nfs_open(c->nfs, path, flags, &c->file)) die(c->nfs, "open the file");
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

/* Sets what the action is; 0 when there is none of that name. */
static int choose(const char *action) {
    writing = !strcmp(action, "write") || !strcmp(action, "extend") || !strcmp(action, "seqwrite");
    stable = strcmp(action, "seqwrite") != 0;
    extending = !strcmp(action, "extend");
    naming = !strcmp(action, "names");
    in_order = extending || !strncmp(action, "seq", 3);
    if (!strncmp(action, "seq", 3)) block_bytes = BLOCK_BYTES_SEQUENTIAL;
    return writing || naming || !strcmp(action, "read") || !strcmp(action, "seqread");
}

int main(int argc, char **argv) {
    int depth = argc >= 7 ? atoi(argv[4]) : 0, count = argc >= 8 ? atoi(argv[7]) : 1;
    double seconds = argc >= 7 ? atof(argv[5]) : 0;
    uint64_t file_bytes = argc >= 7 ? strtoull(argv[6], NULL, 10) : 0;
    if (argc < 7 || !choose(argv[3])) depth = 0;
    names_left = file_bytes;
    block_count = naming ? 1 : file_bytes / block_bytes;
    if (depth < 1 || depth > DEPTH_MAX || count < 1 || count > CONNECTIONS_MAX || seconds <= 0 || block_count == 0) {
        fprintf(stderr, "usage: libnfs_load URL FILE read|write|extend|seqread|seqwrite|names DEPTH SECONDS FILE_BYTES [CONNECTIONS]\n");
        return 2;
    }
    file_path = argv[2];
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    struct slot *slots = calloc((size_t)(count * depth), sizeof *slots);
    if (!connections || !slots) die(NULL, "begin");
    for (int i = 0; i < count; i++) connect_to(&connections[i], argv[1], argv[2]);

    double cpu_before = cpu_us();
    uint64_t start = now_ns();
    end_ns = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < count * depth; i++) {
        slots[i].connection = &connections[i % count];
        slots[i].block = malloc(block_bytes);
        if (!slots[i].block) die(NULL, "begin");
        memset(slots[i].block, i, block_bytes);
        if (!naming || names_left > 0) send_next(&slots[i]);
    }
    drive(connections, count);
    double elapsed_s = (double)(now_ns() - start) / 1e9, client_us = cpu_us() - cpu_before;
    printf("{\"operations\":%llu,\"iops\":%.0f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"client_cpu_us_per_op\":%.3f}\n",
           (unsigned long long)operations, (double)operations / elapsed_s, percentile_us(0.5), percentile_us(0.99), client_us / (double)operations);
    return 0;
}
