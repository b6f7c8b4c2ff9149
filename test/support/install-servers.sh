#!/bin/sh
# Makes sure that the servers which the tests start privately are installed: MariaDB.
# (PostgreSQL and the S3 server come with npm.) Never starts or changes the machine's own services.
set -eu
PATH="$PATH:/usr/sbin:/usr/local/sbin"

if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null && command -v openssl >/dev/null; then
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  cat >&2 <<'TEXT'
The tests need MariaDB 10.6 or newer (mariadbd, mariadb-install-db) and openssl; something is missing. Install them:
  Debian, Ubuntu:  sudo apt-get install --no-install-recommends mariadb-server openssl
  Fedora:          sudo dnf install mariadb-server openssl
  macOS:           brew install mariadb openssl
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
apt-get install -y -qq --no-install-recommends mariadb-server openssl >&2
command -v mariadbd >/dev/null
