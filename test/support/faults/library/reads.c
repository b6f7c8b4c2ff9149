#include "faults.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name)                                                                                                     \
  static __typeof__(&name) real;                                                                                       \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Lines of FAULTS_BAD_SECTORS: `offset bytes path`. The file is known by its inode, so that a rename takes the sector
 * along; a file that is not there yet is looked for again at each read. */
#define MOST_SECTORS 64
struct sector {
  int64_t offset, bytes;
  dev_t device;
  ino_t inode; /* 0: not found yet */
  char path[1024];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sector sectors[MOST_SECTORS];
static int sector_count;
static struct stat list_seen;

static void read_list(const char *file) {
  sector_count = 0;
  FILE *list = fopen(file, "re");
  if (list == NULL) return;
  char line[1200];
  while (sector_count < MOST_SECTORS && fgets(line, sizeof line, list) != NULL) {
    struct sector *sector = &sectors[sector_count];
    long long offset, bytes;
    if (sscanf(line, "%lld %lld %1023[^\n]", &offset, &bytes, sector->path) != 3) continue;
    sector->offset = offset;
    sector->bytes = bytes;
    sector->inode = 0;
    sector_count++;
  }
  fclose(list);
}

static void follow_list(void) {
  const char *file = getenv("FAULTS_BAD_SECTORS");
  struct stat now;
  if (file == NULL || stat(file, &now) != 0) return;
  if (now.st_ino == list_seen.st_ino && now.st_size == list_seen.st_size &&
      memcmp(&now.st_mtim, &list_seen.st_mtim, sizeof now.st_mtim) == 0)
    return;
  list_seen = now;
  read_list(file);
}

static bool is_in_file(struct sector *sector, const struct stat *file) {
  struct stat named;
  if (sector->inode == 0 && stat(sector->path, &named) == 0) {
    sector->device = named.st_dev;
    sector->inode = named.st_ino;
  }
  return sector->inode == file->st_ino && sector->device == file->st_dev;
}

/* Where the first bad byte of a range is; -1: all of it can be read. */
static int64_t first_bad(int fd, int64_t offset, int64_t length) {
  int64_t first = -1;
  struct stat file;
  pthread_mutex_lock(&lock);
  follow_list();
  if (sector_count > 0 && fstat(fd, &file) == 0) {
    for (int n = 0; n < sector_count; n++) {
      struct sector *sector = &sectors[n];
      if (!is_in_file(sector, &file)) continue;
      int64_t start = sector->offset > offset ? sector->offset : offset;
      if (start >= offset + length || start >= sector->offset + sector->bytes) continue;
      if (first < 0 || start < first) first = start;
    }
  }
  pthread_mutex_unlock(&lock);
  return first;
}

bool has_bad_sector(int fd) { return watched_path(fd) != NULL && first_bad(fd, 0, INT64_MAX) >= 0; }

/* Reads the bytes before the bad one, as the kernel does: the caller calls again and gets the error. `offset` -1:
 * at the file's own position, which moves. */
static ssize_t read_call(int fd, const struct iovec *parts, int count, int64_t offset) {
  int64_t length = 0;
  for (int part = 0; part < count; part++) length += (int64_t)parts[part].iov_len;
  bool moves = offset < 0;
  int64_t from = moves ? lseek(fd, 0, SEEK_CUR) : offset;
  struct call call = {READ, fd, watched_path(fd), NULL, from, NULL, 0, false, false};
  int64_t keep, result = -1;
  int error = before(&call, &keep);
  int64_t bad = error == 0 ? first_bad(fd, from, length) : -1;
  if (bad == from) error = EIO;
  if (error == 0) {
    if (bad < 0)
      result = moves ? syscall(SYS_readv, fd, parts, count) : syscall(SYS_preadv, fd, parts, count, offset, 0);
    else {
      int64_t sound = bad - from;
      size_t bytes = (int64_t)parts[0].iov_len < sound ? parts[0].iov_len : (size_t)sound;
      result = moves ? syscall(SYS_read, fd, parts[0].iov_base, bytes)
                     : syscall(SYS_pread64, fd, parts[0].iov_base, bytes, offset);
    }
    error = result < 0 ? errno : 0;
  }
  after(&call, result, error);
  return result;
}

ssize_t read(int fd, void *bytes, size_t length) {
  REAL(read);
  struct iovec part = {bytes, length};
  return watched_path(fd) != NULL ? read_call(fd, &part, 1, -1) : real(fd, bytes, length);
}

ssize_t readv(int fd, const struct iovec *parts, int count) {
  REAL(readv);
  return watched_path(fd) != NULL ? read_call(fd, parts, count, -1) : real(fd, parts, count);
}

#define POSITIONED(name, off_type)                                                                                     \
  ssize_t name(int fd, void *bytes, size_t length, off_type offset) {                                                  \
    REAL(name);                                                                                                        \
    struct iovec part = {bytes, length};                                                                               \
    return watched_path(fd) != NULL ? read_call(fd, &part, 1, offset) : real(fd, bytes, length, offset);               \
  }
POSITIONED(pread, off_t)
POSITIONED(pread64, off64_t)

#define POSITIONED_PARTS(name, off_type)                                                                               \
  ssize_t name(int fd, const struct iovec *parts, int count, off_type offset) {                                        \
    REAL(name);                                                                                                        \
    return watched_path(fd) != NULL ? read_call(fd, parts, count, offset) : real(fd, parts, count, offset);            \
  }
POSITIONED_PARTS(preadv, off_t)
POSITIONED_PARTS(preadv64, off64_t)
