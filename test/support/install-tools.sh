#!/bin/sh
# Installs the tools that only the full tier of the tests needs. The fast tier installs nothing: programs.ts finds or unpacks
# what it starts.
#
# man and groff check the man page. zsh and fish, as well as bash, ask for completions. systemd-analyze checks the unit file. go
# and php run the examples in their languages. dpkg-shlibdeps and lintian make and check the Debian package; debootstrap makes
# the Debian that it is installed in. gpg and dpkg-scanpackages sign releases and list their packages. mypy checks the types of
# the Python client, and pip3 installs it. haproxy runs with the backend of docs/cluster.md. podman
# and runc build and run the image, shellcheck reads vendor/install.sh.
# Never starts or changes the machine's own services.
set -eu
PATH="$PATH:/usr/sbin:/usr/local/sbin"
tools='man groff zsh fish systemd-analyze go php dpkg-shlibdeps dpkg-scanpackages lintian debootstrap gpg mypy pip3'
tools="$tools haproxy podman runc shellcheck"
packages='man-db zsh fish systemd golang-go php-cli dpkg-dev lintian debootstrap gnupg mypy python3-pip haproxy'
packages="$packages podman runc shellcheck"

missing=
for name in $tools; do
  command -v "$name" >/dev/null || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "The full tier of the tests needs these tools:$missing. Install them:" >&2
  cat >&2 <<TEXT
  Debian:  sudo apt-get install --no-install-recommends $packages
  Fedora:  sudo dnf install man-db groff-base zsh fish golang php-cli python3-mypy python3-pip haproxy podman runc ShellCheck (the Debian package needs a Debian)
  macOS:   run them in a Debian container: failing disks, clocks and the Debian package need Linux
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
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $packages >&2
