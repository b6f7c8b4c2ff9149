// The sketch as a Linux program. Its settings come from the environment.
#define INGEST_URL getenv("PIPECTL_INGEST_URL")
#define API_KEY getenv("PIPECTL_API_KEY")
#define WIFI_NAME ""
#define WIFI_PASSWORD ""
#define CA ""
#include SKETCH

int main() {
  setup();
  for (;;) loop();
}
