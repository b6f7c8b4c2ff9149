#pragma once
#include <Arduino.h>

#define WL_CONNECTED 3

struct WiFiClass {
  void begin(const char *, const char *) {}
  int status() { return WL_CONNECTED; }
  String macAddress() { return "00:00:5E:00:53:01"; }
};
inline WiFiClass WiFi;
