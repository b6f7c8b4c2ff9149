#include "faults.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One word per line: `at 12`, `error EIO`, `full yes` (the disk fills up just then) or `kill before|half|after`, `until once|always`, `kinds 2,3` (as in enum
 * kind), `match TEXT` (part of the path). A plan without `at` only counts. */
#define NUMBERED ((1u << FIRST_UNNUMBERED) - 1)
struct plan {
  uint64_t at;
  int error;
  enum { NO_KILL, KILL_BEFORE, KILL_HALF, KILL_AFTER } kill;
  bool always;
  bool fills;
  uint32_t kinds;
  char match[256];
};

/* Layout known to ../library.ts. */
struct counts {
  uint64_t matched;       /* calls that the plan numbers, since it was read */
  uint64_t hits;          /* calls that were failed or killed at */
  uint64_t by_kind[KINDS]; /* all calls since the start */
  char last_hit[512];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct plan plan;
static struct counts local_counts;
static struct counts *counts = &local_counts;
static uint64_t number;
static bool is_filled;
static const char *control_file;
static const char *full_file;
static struct stat control_seen;

static void read_plan(void) {
  struct plan fresh = {.kinds = NUMBERED};
  char text[1024];
  int fd = open(control_file, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[length < 0 ? 0 : length] = '\0';
  char *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    char *value = strchr(line, ' ');
    if (value == NULL) continue;
    *value++ = '\0';
    if (strcmp(line, "at") == 0) fresh.at = strtoull(value, NULL, 10);
    else if (strcmp(line, "error") == 0) fresh.error = strcmp(value, "ENOSPC") == 0 ? ENOSPC : EIO;
    else if (strcmp(line, "kill") == 0)
      fresh.kill = strcmp(value, "before") == 0 ? KILL_BEFORE : strcmp(value, "half") == 0 ? KILL_HALF : KILL_AFTER;
    else if (strcmp(line, "full") == 0) fresh.fills = true;
    else if (strcmp(line, "until") == 0) fresh.always = strcmp(value, "always") == 0;
    else if (strcmp(line, "match") == 0) snprintf(fresh.match, sizeof fresh.match, "%s", value);
    else if (strcmp(line, "kinds") == 0) {
      fresh.kinds = 0;
      for (char *at = value; *at != '\0'; at += *at == ',') fresh.kinds |= 1u << strtoul(at, &at, 10);
    }
  }
  plan = fresh;
  is_filled = false;
  counts->matched = 0;
}

static void start(void) {
  control_file = getenv("FAULTS_CONTROL");
  full_file = getenv("FAULTS_FULL");
  const char *counts_file = getenv("FAULTS_COUNTS");
  if (counts_file != NULL) {
    int fd = open(counts_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *counts) == 0) {
      void *mapped = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (mapped != MAP_FAILED) counts = mapped;
    }
    if (fd >= 0) close(fd);
  }
  plan.kinds = NUMBERED;
}

static void follow_control(void) {
  struct stat now;
  if (control_file == NULL || stat(control_file, &now) != 0) return;
  if (now.st_ino == control_seen.st_ino && now.st_size == control_seen.st_size &&
      memcmp(&now.st_mtim, &control_seen.st_mtim, sizeof now.st_mtim) == 0)
    return;
  control_seen = now;
  read_plan();
}

static bool is_numbered(const struct call *call) {
  if ((plan.kinds & (1u << call->kind) & (NUMBERED | 1u << READ)) == 0) return false;
  if (plan.match[0] == '\0') return true;
  return strstr(call->path, plan.match) != NULL || (call->second != NULL && strstr(call->second, plan.match) != NULL);
}

static bool is_hit(void) {
  if (plan.at == 0) return false;
  return plan.always ? counts->matched >= plan.at : counts->matched == plan.at;
}

static int64_t bytes_of(const struct call *call) {
  int64_t sum = 0;
  for (int part = 0; part < call->part_count; part++) sum += (int64_t)call->parts[part].iov_len;
  return sum;
}

int before(const struct call *call, int64_t *keep_bytes) {
  pthread_once(&once, start);
  *keep_bytes = -1;
  pthread_mutex_lock(&lock);
  follow_control();
  number++;
  counts->by_kind[call->kind]++;
  if (!is_numbered(call)) return 0;
  counts->matched++;
  if (!is_hit()) return 0;
  counts->hits++;
  snprintf(counts->last_hit, sizeof counts->last_hit, "%d %s", (int)call->kind, call->path);
  if (plan.kill == KILL_BEFORE || (plan.kill == KILL_HALF && call->kind != WRITE)) die();
  if (plan.fills) is_filled = true;
  if (plan.kill == KILL_HALF) *keep_bytes = bytes_of(call) / 2;
  return plan.error;
}

void after(const struct call *call, int64_t result, int error) {
  record(call, number, result < 0 ? -error : result);
  if (plan.kill == KILL_AFTER && is_numbered(call) && is_hit()) die();
  pthread_mutex_unlock(&lock);
  errno = error;
}

bool is_disk_full(void) {
  pthread_once(&once, start);
  return is_filled || (full_file != NULL && access(full_file, F_OK) == 0);
}

void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}
