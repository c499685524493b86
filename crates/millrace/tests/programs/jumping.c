/* A worker of stopped.py that leaves its calls by siglongjmp at random moments: jumping DIRECTORY
 * NUMBER REPORT. It reports each completed call, as `worker` does there. A call that it left may
 * have been executed or not. `left N` says that N was the last version or line that it tried. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf out;
static volatile sig_atomic_t jumps;

static void leave(int number) { (void)number; if (jumps) siglongjmp(out, 1); }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static char log_path[4096], own_path[4096], name[4096], moved[4096];
static int log_file, own_file, number;
static uint64_t line, version, found[1024];

/* Makes one call of this kind, or a few. Returns 0, or -1 with errno. */
static int act(int what) {
  char text[80];
  struct stat status;
  switch (what) {
    case 0: case 1:
      snprintf(text, sizeof text, "%d %lu%80s", number, (unsigned long)line, "");
      text[63] = '\n';
      return write(log_file, text, 64) == 64 ? 0 : -1;
    case 2:
      for (int i = 0; i < 1024; i++) found[i] = version;
      return pwrite(own_file, found, sizeof found, 0) == sizeof found ? 0 : -1;
    case 3: return fsync(rand() % 2 ? log_file : own_file);
    case 4: return stat(log_path, &status);
    case 5: return pread(own_file, found, sizeof found, 0) < 0 ? -1 : 0;
    case 6: {
      int fd = open(name, O_WRONLY | O_CREAT, 0644);
      return fd < 0 ? -1 : close(fd);
    }
    case 7: return rename(name, moved) && errno != ENOENT ? -1 : 0;
    default: return unlink(moved) && errno != ENOENT ? -1 : 0;
  }
}

int main(int argc, char **argv) {
  static const char *kinds[] = {"line", "line", "version", "sync", "read", "read", "names", "names", "names"};
  if (argc != 4) return 2;
  int report = atoi(argv[3]);
  number = atoi(argv[2]);
  snprintf(log_path, sizeof log_path, "%s/log", argv[1]);
  snprintf(own_path, sizeof own_path, "%s/own%d", argv[1], number);
  snprintf(name, sizeof name, "%s/x%d", argv[1], number);
  snprintf(moved, sizeof moved, "%s/x%dy", argv[1], number);
  log_file = open(log_path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  own_file = open(own_path, O_RDWR | O_CREAT, 0644);
  if (log_file < 0 || own_file < 0) return 2;
  struct sigaction action = {.sa_handler = leave};
  sigaction(SIGALRM, &action, 0);
  srand(number);
  uint64_t acknowledged = 0;
  for (;;) {
    volatile int what = rand() % 9, left = 0, failed = 0;
    line += what < 2;
    version += what == 2;
    volatile double begun = now();
    struct itimerval timer = {{0, 0}, {0, 1 + rand() % 3000}}, off = {{0, 0}, {0, 0}};
    if (sigsetjmp(out, 1)) left = 1;
    else {
      jumps = 1;
      if (rand() % 4 == 0) setitimer(ITIMER_REAL, &timer, 0);
      failed = act(what);
    }
    int error = errno;
    jumps = 0;
    setitimer(ITIMER_REAL, &off, 0);
    const char *kind = failed ? "error" : left ? "left" : kinds[what];
    uint64_t value = failed ? (uint64_t)error : what < 2 ? line : what == 2 ? version : 0;
    if (what == 2 && !left) acknowledged = version;
    /* The file may have any version whose write was left. */
    if (what == 5 && !left && !failed && acknowledged && (found[0] > version || found[0] < acknowledged)) {
      kind = "wrong";
      value = found[0];
    }
    dprintf(report, "%s %lu %.3f %.3f\n", kind, (unsigned long)value, now() - begun, begun);
  }
}
