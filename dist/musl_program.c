// What a program of musl does with files, below the directory it is given: `make dist-test` runs it over Direct NFS, where every
// call has to reach the server, since there is no such directory on the host.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks;

static void check(int held, const char *what) {
    if (!held) {
        fprintf(stderr, "does not hold: %s (errno: %s)\n", what, strerror(errno));
        exit(1);
    }
    checks++;
}

static void descriptors(void) {
    char read_back[64] = "";
    int fd = open("made", O_RDWR | O_CREAT | O_EXCL, 0640);
    check(fd >= 0, "open creates a file");
    check(pwrite(fd, "0123456789", 10, 4096) == 10, "pwrite writes behind the end");
    check(lseek(fd, 0, SEEK_END) == 4106, "lseek finds the new end");
    check(fsync(fd) == 0 && fdatasync(fd) == 0, "fsync");
    struct iovec parts[2] = {{read_back, 4}, {read_back + 4, 6}};
    check(preadv(fd, parts, 2, 4096) == 10 && memcmp(read_back, "0123456789", 10) == 0, "preadv reads what was written");
    struct stat found;
    check(fstat(fd, &found) == 0 && found.st_size == 4106 && (found.st_mode & 0777) == 0640, "fstat");
    check(ftruncate(fd, 5) == 0 && stat("made", &found) == 0 && found.st_size == 5, "ftruncate, then stat by name");
    int copy = dup(fd);
    check(close(fd) == 0 && pread(copy, read_back, 5, 0) == 5, "a duplicate lives on");
    check(close(copy) == 0 && unlink("made") == 0 && access("made", F_OK) == -1 && errno == ENOENT, "unlink");
}

static void streams(void) {
    char line[64] = "";
    FILE *file = fopen("stream", "w");
    check(file != NULL && fprintf(file, "written by a program of %s\n", "musl") > 0 && fclose(file) == 0, "a stream writes");
    file = fopen("stream", "r+");
    check(file != NULL && fgets(line, sizeof line, file) && strcmp(line, "written by a program of musl\n") == 0, "a stream reads");
    check(fseek(file, 0, SEEK_SET) == 0 && fgetc(file) == 'w' && fileno(file) > 2, "fseek, fileno");
    check(fclose(file) == 0 && rename("stream", "renamed") == 0, "rename");
    check((file = fopen("renamed", "a")) != NULL && ftell(file) >= 0 && fclose(file) == 0, "a stream appends");
}

static void names(void) {
    int seen = 0;
    char here[256];
    check(mkdir("folder", 0755) == 0 && symlink("renamed", "folder/link") == 0, "mkdir, symlink");
    DIR *folder = opendir("folder");
    check(folder != NULL, "opendir");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        seen += strcmp(entry->d_name, "link") == 0;
    check(seen == 1 && closedir(folder) == 0, "readdir");
    check(chdir("folder") == 0 && getcwd(here, sizeof here) && strstr(here, "/folder"), "chdir, getcwd");
    check(unlink("link") == 0 && chdir("..") == 0 && rmdir("folder") == 0, "rmdir");
    char name[] = "temporaryXXXXXX";
    int fd = mkstemp(name);
    check(fd >= 0 && close(fd) == 0 && unlink(name) == 0, "mkstemp");
}

static void processes(void) {
    int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644), status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(write(fd, "child", 5) == 5 ? 0 : 1);
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child writes through the parent's descriptor");
    check(lseek(fd, 0, SEEK_CUR) == 5, "and the offset is one");
    check(close(fd) == 0, "close");
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "musl_program", "--has", "shared", "child", NULL);
        _exit(2);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a program that is executed sees the same file");
    posix_spawn_file_actions_t actions;
    char *words[] = {"musl_program", "--has", "/dev/stdin", "child", NULL};
    check(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_addopen(&actions, 0, "shared", O_RDONLY, 0) == 0, "posix_spawn's list");
    check(posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ) == 0, "posix_spawn");
    check(waitpid(child, &status, 0) == child && status == 0, "its child reads the file as its standard input");
    check(posix_spawn_file_actions_destroy(&actions) == 0 && unlink("shared") == 0, "unlink after it");
}

// What such a program does: 0 if the file has this text.
static int has(const char *name, const char *text) {
    char read_back[64] = "";
    int fd = strcmp(name, "/dev/stdin") == 0 ? 0 : open(name, O_RDONLY);
    return fd >= 0 && read(fd, read_back, sizeof read_back - 1) >= 0 && strcmp(read_back, text) == 0 ? 0 : 1;
}

// stdout led to a file of the mount: the stream that libc made writes there.
static void standard_output(void) {
    char read_back[64] = "";
    fflush(stdout);
    int kept = dup(1), fd = open("output", O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(kept >= 0 && dup2(fd, 1) == 1, "dup2 onto descriptor 1");
    int printed = printf("printed\n"), flushed = fflush(stdout);
    check(dup2(kept, 1) == 1 && close(kept) == 0, "dup2 back");
    check(printed == 8 && flushed == 0, "printf while it leads to the mount");
    check(pread(fd, read_back, sizeof read_back, 0) == 8 && strcmp(read_back, "printed\n") == 0, "what was printed is in the file");
    check(close(fd) == 0 && unlink("output") == 0, "and is removed");
}

int main(int count, char **arguments) {
    if (count == 4 && strcmp(arguments[1], "--has") == 0)
        return has(arguments[2], arguments[3]);
    if (count != 2 || chdir(arguments[1]) != 0) {
        fprintf(stderr, "usage: musl_program DIRECTORY (%s)\n", strerror(errno));
        return 2;
    }
    descriptors();
    streams();
    names();
    processes();
    standard_output();
    printf("all %d checks held\n", checks);
    return 0;
}
