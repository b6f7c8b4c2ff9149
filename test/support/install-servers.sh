#!/bin/sh
# Makes sure that what the tests start privately is installed: MariaDB, and the tools that do to the daemon what the world
# does: strace (a failing fsync), faketime (a wrong clock), tmux (a terminal), systemd-analyze (the unit file), python3 (the other
# end of the notify socket), gcc (the library that makes a disk fail, which is built here), chromium (uses the dashboard), promtool
# (tries the alert rules; it comes with Prometheus, 19 MB to load and 96 MB on disk), nats-server (the buffer of a cluster), and what
# the commands of the guides use: psql, curl, jq, script (a terminal). man and groff (man-db) check the man page.
# go and php run the examples in their languages, as python3, gcc and curl do.
# (PostgreSQL and the S3 server come with npm.) Never starts or changes the machine's own services.
set -eu
PATH="$PATH:/usr/sbin:/usr/local/sbin"

missing=
for name in mariadbd mariadb-install-db openssl strace faketime tmux systemd-analyze python3 gcc chromium promtool nats-server psql curl jq script man groff go php; do
  command -v "$name" >/dev/null || missing="$missing $name"
done
build_fault_library() {
  sh "$(dirname "$0")/faults/build.sh" >/dev/null
}
if [ -z "$missing" ]; then
  build_fault_library
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests need MariaDB 10.6 or newer, openssl, strace, faketime, tmux, systemd-analyze, python3, gcc, Chromium, promtool, nats-server, psql, curl, jq, script, man, Go and PHP; missing:$missing. Install them:" >&2
  cat >&2 <<'TEXT'
  Debian, Ubuntu:  sudo apt-get install --no-install-recommends mariadb-server openssl strace faketime tmux systemd python3 gcc libc6-dev chromium prometheus nats-server postgresql-client curl jq bsdutils man-db golang-go php-cli
  Fedora:          sudo dnf install mariadb-server openssl strace libfaketime tmux systemd python3 gcc chromium golang-github-prometheus nats-server postgresql curl jq util-linux man-db groff-base golang php-cli
  macOS:           the tests of failing disks and clocks need Linux; run them in a Debian container
The tests start their own private server: the system service need not run.
TEXT
  exit 1
fi

# Debian starts a service as soon as its package is installed. policy-rc.d answering 101 is Debian's way to say no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends mariadb-server openssl strace faketime tmux systemd python3 gcc libc6-dev chromium fonts-dejavu-core prometheus nats-server postgresql-client curl jq bsdutils man-db golang-go php-cli >&2
command -v mariadbd >/dev/null
build_fault_library
