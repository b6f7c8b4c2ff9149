// One HTTP/1.1 request for each connection, over http.
#pragma once
#include <Arduino.h>
#include <WiFiClientSecure.h>
#include <arpa/inet.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>

class HTTPClient {
 public:
  bool begin(WiFiClientSecure &, const String &) { return false; }
  bool begin(const String &url) {
    char path[512];
    return sscanf(url.c_str(), "http://%63[^:]:%d%511s", host_, &port_, path) == 3 && (path_ = path, true);
  }
  void setTimeout(uint16_t ms) { timeoutMs_ = ms / 10; }
  void collectHeaders(const char *[], size_t) {}
  void addHeader(const String &name, const String &value) {
    headers_ += std::string(name.c_str()) + ": " + value.c_str() + "\r\n";
  }
  int sendRequest(const char *method, Stream *stream, size_t size) {
    std::string body(size, 0);
    if (stream->readBytes(&body[0], size) != size) return -3;
    std::string request = std::string(method) + " " + path_ + " HTTP/1.1\r\nHost: " + host_ + "\r\nConnection: close\r\n" +
                          headers_ + "Content-Length: " + std::to_string(size) + "\r\n\r\n" + body;
    int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    inet_pton(AF_INET, host_, &address.sin_addr);
    timeval timeout = {timeoutMs_ / 1000, timeoutMs_ % 1000 * 1000};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    response_.clear();
    if (connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0 &&
        send(socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      char piece[1024];
      for (ssize_t count; (count = recv(socket, piece, sizeof piece, 0)) > 0;) response_.append(piece, count);
    }
    ::close(socket);
    int status;
    return sscanf(response_.c_str(), "HTTP/1.1 %d", &status) == 1 ? status : -1;
  }
  String header(const char *name) {
    std::string wanted = std::string("\r\n") + name + ": ";
    const char *found = strcasestr(response_.c_str(), wanted.c_str());
    return found ? found + wanted.size() : "";
  }
  String getString() {
    size_t end = response_.find("\r\n\r\n");
    return end == std::string::npos ? String() : String(response_.substr(end + 4));
  }
  void end() {}

 private:
  char host_[64] = "";
  int port_ = 0;
  int timeoutMs_ = 100;
  std::string path_, headers_, response_;
};
