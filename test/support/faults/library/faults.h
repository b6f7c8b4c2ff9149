/*
 * A disk that fails on request. Preloaded into a process (LD_PRELOAD) it sees every call that changes something below
 * one directory, gives each a number, and fails it, kills the process at it, pretends that the disk is full, or writes
 * it down. The memory-mapped -shm files of SQLite are left alone: nothing in them outlives the process.
 *
 *   calls.c    the C library's functions, each asking plan.c first and giving trace.c the outcome
 *   plan.c     which call fails and how; counts
 *   trace.c    the record of all calls, for the replay of a power cut
 *   reads.c    the reads: they change nothing, but a bad sector fails them
 *   files.c    which file descriptors and paths lie below the directory
 *
 * Environment (see ../library.ts, which sets it)
 *   FAULTS_ROOT      the directory, absolute, without symbolic links
 *   FAULTS_CONTROL   a file with the plan; read again whenever it changes, which starts the numbering from 1
 *   FAULTS_FULL      while this file exists the disk is full
 *   FAULTS_BAD_SECTORS  a file with ranges that cannot be read; read again whenever it changes
 *   FAULTS_DISK_BYTES  size and free space that the disk shows
 *   FAULTS_COUNTS    the counts, mapped into memory: they can be read after the process was killed
 *   FAULTS_TRACE     the record; appended to
 *   FAULTS_MARKS     a file descriptor: what is written to it goes into the record too (acknowledgements)
 */
#pragma once
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Also the order of the counts in FAULTS_COUNTS and the codes in the record: ../trace.ts has the same list. */
enum kind { CREATE, WRITE, SYNC, DATASYNC, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, LINK, OPEN, DUP, MARK, READ, KINDS };

/* Kinds from here on change nothing: they are not numbered. A plan can ask for reads by name; they are not recorded. */
#define FIRST_UNNUMBERED OPEN

struct call {
  enum kind kind;
  int fd;               /* -1 where the call names a path */
  const char *path;     /* absolute; of the descriptor where the call has one */
  const char *second;   /* target of a rename or link */
  int64_t offset;       /* of a write; the new length of a truncation; the new descriptor of a dup */
  const struct iovec *parts;
  int part_count;
  bool truncates;       /* an open with O_TRUNC */
  bool created;         /* the name was not there before */
};

/* files.c */
bool is_below_root(const char *path);
/* Writes the absolute, lexically normalised path; false when it is not below the directory. */
bool resolve_path(int dir_fd, const char *path, char out[4096]);
void watch(int fd, const char *path);
void unwatch(int fd);
/* NULL when the descriptor is of no file below the directory. */
const char *watched_path(int fd);

/* plan.c */
/* Takes the lock. Returns 0, or the errno with which the call must fail without being done. `keep_bytes` is set when
 * only so many bytes of a write are to be done before the process is killed; -1 otherwise. */
int before(const struct call *call, int64_t *keep_bytes);
/* Gives the lock back. `result` is the call's own, `error` its errno when it failed. */
void after(const struct call *call, int64_t result, int error);
bool is_disk_full(void);
_Noreturn void die(void);

/* reads.c */
/* Whether some range of the file cannot be read. */
bool has_bad_sector(int fd);

/* trace.c */
void record(const struct call *call, uint64_t number, int64_t result);
bool is_recording(void);
int mark_fd(void);
