/* Calls that a signal handler leaves by siglongjmp, handlers on their own stack, and cancelled
 * threads: left DIRECTORY CASE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf out;
static volatile int jumps, handled;
static int fd;
static char block[4096];

static void leave(int number) { (void)number; if (jumps) siglongjmp(out, 1); }

static void after(int ms) {
  struct itimerval timer = {{0, 0}, {0, ms * 1000}};
  setitimer(ITIMER_REAL, &timer, 0);
}

static void use(int stack) {
  struct sigaction action = {.sa_handler = leave, .sa_flags = stack ? SA_ONSTACK : 0};
  sigaction(SIGALRM, &action, 0);
}

/* Number of calls that were left, of `count`. */
static int leave_calls(int count, ssize_t (*call)(int)) {
  volatile int left = 0;
  for (volatile int i = 0; i < count; i++) {
    if (sigsetjmp(out, 1)) { left++; continue; }
    jumps = 1;
    after(20);
    call(i);
    jumps = 0;
    after(0);
  }
  jumps = 0;
  after(0);
  return left;
}

static ssize_t reads(int i) { (void)i; return pread(fd, block, sizeof block, 0); }
static ssize_t writes(int i) { memset(block, 'a' + i % 26, sizeof block); return pwrite(fd, block, sizeof block, i % 3 * 4096); }
static ssize_t syncs(int i) { (void)i; return fsync(fd); }

static void log_lines(int count) {
  for (int line = 0; line < count; line++) if (write(fd, "a line of a log\n", 16) != 16) _exit(3);
}

static void nested(int number) { (void)number; if (pread(fd, block, 16, 8192) != 16) _exit(4); handled++; }

static void *loop(void *how) {
  char own[512] = {0};
  for (;;) {
    if (how == 0) pread(fd, own, sizeof own, 0);
    else if (how == (void *)1) pwrite(fd, own, sizeof own, 0);
    else { lseek(fd, 0, SEEK_SET); read(fd, own, sizeof own); }
  }
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc != 3) return 2;
  setvbuf(stdout, 0, _IONBF, 0);
  snprintf(path, sizeof path, "%s/file", argv[1]);
  const char *what = argv[2];
  fd = open(path, O_RDWR | O_CREAT | (strcmp(what, "logs") ? 0 : O_APPEND), 0644);
  if (fd < 0) return 2;
  static char memory[1 << 16];
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  sigaltstack(&stack, 0);
  use(!strcmp(what, "stack"));
  if (!strcmp(what, "reads") || !strcmp(what, "stack")) printf("left %d\n", leave_calls(200, reads));
  if (!strcmp(what, "writes")) printf("left %d\n", leave_calls(80, writes));
  if (!strcmp(what, "logs")) {
    /* The library sends the first writes of a file at once, and coalesces those that follow. */
    log_lines(4);
    printf("begun\n");
    getchar();
    log_lines(20);
    printf("left %d\n", leave_calls(1, syncs));
  }
  if (!strcmp(what, "handlers")) {
    struct sigaction action = {.sa_handler = nested, .sa_flags = SA_ONSTACK};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < 60; i++) {
      memset(block, 'a' + i % 26, 4096);
      if (pwrite(fd, block, 4096, 0) != 4096) return 5;
    }
    after(0);
    printf("handled %d\n", handled > 0);
  }
  if (!strcmp(what, "cancel")) {
    for (long how = 0; how < 3; how++) {
      pthread_t thread;
      pthread_create(&thread, 0, loop, (void *)how);
      usleep(100000);
      pthread_cancel(thread);
      struct timespec end;
      clock_gettime(CLOCK_REALTIME, &end);
      end.tv_sec += 5;
      if (pthread_timedjoin_np(thread, 0, &end)) { printf("not cancelled: %ld\n", how); return 6; }
    }
  }
  if (!strcmp(what, "logs")) { printf("stays\n"); pause(); }
  char own[4096];
  memset(own, 'Z', sizeof own);
  if (pwrite(fd, own, sizeof own, 0) != sizeof own || pread(fd, block, sizeof block, 0) != sizeof block) return 7;
  printf("%s\n", memcmp(own, block, sizeof own) ? "wrong" : "right");
  return 0;
}
