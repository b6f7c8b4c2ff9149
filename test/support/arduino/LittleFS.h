// A file of LittleFS is written when it is closed, completely or not at all: here by a rename.
#pragma once
#include <Arduino.h>
#include <dirent.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <vector>

#define FILE_READ "r"
#define FILE_APPEND "a"

class File : public Stream {
 public:
  File() = default;
  File(const std::string &path, const char *mode) : path_(path), isWritten_(*mode == 'a'), isOpen_(true) {
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      list();
      return;
    }
    std::ifstream file(path, std::ios::binary);
    isOpen_ = isWritten_ || file.good();
    std::stringstream content;
    content << file.rdbuf();
    content_ = content.str();
  }
  operator bool() const { return isOpen_; }
  const char *name() const { return strrchr(path_.c_str(), '/') + 1; }
  size_t size() const { return content_.size(); }
  size_t print(const String &text) { return content_ += text.c_str(), text.length(); }
  size_t readBytes(char *buffer, size_t length) override {
    size_t count = content_.copy(buffer, length, read_);
    return read_ += count, count;
  }
  File openNextFile() { return next_ < entries_.size() ? File(path_ + "/" + entries_[next_++], FILE_READ) : File(); }
  void close() {
    if (!isWritten_) return;
    std::ofstream(path_ + "~", std::ios::binary) << content_;
    rename((path_ + "~").c_str(), path_.c_str());
    isWritten_ = false;
  }

 private:
  void list() {
    DIR *directory = opendir(path_.c_str());
    for (dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
      std::string name = entry->d_name;
      if (name[0] != '.' && name.back() != '~') entries_.push_back(name);
    }
    closedir(directory);
  }

  std::string path_, content_;
  std::vector<std::string> entries_;
  size_t read_ = 0, next_ = 0;
  bool isWritten_ = false, isOpen_ = false;
};

struct LittleFSClass {
  static std::string path(const String &name) { return std::string(getenv("ARDUINO_FILES")) + name.c_str(); }
  bool begin(bool) { return true; }
  bool mkdir(const String &name) { return ::mkdir(path(name).c_str(), 0700) == 0; }
  bool exists(const String &name) { return access(path(name).c_str(), F_OK) == 0; }
  bool remove(const String &name) { return unlink(path(name).c_str()) == 0; }
  bool rename(const String &from, const String &to) { return ::rename(path(from).c_str(), path(to).c_str()) == 0; }
  File open(const String &name, const char *mode = FILE_READ) { return File(path(name), mode); }
};
inline LittleFSClass LittleFS;
