#include "faults.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The most bytes of a write that are kept (a ballast file is large, and no test reads it). */
#define MOST_BYTES (512 * 1024)

/* Little-endian, as ../trace.ts reads it; followed by path, second and data. */
struct header {
  uint32_t length; /* of the whole record */
  uint16_t kind;
  uint16_t flags; /* 1 truncates, 2 created */
  int32_t pid;
  int32_t fd;
  uint64_t number;
  int64_t result; /* negative: errno */
  int64_t offset;
  uint32_t path_length;
  uint32_t second_length;
  uint32_t data_length;
  uint32_t written; /* bytes of the write, kept here or not */
};

static int trace_fd = -1;
static int marks = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
  const char *file = getenv("FAULTS_TRACE");
  const char *fd = getenv("FAULTS_MARKS");
  if (file == NULL) return;
  int opened = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  /* High, so that the program's own descriptors keep the numbers that they have without us. */
  trace_fd = fcntl(opened, F_DUPFD_CLOEXEC, 1000);
  close(opened);
  if (fd != NULL) marks = atoi(fd);
}

bool is_recording(void) {
  pthread_once(&once, start);
  return trace_fd >= 0;
}

int mark_fd(void) {
  return is_recording() ? marks : -1;
}

void record(const struct call *call, uint64_t number, int64_t result) {
  if (!is_recording() || call->kind == READ) return;
  const char *path = call->path == NULL ? "" : call->path;
  const char *second = call->second == NULL ? "" : call->second;
  int64_t written = call->part_count > 0 && result > 0 ? result : 0;
  size_t data = written > MOST_BYTES ? MOST_BYTES : (size_t)written;
  struct header header = {
      .kind = (uint16_t)call->kind,
      .flags = (uint16_t)((call->truncates ? 1 : 0) | (call->created ? 2 : 0)),
      .pid = getpid(),
      .fd = call->fd,
      .number = number,
      .result = result,
      .offset = call->offset,
      .path_length = (uint32_t)strlen(path),
      .second_length = (uint32_t)strlen(second),
      .data_length = (uint32_t)data,
      .written = (uint32_t)written,
  };
  header.length = (uint32_t)(sizeof header + header.path_length + header.second_length + data);
  char *whole = malloc(header.length);
  if (whole == NULL) abort();
  char *at = mempcpy(whole, &header, sizeof header);
  at = mempcpy(at, path, header.path_length);
  at = mempcpy(at, second, header.second_length);
  for (int part = 0; part < call->part_count && data > 0; part++) {
    size_t bytes = call->parts[part].iov_len < data ? call->parts[part].iov_len : data;
    at = mempcpy(at, call->parts[part].iov_base, bytes);
    data -= bytes;
  }
  /* Not through write(): that is ours. */
  if (syscall(SYS_write, trace_fd, whole, header.length) != (ssize_t)header.length) abort();
  free(whole);
}
