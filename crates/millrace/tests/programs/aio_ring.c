// Kernel AIO as QEMU and Seastar use it: an eventfd reports that there are events, and the program
// takes them from the ring at the address of the context. It never calls io_getevents. Arguments: a
// directory and another one. One context has requests on files of both.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 32, ROUNDS = 200, BYTES = 4096 };

struct ring {
    unsigned id, count, head, tail, magic, compatible, incompatible, header_bytes;
    struct io_event events[];
};

static int open_in(const char *directory) {
    char name[4096];
    snprintf(name, sizeof name, "%s/ring", directory);
    return open(name, O_RDWR | O_CREAT | O_DIRECT | O_TRUNC, 0600);
}

static struct ring *ring;
static int eventfd_of_all;

// Submits DEPTH requests, takes their events, and returns how many succeeded completely.
static int round_of(aio_context_t context, const int *files, char **buffers, int operation, int round) {
    struct iocb requests[DEPTH], *list[DEPTH];
    memset(requests, 0, sizeof requests);
    for (int i = 0; i < DEPTH; i++) {
        requests[i].aio_data = i;
        requests[i].aio_fildes = files[i % 2];
        requests[i].aio_lio_opcode = operation;
        requests[i].aio_buf = (unsigned long)buffers[i];
        requests[i].aio_nbytes = BYTES;
        requests[i].aio_offset = (long long)BYTES * (i / 2 + round % 8 * DEPTH);
        requests[i].aio_flags = IOCB_FLAG_RESFD;
        requests[i].aio_resfd = eventfd_of_all;
        list[i] = requests + i;
    }
    for (int sent = 0; sent < DEPTH;) {
        int took = syscall(SYS_io_submit, context, DEPTH - sent, list + sent);
        if (took <= 0) return -1;
        sent += took;
    }
    int right = 0;
    for (int taken = 0; taken < DEPTH;) {
        struct pollfd waiting = {.fd = eventfd_of_all, .events = POLLIN};
        unsigned long long count;
        if (poll(&waiting, 1, 20000) != 1 || read(eventfd_of_all, &count, sizeof count) != sizeof count) return -2;
        unsigned tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        for (; ring->head != tail; taken++) {
            struct io_event event = ring->events[ring->head];
            right += event.res == BYTES && event.obj == (unsigned long)(requests + event.data);
            __atomic_store_n(&ring->head, (ring->head + 1) % ring->count, __ATOMIC_RELEASE);
        }
    }
    return right;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int files[2] = {open_in(arguments[1]), open_in(arguments[2])};
    char *buffers[DEPTH];
    aio_context_t context = 0;
    if (files[0] < 0 || files[1] < 0 || syscall(SYS_io_setup, DEPTH, &context)) return 3;
    for (int i = 0; i < DEPTH; i++)
        if (posix_memalign((void **)buffers + i, BYTES, BYTES)) return 4;
    ring = (struct ring *)context;
    eventfd_of_all = eventfd(0, 0);
    printf("magic %#x, incompatible %u\n", ring->magic, ring->incompatible);
    int written = 0, read_back = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < DEPTH; i++) memset(buffers[i], 'a' + (round + i) % 26, BYTES);
        written += round_of(context, files, buffers, IOCB_CMD_PWRITE, round);
        for (int i = 0; i < DEPTH; i++) memset(buffers[i], 0, BYTES);
        int answered = round_of(context, files, buffers, IOCB_CMD_PREAD, round);
        for (int i = 0; i < DEPTH; i++) answered -= buffers[i][0] != 'a' + (round + i) % 26 || buffers[i][BYTES - 1] != buffers[i][0];
        read_back += answered;
    }
    printf("%d written, %d read\n", written, read_back);
    struct io_event none;
    struct timespec now = {0, 0};
    printf("io_getevents finds %ld more\n", syscall(SYS_io_getevents, context, 0, 1, &none, &now));
    printf("io_destroy %ld\n", syscall(SYS_io_destroy, context));
    return 0;
}
