// What mmap(2), madvise(2) and mremap(2) promise for private mappings of a file. Argument: the
// directory. Prints one line for each.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define BOTH (PROT_READ | PROT_WRITE)

static sigjmp_buf before;
static void on_bus(int signal) {
    (void)signal;
    siglongjmp(before, 1);
}

static void say(const char *what, long value) { printf("%s: %ld\n", what, value); }

// The byte at an address, or -1 if the file has no byte there.
static int byte_at(volatile unsigned char *at) { return sigsetjmp(before, 1) ? -1 : *at; }

static unsigned char *map(size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mmap(0, bytes, protection, MAP_PRIVATE | flags, fd, offset);
}

static int open_descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all)) count++;
    closedir(all);
    return count;
}

static void advice(int fd) {
    unsigned char *all = map(3 * PAGE, BOTH, 0, fd, 0);
    all[0] = all[PAGE] = all[2 * PAGE] = 'x';
    say("MADV_DONTNEED of a page", madvise(all + PAGE, PAGE, MADV_DONTNEED));
    say("the page before keeps its store", byte_at(all));
    say("the page has the file's byte", byte_at(all + PAGE));
    say("the page behind keeps its store", byte_at(all + 2 * PAGE));
    all[PAGE] = 'y';
    say("a store after it", byte_at(all + PAGE));
    unsigned char *read_only = map(PAGE, PROT_READ, 0, fd, 2 * PAGE);
    madvise(read_only, PAGE, MADV_DONTNEED);
    say("a mapping for reading", byte_at(read_only));
    say("MADV_FREE", madvise(all, PAGE, MADV_FREE) ? errno : 0);
    say("MADV_WIPEONFORK", madvise(all, PAGE, MADV_WIPEONFORK) ? errno : 0);
    say("MADV_REMOVE", madvise(all, PAGE, MADV_REMOVE) ? errno : 0);
    say("msync", msync(all, 3 * PAGE, MS_SYNC));
    unsigned char stored = 0;
    pread(fd, &stored, 1, 0);
    say("the file has no store", stored);
    if (fork() == 0) {
        int right = all[0] == 'x' && all[PAGE] == 'y';
        all[PAGE] = 'z';
        madvise(all, PAGE, MADV_DONTNEED);
        _exit(right && byte_at(all) == 'a' ? 0 : 1);
    }
    int status;
    wait(&status);
    say("a child has its parent's stores, and the file's bytes behind them", status);
    say("the parent has no store of the child", byte_at(all + PAGE));
    munmap(all, 3 * PAGE);
    munmap(read_only, PAGE);
}

static void growth(const char *name) {
    int fd = open(name, O_RDWR);
    unsigned char *grown = map(PAGE, BOTH, 0, fd, PAGE);
    grown[0] = 'x';
    grown = mremap(grown, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    say("made longer, its store", byte_at(grown));
    say("made longer, its new page", byte_at(grown + PAGE));
    close(fd);
    grown = mremap(grown, 2 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    say("made longer once more, the part of a page", byte_at(grown + 2 * PAGE));
    say("zeroes behind the end in its page", byte_at(grown + 2 * PAGE + 2000));
    say("no byte of the page behind", byte_at(grown + 3 * PAGE));
    grown = mremap(grown, 5 * PAGE, PAGE, 0);
    grown = mremap(grown, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    say("shorter and longer again", byte_at(grown + PAGE));
    munmap(grown, PAGE);
    unsigned char *rest = mremap(grown + PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    say("what is left of it, longer", rest == MAP_FAILED ? -errno : byte_at(rest + PAGE));
    fd = open(name, O_RDWR);
    unsigned char *one = map(PAGE, PROT_READ, 0, fd, 2 * PAGE);
    pwrite(fd, "N", 1, 5 * PAGE);
    one = mremap(one, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    say("with the page that the file got since", byte_at(one + 3 * PAGE));
    ftruncate(fd, 3 * PAGE + 1000);
    unsigned char *tail = map(3 * PAGE, PROT_READ, 0, fd, 3 * PAGE);
    pwrite(fd, "N", 1, 4 * PAGE);
    pwrite(fd, "M", 1, 7 * PAGE);
    tail = mremap(tail, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    say("a page that the file got within the first mapping", byte_at(tail + PAGE));
    say("a page that the file got behind it", byte_at(tail + 4 * PAGE));
    ftruncate(fd, 3 * PAGE + 1000);
    close(fd);
}

static void places(const char *name, int fd) {
    unsigned char *all = map(6 * PAGE, PROT_READ, 0, fd, 0);
    say("the part of a page at the end", byte_at(all + 3 * PAGE));
    say("behind the end in its page", byte_at(all + 3 * PAGE + 1500));
    say("beyond the end", byte_at(all + 4 * PAGE));
    unsigned char *beyond = map(PAGE, PROT_READ, 0, fd, 64 * PAGE);
    say("a mapping beyond the end is made", beyond != MAP_FAILED);
    say("and has no byte", byte_at(beyond));
    unsigned char *over = mmap(all + PAGE, PAGE, BOTH, MAP_PRIVATE | MAP_FIXED, fd, 2 * PAGE);
    say("over a page of another mapping", over == all + PAGE && byte_at(over) == 'c' && byte_at(all) == 'a');
    say("an offset within a page", map(PAGE, PROT_READ, 0, fd, 100) == MAP_FAILED ? errno : 0);
    say("no bytes", map(0, PROT_READ, 0, fd, 0) == MAP_FAILED ? errno : 0);
    int write_only = open(name, O_WRONLY);
    say("a descriptor for writing", map(PAGE, PROT_READ, 0, write_only, 0) == MAP_FAILED ? errno : 0);
    close(write_only);
    say("PROT_EXEC", map(PAGE, PROT_READ | PROT_EXEC, 0, fd, 0) != MAP_FAILED);
    say("MAP_POPULATE", byte_at(map(2 * PAGE, BOTH, MAP_POPULATE, fd, PAGE) + PAGE));
    int descriptors = open_descriptors(), right = 1;
    for (int round = 0; round < 300; round++) {
        unsigned char *some[100];
        int count = round ? 1 : 100;
        for (int i = 0; i < count; i++) right &= byte_at(some[i] = map(PAGE, PROT_READ, 0, fd, PAGE)) == 'b';
        for (int i = 0; i < count; i++) munmap(some[i], PAGE);
    }
    say("many mappings", right);
    say("descriptors they left", open_descriptors() - descriptors);
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 2;
    signal(SIGBUS, on_bus);
    int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char bytes[3 * PAGE + 1000];
    for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = 'a' + at / PAGE;
    if (write(fd, bytes, sizeof bytes) != sizeof bytes) return 2;
    advice(fd);
    growth("f");
    places("f", fd);
    return 0;
}
