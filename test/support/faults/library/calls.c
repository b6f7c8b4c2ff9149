#include "faults.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library's own function of a name that is defined here. */
#define REAL(name)                                                                                                     \
  static __typeof__(&name) real;                                                                                       \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Does `expression` as the numbered call `call`, or fails as the plan says. */
#define AS_CALL(call, expression)                                                                                      \
  ({                                                                                                                   \
    int64_t keep_bytes_;                                                                                               \
    int error_ = before(&(call), &keep_bytes_);                                                                        \
    int64_t result_ = -1;                                                                                              \
    if (error_ == 0) {                                                                                                 \
      errno = 0;                                                                                                       \
      result_ = (expression);                                                                                          \
      error_ = result_ < 0 ? errno : 0;                                                                                \
    }                                                                                                                  \
    after(&(call), result_, error_);                                                                                   \
    result_;                                                                                                           \
  })

/* A name that is there already is found before space is looked for. */
static bool has_room_for(const char *path) {
  if (!is_disk_full() || access(path, F_OK) == 0) return true;
  errno = ENOSPC;
  return false;
}

/* --- writes --- */

static int64_t whole_length(const struct iovec *parts, int count) {
  int64_t sum = 0;
  for (int part = 0; part < count; part++) sum += (int64_t)parts[part].iov_len;
  return sum;
}

/* On a full disk a write may still fill the last block of the file: real disks answer with a short write then. */
static int64_t room_for(int fd, int64_t offset, int64_t length) {
  struct stat file;
  if (!is_disk_full() || fstat(fd, &file) != 0) return length;
  int64_t allocated = (file.st_size + 4095) / 4096 * 4096;
  int64_t room = allocated - offset;
  return room >= length ? length : room > 0 ? room : 0;
}

static int64_t do_write(int fd, const struct iovec *parts, int count, int64_t offset, bool moves) {
  int64_t length = whole_length(parts, count);
  int64_t room = room_for(fd, offset, length);
  if (room == 0 && length > 0) {
    errno = ENOSPC;
    return -1;
  }
  if (room == length)
    return moves ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0);
  /* Writes as much of the first part as fits: the caller calls again with the rest. */
  size_t bytes = (int64_t)parts[0].iov_len < room ? parts[0].iov_len : (size_t)room;
  return moves ? syscall(SYS_write, fd, parts[0].iov_base, bytes)
               : syscall(SYS_pwrite64, fd, parts[0].iov_base, bytes, offset);
}

/* `offset` -1: at the file's own position, which moves. */
static ssize_t write_call(int fd, const struct iovec *parts, int count, int64_t offset) {
  bool moves = offset < 0;
  if (moves) {
    struct stat file;
    bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
    offset = appends && fstat(fd, &file) == 0 ? file.st_size : lseek(fd, 0, SEEK_CUR);
  }
  struct call call = {WRITE, fd, watched_path(fd), NULL, offset, parts, count, false, false};
  int64_t keep;
  int error = before(&call, &keep);
  if (keep >= 0) {
    size_t first = parts[0].iov_len;
    syscall(SYS_pwrite64, fd, parts[0].iov_base, keep < (int64_t)first ? (size_t)keep : first, offset);
    die();
  }
  int64_t result = -1;
  if (error == 0) {
    result = do_write(fd, parts, count, offset, moves);
    error = result < 0 ? errno : 0;
  }
  after(&call, result, error);
  return result;
}

static ssize_t write_mark(int fd, const void *bytes, size_t length) {
  struct iovec part = {(void *)bytes, length};
  struct call call = {MARK, fd, NULL, NULL, 0, &part, 1, false, false};
  return AS_CALL(call, syscall(SYS_write, fd, bytes, length));
}

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL(write);
  struct iovec part = {(void *)bytes, length};
  if (watched_path(fd) != NULL) return write_call(fd, &part, 1, -1);
  if (fd == mark_fd()) return write_mark(fd, bytes, length);
  return real(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev);
  return watched_path(fd) != NULL ? write_call(fd, parts, count, -1) : real(fd, parts, count);
}

#define POSITIONED(name, off_type)                                                                                     \
  ssize_t name(int fd, const void *bytes, size_t length, off_type offset) {                                            \
    REAL(name);                                                                                                        \
    struct iovec part = {(void *)bytes, length};                                                                       \
    return watched_path(fd) != NULL ? write_call(fd, &part, 1, offset) : real(fd, bytes, length, offset);              \
  }
POSITIONED(pwrite, off_t)
POSITIONED(pwrite64, off64_t)

#define POSITIONED_PARTS(name, off_type)                                                                               \
  ssize_t name(int fd, const struct iovec *parts, int count, off_type offset) {                                        \
    REAL(name);                                                                                                        \
    return watched_path(fd) != NULL ? write_call(fd, parts, count, offset) : real(fd, parts, count, offset);           \
  }
POSITIONED_PARTS(pwritev, off_t)
POSITIONED_PARTS(pwritev64, off64_t)

/* --- syncs and truncations --- */

#define SYNCING(name, kind_)                                                                                           \
  int name(int fd) {                                                                                                   \
    REAL(name);                                                                                                        \
    if (watched_path(fd) == NULL) return real(fd);                                                                     \
    struct call call = {kind_, fd, watched_path(fd), NULL, 0, NULL, 0, false, false};                                  \
    return (int)AS_CALL(call, real(fd));                                                                               \
  }
SYNCING(fsync, SYNC)
SYNCING(fdatasync, DATASYNC)

#define FD_TRUNCATING(name, off_type)                                                                                  \
  int name(int fd, off_type length) {                                                                                  \
    REAL(name);                                                                                                        \
    if (watched_path(fd) == NULL) return real(fd, length);                                                             \
    struct call call = {TRUNCATE, fd, watched_path(fd), NULL, length, NULL, 0, false, false};                          \
    return (int)AS_CALL(call, real(fd, length));                                                                       \
  }
FD_TRUNCATING(ftruncate, off_t)
FD_TRUNCATING(ftruncate64, off64_t)

#define PATH_TRUNCATING(name, off_type)                                                                                \
  int name(const char *path, off_type length) {                                                                        \
    REAL(name);                                                                                                        \
    char whole[4096];                                                                                                  \
    if (!resolve_path(AT_FDCWD, path, whole)) return real(path, length);                                               \
    struct call call = {TRUNCATE, -1, whole, NULL, length, NULL, 0, false, false};                                     \
    return (int)AS_CALL(call, real(path, length));                                                                     \
  }
PATH_TRUNCATING(truncate, off_t)
PATH_TRUNCATING(truncate64, off64_t)

/* --- names --- */

static int open_call(int dir_fd, const char *path, int flags, mode_t mode) {
  char whole[4096];
  if (!resolve_path(dir_fd, path, whole)) {
    int fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    if (fd >= 0) unwatch(fd);
    return fd;
  }
  bool creates = (flags & O_CREAT) != 0;
  bool truncates = (flags & O_TRUNC) != 0;
  struct call call = {creates || truncates ? CREATE : OPEN, -1, whole, NULL, 0, NULL, 0, truncates, false};
  call.created = creates && access(whole, F_OK) != 0;
  int64_t keep;
  int error = before(&call, &keep);
  int fd = -1;
  if (error == 0) {
    fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    error = fd < 0 ? errno : 0;
    if (fd >= 0) watch(fd, whole);
  }
  call.fd = fd;
  after(&call, fd, error);
  return fd;
}

#define OPENING(name)                                                                                                  \
  int name(const char *path, int flags, ...) {                                                                         \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode_t mode = va_arg(more, mode_t);                                                                                \
    va_end(more);                                                                                                      \
    return open_call(AT_FDCWD, path, flags, mode);                                                                     \
  }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                                                               \
  int name(int dir_fd, const char *path, int flags, ...) {                                                             \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode_t mode = va_arg(more, mode_t);                                                                                \
    va_end(more);                                                                                                      \
    return open_call(dir_fd, path, flags, mode);                                                                       \
  }
OPENING_AT(openat)
OPENING_AT(openat64)

int creat(const char *path, mode_t mode) { return open_call(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  REAL(close);
  unwatch(fd);
  return real(fd);
}

static void follow_dup(int from, int to) {
  const char *path = watched_path(from);
  if (to < 0) return;
  if (path == NULL) {
    unwatch(to);
    return;
  }
  watch(to, path);
  struct call call = {DUP, from, path, NULL, to, NULL, 0, false, false};
  int64_t keep;
  before(&call, &keep);
  after(&call, 0, 0);
}

int dup(int fd) {
  REAL(dup);
  int copy = real(fd);
  follow_dup(fd, copy);
  return copy;
}

int dup2(int fd, int to) {
  REAL(dup2);
  int copy = real(fd, to);
  follow_dup(fd, copy);
  return copy;
}

#define NAME_CALL(kind_, dir_fd, path, expression)                                                                     \
  char whole[4096];                                                                                                    \
  if (!resolve_path(dir_fd, path, whole)) return expression;                                                           \
  struct call call = {kind_, -1, whole, NULL, 0, NULL, 0, false, false};                                               \
  return (int)AS_CALL(call, expression)

int unlink(const char *path) {
  REAL(unlink);
  NAME_CALL(UNLINK, AT_FDCWD, path, real(path));
}


int unlinkat(int dir_fd, const char *path, int flags) {
  REAL(unlinkat);
  NAME_CALL((flags & AT_REMOVEDIR) != 0 ? RMDIR : UNLINK, dir_fd, path, real(dir_fd, path, flags));
}

int rmdir(const char *path) {
  REAL(rmdir);
  NAME_CALL(RMDIR, AT_FDCWD, path, real(path));
}

/* fs.rmSync calls it from Node.js 24 on. It works as in glibc, whose own calls of these two cannot be counted. */
int remove(const char *path) {
  if (unlink(path) == 0) return 0;
  return errno == EISDIR ? rmdir(path) : -1;
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  NAME_CALL(MKDIR, AT_FDCWD, path, has_room_for(whole) ? real(path, mode) : -1);
}

int mkdirat(int dir_fd, const char *path, mode_t mode) {
  REAL(mkdirat);
  NAME_CALL(MKDIR, dir_fd, path, has_room_for(whole) ? real(dir_fd, path, mode) : -1);
}

/* The name is known only afterwards: it is recorded as a mkdir, and can be failed by the full disk alone. */
char *mkdtemp(char *template) {
  REAL(mkdtemp);
  char whole[4096];
  if (!resolve_path(AT_FDCWD, template, whole)) return real(template);
  if (!has_room_for(whole)) return NULL;
  struct call call = {MKDIR, -1, whole, NULL, 0, NULL, 0, false, false};
  char *made = NULL;
  AS_CALL(call, ({
            made = real(template);
            resolve_path(AT_FDCWD, template, whole);
            made == NULL ? -1 : 0;
          }));
  return made;
}

#define TWO_NAMES(kind_, from_fd, from, to_fd, to, expression)                                                         \
  char first[4096], second[4096];                                                                                      \
  bool is_first_below = resolve_path(from_fd, from, first), is_second_below = resolve_path(to_fd, to, second);         \
  if (!is_first_below && !is_second_below) return expression;                                                          \
  struct call call = {kind_, -1, first, second, 0, NULL, 0, false, false};                                             \
  return (int)AS_CALL(call, expression)

int rename(const char *from, const char *to) {
  REAL(rename);
  TWO_NAMES(RENAME, AT_FDCWD, from, AT_FDCWD, to, real(from, to));
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
  REAL(renameat);
  TWO_NAMES(RENAME, from_fd, from, to_fd, to, real(from_fd, from, to_fd, to));
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags) {
  REAL(renameat2);
  TWO_NAMES(RENAME, from_fd, from, to_fd, to, real(from_fd, from, to_fd, to, flags));
}

int link(const char *from, const char *to) {
  REAL(link);
  TWO_NAMES(LINK, AT_FDCWD, from, AT_FDCWD, to, real(from, to));
}

/* --- what has a fallback that is seen above: the caller is sent there --- */

int posix_fallocate(int fd, off_t offset, off_t length) {
  REAL(posix_fallocate);
  return watched_path(fd) != NULL ? EOPNOTSUPP : real(fd, offset, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  REAL(fallocate);
  if (watched_path(fd) == NULL) return real(fd, mode, offset, length);
  errno = EOPNOTSUPP;
  return -1;
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
  static ssize_t (*real)(int, int, off64_t *, size_t);
  if (real == NULL) real = (ssize_t(*)(int, int, off64_t *, size_t))dlsym(RTLD_NEXT, "sendfile64");
  if (watched_path(out) == NULL && !has_bad_sector(in)) return real(out, in, offset, count);
  errno = has_bad_sector(in) ? EIO : EINVAL;
  return -1;
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (real == NULL) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long args[6];
  va_list more;
  va_start(more, number);
  for (int n = 0; n < 6; n++) args[n] = va_arg(more, long);
  va_end(more);
  /* libuv closes files by this call. A socket can get the number next. */
  if (number == SYS_close) unwatch((int)args[0]);
  if (number == SYS_copy_file_range && (watched_path((int)args[2]) != NULL || has_bad_sector((int)args[0]))) {
    errno = has_bad_sector((int)args[0]) ? EIO : ENOSYS;
    return -1;
  }
  return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* --- free space --- */

static uint64_t disk_bytes(void) {
  const char *text = getenv("FAULTS_DISK_BYTES");
  return text == NULL ? 0 : strtoull(text, NULL, 10);
}

#define SPACE(name, type)                                                                                              \
  int name(const char *path, struct type *space) {                                                                     \
    REAL(name);                                                                                                        \
    char whole[4096];                                                                                                  \
    int result = real(path, space);                                                                                    \
    if (result != 0 || !resolve_path(AT_FDCWD, path, whole)) return result;                                            \
    uint64_t blocks = disk_bytes() / (uint64_t)space->f_bsize;                                                         \
    if (blocks > 0 && blocks < space->f_bavail) space->f_blocks = space->f_bfree = space->f_bavail = blocks;           \
    if (is_disk_full()) space->f_bavail = space->f_bfree = 0;                                                          \
    return 0;                                                                                                          \
  }
SPACE(statfs, statfs)
SPACE(statfs64, statfs64)
SPACE(statvfs, statvfs)
SPACE(statvfs64, statvfs64)
