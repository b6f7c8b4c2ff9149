/*
 * Sends the lines of stdin, one JSON object each, to a pipe, as a small device would: plain sockets, memory of a
 * fixed size, and no library except the system's.
 *
 *   cc -o send send.c && ./send < records.ndjson
 *
 * PIPECTL_HOST, PIPECTL_PORT, PIPECTL_PIPE (the pipe's id) and PIPECTL_API_KEY (scope ingest) name the target. Exits with
 * 0 once every record is stored, otherwise with 1. It speaks http: use TLS across networks that are not yours.
 *
 * On an ESP32 this is the code of a task, with two differences: esp_fill_random() instead of /dev/urandom,
 * vTaskDelay() instead of nanosleep(). TLS is esp_tls_conn_read() and esp_tls_conn_write() instead of recv() and send().
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_BYTES = 8192, HEAD_BYTES = 1024, RESPONSE_BYTES = 1024, ATTEMPTS = 8 };
enum { TIMEOUT_SECONDS = 10, LONGEST_WAIT_SECONDS = 300 };

static const char *host, *port, *pipe_id, *api_key;
static char batch[BATCH_BYTES];
static size_t batch_bytes;
static char response[RESPONSE_BYTES];

static const char *setting(const char *name) {
  const char *value = getenv(name);
  if (value == NULL || *value == '\0') {
    fprintf(stderr, "send: %s must be set\n", name);
    exit(1);
  }
  return value;
}

static int open_socket(void) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
  int fd = -1;
  if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
  for (struct addrinfo *one = found; one != NULL && fd < 0; one = one->ai_next) {
    fd = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (fd < 0) continue;
    /* On Linux, this also limits connect(). */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  return fd;
}

static int send_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return -1;
    bytes += sent;
    length -= (size_t)sent;
  }
  return 0;
}

/* One attempt. Returns the status, 0 if there was no response; response[] gets as much of the response as fits. */
static int post(const char *idempotency_key) {
  char head[HEAD_BYTES];
  size_t got = 0;
  int status = 0, fd;
  int length = snprintf(head, sizeof head,
                        "POST /v1/ingest/%s HTTP/1.1\r\nHost: %s:%s\r\nAuthorization: Bearer %s\r\n"
                        "Content-Type: application/x-ndjson\r\nContent-Length: %zu\r\nIdempotency-Key: %s\r\n"
                        "Connection: close\r\n\r\n",
                        pipe_id, host, port, api_key, batch_bytes, idempotency_key);
  response[0] = '\0';
  if (length < 0 || (size_t)length >= sizeof head || (fd = open_socket()) < 0) return 0;
  if (send_all(fd, head, (size_t)length) == 0 && send_all(fd, batch, batch_bytes) == 0) {
    while (got < sizeof response - 1) {
      ssize_t count = recv(fd, response + got, sizeof response - 1 - got, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      got += (size_t)count;
    }
  }
  close(fd);
  response[got] = '\0';
  /* Only a complete header tells the result of the request. */
  if (strstr(response, "\r\n\r\n") != NULL && sscanf(response, "HTTP/1.%*d %d", &status) != 1) status = 0;
  return status;
}

static double retry_after(void) {
  for (char *line = response; (line = strstr(line, "\r\n")) != NULL && strncmp(line, "\r\n\r\n", 4) != 0;) {
    line += 2;
    if (strncasecmp(line, "Retry-After:", 12) == 0) return strtod(line + 12, NULL);
  }
  return 0;
}

static void wait_seconds(double seconds) {
  struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static void random_bytes(unsigned char *bytes, size_t length) {
  FILE *source = fopen("/dev/urandom", "rb");
  if (source == NULL || fread(bytes, 1, length, source) != length) {
    fputs("send: no random bytes\n", stderr);
    exit(1);
  }
  fclose(source);
}

static void send_batch(void) {
  /* The same key in every attempt: a batch whose response was lost is not stored again. */
  unsigned char random[16];
  char key[2 * sizeof random + 1];
  random_bytes(random, sizeof random);
  for (size_t i = 0; i < sizeof random; i++) sprintf(key + 2 * i, "%02x", random[i]);
  for (int attempt = 0;; attempt++) {
    int status = post(key);
    if (status == 202) break;
    int may_pass = status == 0 || status == 408 || status == 429 || status >= 500;
    if (!may_pass || attempt == ATTEMPTS - 1) {
      /* The error is JSON; a proxy may have put the length of a chunk before it. */
      char *end = strstr(response, "\r\n\r\n"), *error = end == NULL ? NULL : strchr(end, '{');
      fprintf(stderr, "send: %d %s\n", status, error == NULL ? "no response" : error);
      exit(1);
    }
    double seconds = retry_after();
    if (!(seconds > 0)) seconds = (1 << attempt) * (0.5 + random[attempt] / 512.0);
    wait_seconds(seconds < LONGEST_WAIT_SECONDS ? seconds : LONGEST_WAIT_SECONDS);
  }
  batch_bytes = 0;
}

int main(void) {
  char line[BATCH_BYTES];
  long records = 0;
  host = setting("PIPECTL_HOST");
  port = setting("PIPECTL_PORT");
  pipe_id = setting("PIPECTL_PIPE");
  api_key = setting("PIPECTL_API_KEY");
  while (fgets(line, sizeof line, stdin) != NULL) {
    size_t length = strlen(line);
    if (strspn(line, " \t\r\n") == length) continue;
    if (line[length - 1] != '\n') {
      if (length == sizeof line - 1) {
        fprintf(stderr, "send: a record is longer than %d bytes\n", BATCH_BYTES - 2);
        return 1;
      }
      line[length++] = '\n';
    }
    if (batch_bytes + length > sizeof batch) send_batch();
    memcpy(batch + batch_bytes, line, length);
    batch_bytes += length;
    records++;
  }
  if (batch_bytes > 0) send_batch();
  printf("%ld records stored\n", records);
  return 0;
}
