// Stands in for the Arduino core of the ESP32, for a test that compiles and runs a sketch on Linux: as much of it as the sketch
// uses. Time passes a hundred times as fast. The file system is the directory ARDUINO_FILES.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <random>
#include <string>
#include <time.h>
#include <unistd.h>

class String {
 public:
  String(const char *text = "") : text_(text) {}
  explicit String(const std::string &text) : text_(text) {}
  explicit String(unsigned long number) : text_(std::to_string(number)) {}
  unsigned int length() const { return text_.size(); }
  const char *c_str() const { return text_.c_str(); }
  int compareTo(const String &other) const { return text_.compare(other.text_); }
  int indexOf(char one) const { return static_cast<int>(text_.find(one)); }
  String substring(unsigned int from) const { return String(text_.substr(from)); }
  bool startsWith(const String &begin) const { return text_.rfind(begin.text_, 0) == 0; }
  long toInt() const { return atol(text_.c_str()); }
  bool operator==(const char *other) const { return text_ == other; }
  friend String operator+(const String &a, const String &b) { return String(a.text_ + b.text_); }

 private:
  std::string text_;
};

inline uint32_t millis() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  static const uint64_t first = now.tv_sec * 1000000ull + now.tv_nsec / 1000;
  return static_cast<uint32_t>((now.tv_sec * 1000000ull + now.tv_nsec / 1000 - first) / 10);
}
inline void delay(uint32_t ms) { usleep(ms * 10); }
inline uint32_t esp_random() {
  static std::random_device device;
  return device();
}

struct EspClass {
  uint32_t getFreeHeap() { return 200000; }
};
inline EspClass ESP;

struct SerialClass {
  void begin(unsigned long) { setvbuf(stdout, nullptr, _IOLBF, 0); }
  void printf(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
  }
};
inline SerialClass Serial;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual size_t readBytes(char *buffer, size_t length) = 0;
};

void setup();
void loop();
