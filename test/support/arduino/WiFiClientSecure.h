#pragma once

// The test sends over http. This only compiles.
struct WiFiClientSecure {
  void setCACert(const char *) {}
};
