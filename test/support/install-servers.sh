#!/bin/sh
# Makes sure that what the tests start privately is installed: MariaDB, and the tools that do to the daemon what the world
# does: strace (a failing fsync), faketime (a wrong clock), tmux (a terminal), systemd-analyze (the unit file), python3 (the other
# end of the notify socket), gcc (the library that makes a disk fail, which is built here), chromium (uses the dashboard), promtool
# (tries the alert rules; it comes with Prometheus, 19 MB to load and 96 MB on disk), nats-server (the buffer of a cluster), and what
# the commands of the guides use: psql, curl, jq, script (a terminal). man and groff (man-db) check the man page.
# zsh and fish, beside bash, ask for completions.
# go and php run the examples in their languages, as python3, gcc and curl do.
# dpkg-shlibdeps and lintian make and check the Debian package, debootstrap makes the Debian that it is installed in.
# caddy, nginx and haproxy stand before the daemon, with the files of examples/proxies.
# (PostgreSQL and the S3 server come with npm.) Never starts or changes the machine's own services.
#
# nats-server must be one that keeps what it acknowledged when a paused leader goes on (docs/cluster.md). Debian 12 has an older
# one: there it is taken from Debian 13 and put beside it, for the tests alone.
set -eu
nats_oldest=2.10.27
nats_suite=trixie
nats_place=/usr/local/lib/pipectl-tests/bin
PATH="$nats_place:$PATH:/usr/sbin:/usr/local/sbin"

is_at_least() {
  [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}
has_nats_server() {
  version=$(nats-server --version 2>/dev/null | sed -n 's/^nats-server: v//p')
  [ -n "$version" ] && is_at_least "$version" "$nats_oldest"
}
# The headless shell takes a third less CPU in the tests of the dashboard; where it is not packaged, Chromium does the same.
has_chromium() {
  command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null
# apt with sources, lists and archives in a directory of its own; it verifies the suite's signature with Debian's keyring.
fetch_nats_server() {
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | head -n 1)
  if [ -z "$mirror" ] || [ ! -e "$keyring" ]; then
    echo "The tests need nats-server $nats_oldest or newer, which this machine's apt does not have: put one on the PATH." >&2
    return 1
  fi
  own=$(mktemp -d)
  mkdir -p "$own/lists/partial" "$own/archives/partial" "$own/unpacked" "$nats_place"
  # apt downloads as a user without rights.
  chmod 755 "$own"
  chown -R _apt "$own" 2>/dev/null || true
  echo "deb [signed-by=$keyring] $mirror $nats_suite main" >"$own/sources.list"
  set -- -qq -o "Dir::Etc::sourcelist=$own/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$own/lists" \
    -o "Dir::Cache=$own" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
  apt-get "$@" update >&2 && (cd "$own/archives" && apt-get "$@" download nats-server >&2) &&
    dpkg-deb -x "$own"/archives/nats-server_*.deb "$own/unpacked" &&
    install -m 755 "$own/unpacked/usr/sbin/nats-server" "$nats_place/nats-server" || { rm -rf "$own"; return 1; }
  rm -rf "$own"
}

missing=
for name in mariadbd mariadb-install-db openssl strace faketime tmux systemd-analyze python3 gcc promtool psql curl jq script man groff go php dpkg-shlibdeps lintian debootstrap caddy nginx haproxy zsh fish; do
  command -v "$name" >/dev/null || missing="$missing $name"
done
has_nats_server || missing="$missing nats-server"
has_chromium || missing="$missing chromium-headless-shell"
build_fault_library() {
  sh "$(dirname "$0")/faults/build.sh" >/dev/null
}
if [ -z "$missing" ]; then
  build_fault_library
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests need MariaDB 10.6 or newer, openssl, strace, faketime, tmux, zsh, fish, systemd-analyze, python3, gcc, Chromium, promtool, nats-server $nats_oldest or newer, psql, curl, jq, script, man, Go, PHP, dpkg-dev, lintian and debootstrap; missing:$missing. Install them:" >&2
  cat >&2 <<'TEXT'
  Debian 13:       sudo apt-get install --no-install-recommends mariadb-server openssl strace faketime tmux systemd python3 gcc libc6-dev chromium-headless-shell prometheus nats-server postgresql-client caddy nginx-light haproxy curl jq bsdutils man-db golang-go php-cli dpkg-dev lintian debootstrap zsh fish
  Debian 12:       run this script as root: its own nats-server is too old, so that one comes from Debian 13
  Fedora:          sudo dnf install mariadb-server openssl strace libfaketime tmux systemd python3 gcc chromium golang-github-prometheus nats-server postgresql curl jq util-linux man-db groff-base golang php-cli zsh fish
  macOS:           the tests of failing disks and clocks, and of the Debian package, need Linux; run them in a Debian container
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
apt-get install -y -qq --no-install-recommends mariadb-server openssl strace faketime tmux systemd python3 gcc libc6-dev chromium-headless-shell fonts-dejavu-core prometheus postgresql-client caddy nginx-light haproxy curl jq bsdutils man-db golang-go php-cli dpkg-dev lintian debootstrap zsh fish >&2
if ! has_nats_server; then
  offered=$(apt-cache policy nats-server | sed -n 's/^ *Candidate: *//p')
  if [ "$offered" != "(none)" ] && [ -n "$offered" ] && is_at_least "$offered" "$nats_oldest"; then
    apt-get install -y -qq --no-install-recommends nats-server >&2
  else
    fetch_nats_server
  fi
fi
has_nats_server
command -v mariadbd >/dev/null
build_fault_library
