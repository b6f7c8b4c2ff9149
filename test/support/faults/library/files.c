#include "faults.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_FDS 65536
static char *_Atomic paths[MOST_FDS];

static const char *root(size_t *length) {
  static const char *known;
  static size_t known_length;
  if (known == NULL) {
    const char *value = getenv("FAULTS_ROOT");
    known_length = value == NULL ? 0 : strlen(value);
    known = value == NULL ? "" : value;
  }
  *length = known_length;
  return known;
}

bool is_below_root(const char *path) {
  size_t length;
  const char *prefix = root(&length);
  return length > 0 && strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Lexically: nothing below the directory is a symbolic link. */
static void normalise(const char *path, char out[4096]) {
  size_t length = 0;
  for (const char *at = path; *at != '\0';) {
    while (*at == '/') at++;
    size_t part = strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.') {
      while (length > 0 && out[--length] != '/') {}
    } else if (part > 0 && !(part == 1 && at[0] == '.') && length + part + 1 < 4095) {
      out[length++] = '/';
      memcpy(out + length, at, part);
      length += part;
    }
    at += part;
  }
  if (length == 0) out[length++] = '/';
  out[length] = '\0';
}

bool resolve_path(int dir_fd, const char *path, char out[4096]) {
  char whole[8192];
  if (path == NULL) return false;
  if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
  else {
    char directory[4096];
    if (dir_fd == AT_FDCWD) {
      if (getcwd(directory, sizeof directory) == NULL) return false;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
      ssize_t length = readlink(link, directory, sizeof directory - 1);
      if (length < 0) return false;
      directory[length] = '\0';
    }
    snprintf(whole, sizeof whole, "%s/%.4000s", directory, path);
  }
  normalise(whole, out);
  return is_below_root(out);
}

void watch(int fd, const char *path) {
  if (fd < 0 || fd >= MOST_FDS) return;
  /* The old path is not freed: another thread may be reading it. Tests are short. */
  paths[fd] = strdup(path);
}

void unwatch(int fd) {
  if (fd >= 0 && fd < MOST_FDS) paths[fd] = NULL;
}

const char *watched_path(int fd) {
  return fd >= 0 && fd < MOST_FDS ? paths[fd] : NULL;
}
