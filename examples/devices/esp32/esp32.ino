/*
 * Sends measurements of an ESP32 to a pipe: a queue in flash memory, batches, and the same Idempotency-Key in every attempt.
 *
 *   measure() ──▶ /queue/open ──full, or old──▶ /queue/00000007-KEY ──202──▶ removed
 *                                                                  └─400, 413, 422──▶ /rejected
 *
 * LittleFS writes a file completely or not at all when it is closed, so a reset at any moment leaves whole records. A batch
 * that was sent before a reset is sent again with its key, and is stored once.
 *
 * Arduino core for the ESP32, 2.0 or newer; no library. Set the five constants, and a partition scheme with a file system.
 * CA is the certificate of the authority that signed the daemon's. Without one the key can be read on its way.
 */
#include <Arduino.h>
#include <HTTPClient.h>
#include <LittleFS.h>
#include <WiFi.h>
#include <WiFiClientSecure.h>

#ifndef INGEST_URL
#define INGEST_URL "https://pipes.example.com/v1/ingest/PIPE_ID"
#define API_KEY "ppl1_…"
#define WIFI_NAME "…"
#define WIFI_PASSWORD "…"
#define CA "-----BEGIN CERTIFICATE-----\n…"
#endif

const uint32_t MEASURE_EVERY_MS = 10000;
const uint32_t BATCH_MS = 60000;
const size_t BATCH_BYTES = 8192;
// 64 batches are half a megabyte. More than that drops the oldest.
const size_t QUEUE_BATCHES = 64;
const uint32_t FIRST_WAIT_MS = 1000;
const uint32_t LONGEST_WAIT_MS = 300000;

static const char *OPEN = "/queue/open";
static uint32_t lastNumber = 0;
static uint32_t openedMs = 0, measuredMs = 0;
static uint32_t failures = 0, failedMs = 0, waitMs = 0;
static uint32_t dropped = 0;
static WiFiClientSecure tls;

// One JSON object. Put the time of the event into it if the device knows it: the time that pipectl adds is that of arrival.
static String measure() {
  static uint32_t n = 0;
  static const uint32_t boot = esp_random();
  String record = "{\"device\":\"" + WiFi.macAddress() + "\",\"boot\":" + String((unsigned long)boot) + ",\"n\":" + String((unsigned long)n++);
  return record + ",\"uptime_ms\":" + String((unsigned long)millis()) + ",\"free_heap\":" + String((unsigned long)ESP.getFreeHeap()) + "}\n";
}

// The closed batch with the lowest number, and their count. Empty if there is none.
static String oldestBatch(size_t *count) {
  String oldest;
  *count = 0;
  File directory = LittleFS.open("/queue");
  for (File file = directory.openNextFile(); file; file = directory.openNextFile()) {
    String name = file.name();
    if (name == "open") continue;
    (*count)++;
    if (oldest.length() == 0 || name.compareTo(oldest) < 0) oldest = name;
    uint32_t number = strtoul(name.c_str(), nullptr, 16);
    if (number > lastNumber) lastNumber = number;
  }
  return oldest;
}

// From here on its bytes do not change: the key stands for them.
static void closeBatch() {
  char name[64];
  snprintf(name, sizeof name, "/queue/%08lx-%08lx%08lx%08lx%08lx", (unsigned long)++lastNumber, (unsigned long)esp_random(),
           (unsigned long)esp_random(), (unsigned long)esp_random(), (unsigned long)esp_random());
  LittleFS.rename(OPEN, name);
  size_t count;
  String oldest = oldestBatch(&count);
  if (count > QUEUE_BATCHES) {
    LittleFS.remove("/queue/" + oldest);
    Serial.printf("queue full: %lu batches dropped\n", (unsigned long)++dropped);
  }
}

static void keep(const String &record) {
  File file = LittleFS.open(OPEN, FILE_APPEND);
  if (file.size() == 0) openedMs = millis();
  file.print(record);
  size_t size = file.size();
  file.close();
  if (size >= BATCH_BYTES) closeBatch();
}

// The status of the response, or a negative number without one.
static int post(const String &name, uint32_t *retryAfterMs) {
  File file = LittleFS.open("/queue/" + name, FILE_READ);
  HTTPClient http;
  const char *wanted[] = {"Retry-After"};
  String url = INGEST_URL;
  bool isOpen = url.startsWith("https:") ? http.begin(tls, url) : http.begin(url);
  if (!isOpen) return -1;
  http.setTimeout(10000);
  http.collectHeaders(wanted, 1);
  http.addHeader("Authorization", String("Bearer ") + API_KEY);
  http.addHeader("Content-Type", "application/x-ndjson");
  http.addHeader("Idempotency-Key", name.substring(name.indexOf('-') + 1));
  int status = http.sendRequest("POST", &file, file.size());
  *retryAfterMs = 1000UL * (uint32_t)http.header("Retry-After").toInt();
  if (status >= 300) Serial.printf("%d %s\n", status, http.getString().c_str());
  http.end();
  file.close();
  return status;
}

static void later(uint32_t retryAfterMs) {
  uint32_t backoff = FIRST_WAIT_MS << (failures < 9 ? failures : 9);
  failures++;
  if (backoff > LONGEST_WAIT_MS) backoff = LONGEST_WAIT_MS;
  // A random part, so that not all devices return in the same second after an outage.
  backoff = backoff / 2 + esp_random() % (backoff / 2 + 1);
  waitMs = retryAfterMs > backoff ? retryAfterMs : backoff;
  failedMs = millis();
}

static void sendOldest() {
  if (WiFi.status() != WL_CONNECTED || millis() - failedMs < waitMs) return;
  size_t count;
  String name = oldestBatch(&count);
  if (count == 0) return;
  uint32_t retryAfterMs = 0;
  int status = post(name, &retryAfterMs);
  // 400, 413, 422: the same bytes are never accepted. Check the record of measure(). The newest such batch is kept.
  bool isRejected = status == 400 || status == 413 || status == 422;
  if (status != 202 && !isRejected) return later(retryAfterMs);
  if (isRejected) {
    Serial.printf("rejected: %lu batches dropped\n", (unsigned long)++dropped);
    LittleFS.rename("/queue/" + name, "/rejected");
  } else {
    LittleFS.remove("/queue/" + name);
  }
  failures = waitMs = 0;
}

void setup() {
  Serial.begin(115200);
  LittleFS.begin(true);
  LittleFS.mkdir("/queue");
  size_t count;
  oldestBatch(&count);
  // The last records before the reset. They were in no request.
  if (LittleFS.exists(OPEN)) closeBatch();
  tls.setCACert(CA);
  WiFi.begin(WIFI_NAME, WIFI_PASSWORD);
}

void loop() {
  if (millis() - measuredMs >= MEASURE_EVERY_MS) {
    measuredMs = millis();
    String record = measure();
    keep(record);
    Serial.printf("kept %s", record.c_str());
  }
  if (LittleFS.exists(OPEN) && millis() - openedMs >= BATCH_MS) closeBatch();
  sendOldest();
  delay(100);
}
