/* Threads that pthread_cancel cancels. Usage: cancelled DIRECTORY. Prints a line for each case,
 * with whether the thread ended and its clean-up ran. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[4096], absent[4200];
static int file, pipe_ends[2], pair[2], listener, datagrams;
static FILE *stream, *piped;
static volatile int is_clean, is_there;
static sigjmp_buf before;

static void leave(int number) { (void)number; siglongjmp(before, 1); }
static void clean(void *unused) { (void)unused; is_clean = 1; }
static struct flock whole(int kind) { return (struct flock){.l_type = kind, .l_whence = SEEK_SET}; }

/* Makes one call of this kind. The thread repeats it until it is cancelled. */
static void call(const char *what) {
  char bytes[512];
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  struct flock lock = whole(F_RDLCK), taken = whole(F_WRLCK);
  FILE *opened;
  int fd;
  if (!strcmp(what, "pread")) (void)!pread(file, bytes, sizeof bytes, 0);
  if (!strcmp(what, "write")) (void)!write(file, bytes, 10);
  if (!strcmp(what, "fsync")) fsync(file);
  if (!strcmp(what, "open of an absent file")) open(absent, O_RDONLY);
  if (!strcmp(what, "open of this host") && (fd = open("/etc/hostname", O_RDONLY)) >= 0) close(fd);
  if (!strcmp(what, "fopen of this host") && (opened = fopen("/etc/hostname", "r"))) fclose(opened);
  if (!strcmp(what, "fwrite")) { fseek(stream, 0, SEEK_SET); fwrite(bytes, 1, 100, stream); fflush(stream); }
  if (!strcmp(what, "F_SETLKW")) fcntl(file, F_SETLKW, &lock);
  if (!strcmp(what, "lockf")) (void)!lockf(file, F_LOCK, 10);
  if (!strcmp(what, "a wait in read")) (void)!read(pipe_ends[0], bytes, 1);
  if (!strcmp(what, "a wait in getc")) getc(piped);
  if (!strcmp(what, "a wait in recv")) recv(pair[0], bytes, 1, 0);
  if (!strcmp(what, "a wait in accept")) accept(listener, (struct sockaddr *)&address, &length);
  if (!strcmp(what, "a wait in recvfrom")) recvfrom(datagrams, bytes, 1, 0, (struct sockaddr *)&address, &length);
  if (!strcmp(what, "a wait in system")) (void)!system("sleep 3");
  if (!strcmp(what, "calls after a jump")) {
    /* Another process has the lock. A signal handler ends the wait by a jump out of the call. */
    if (!sigsetjmp(before, 1)) { is_there = 1; fcntl(file, F_SETLKW, &taken); }
    is_there = 2;
    for (;;) (void)!pread(file, bytes, sizeof bytes, 0);
  }
}

static void *run(void *what) {
  pthread_cleanup_push(clean, NULL);
  for (;;) call(what);
  pthread_cleanup_pop(0);
  return NULL;
}

static void wait_ms(long ms) { struct timespec time = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&time, NULL); }

static pid_t hold(void) {
  int ready[2];
  char byte;
  if (pipe(ready)) exit(2);
  pid_t holder = fork();
  if (!holder) {
    struct flock lock = whole(F_WRLCK);
    fcntl(file, F_SETLK, &lock);
    (void)!write(ready[1], "", 1);
    pause();
    _exit(0);
  }
  (void)!read(ready[0], &byte, 1);
  return holder;
}

int main(int count, char **arguments) {
  const char *cases[] = {"pread", "write", "fsync", "open of an absent file", "open of this host", "fopen of this host", "fwrite", "F_SETLKW", "lockf",
    "a wait in read", "a wait in getc", "a wait in recv", "a wait in accept", "a wait in recvfrom", "a wait in system", "calls after a jump"};
  if (count < 2) return 2;
  snprintf(path, sizeof path, "%s/file", arguments[1]);
  snprintf(absent, sizeof absent, "%s.none", path);
  setvbuf(stdout, NULL, _IONBF, 0);
  file = open(path, O_RDWR | O_CREAT, 0644);
  stream = fopen(path, "r+");
  if (file < 0 || !stream || pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 2;
  piped = fdopen(pipe_ends[0], "r");
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  listener = socket(AF_INET, SOCK_STREAM, 0);
  datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 1) || bind(datagrams, (struct sockaddr *)&any, sizeof any)) return 2;
  struct sigaction jump = {.sa_handler = leave};
  sigaction(SIGUSR1, &jump, NULL);
  for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
    int jumps = !strcmp(cases[at], "calls after a jump");
    pid_t holder = jumps ? hold() : 0;
    pthread_t thread;
    is_clean = is_there = 0;
    if (pthread_create(&thread, NULL, run, (void *)cases[at])) return 2;
    while (jumps && !is_there) wait_ms(1);
    wait_ms(20);
    if (jumps) {
      pthread_kill(thread, SIGUSR1);
      while (is_there != 2) wait_ms(1);
      kill(holder, SIGKILL);
      waitpid(holder, NULL, 0);
    }
    pthread_cancel(thread);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    void *answer = NULL;
    int late = pthread_timedjoin_np(thread, &answer, &end);
    printf("%s: %s\n", cases[at], late ? "goes on" : answer != PTHREAD_CANCELED ? "ended" : is_clean ? "cancelled" : "cancelled, not clean");
    if (late) _exit(1);
    if (pwrite(file, "x", 1, 0) != 1) { perror("a call afterwards"); return 1; }
  }
  _exit(0); /* the lock of a stream stays with the thread that was cancelled while it had the lock */
}
