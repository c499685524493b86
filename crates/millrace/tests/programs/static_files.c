// Creates a file of 1,000 lines in the directory given, and syncs, reads, renames and removes it.
// Prints what it read.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int done, const char *what) {
    if (!done) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    must(argc == 2 && chdir(argv[1]) == 0, "chdir");
    FILE *file = fopen("made", "w+");
    must(file != NULL, "fopen");
    for (int line = 0; line < 1000; line++) must(fprintf(file, "line %6d\n", line) == 12, "fprintf");
    must(fflush(file) == 0 && fsync(fileno(file)) == 0, "fsync");
    struct stat found;
    must(fstat(fileno(file), &found) == 0 && found.st_size == 12000, "fstat");
    must(rename("made", "renamed") == 0, "rename");
    rewind(file);
    long bytes = 0, lines = 0;
    for (char line[64]; fgets(line, sizeof line, file) != NULL; lines++) bytes += strlen(line);
    must(unlink("renamed") == 0, "unlink");
    must(fstat(fileno(file), &found) == 0 && found.st_nlink == 0, "fstat of an unlinked file");
    must(fclose(file) == 0, "fclose");
    printf("%ld bytes in %ld lines\n", bytes, lines);
    return 0;
}
