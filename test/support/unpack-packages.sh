#!/bin/sh
# Unpacks Debian packages below a directory, without root and without changing anything else on the machine.
#
#   unpack-packages.sh DIRECTORY PACKAGE [MINIMUM_VERSION]
#   unpack-packages.sh DIRECTORY PACKAGE --suite SUITE
#
# apt runs with state, lists and archives of its own and verifies signatures with the machine's keys. Its list of installed
# packages is empty, so the result does not depend on what the machine has today: PACKAGE and everything it depends on ends up
# in DIRECTORY/root, except for the C library, which must be the machine's own because the loader is.
# A package with MINIMUM_VERSION is one static program: it is unpacked without dependencies, and comes from Debian 13 where the
# machine's own sources have an older version.
# With --suite the packages come from that release of Debian only, on the mirror of the machine's own sources, and the C library
# is unpacked as well: debian-programs.ts makes the programs load it. DIRECTORY must not be shared between releases.
#
# The lock makes test files that run in parallel wait for each other. DIRECTORY/unpacked has a file for each complete archive
# and package, so an interrupted run continues where it stopped.
set -eu
directory=$1
package=$2
minimum=${3:-}
suite=
if [ "$minimum" = --suite ]; then
  minimum=
  suite=$4
fi

root=$directory/root
mkdir -p "$root" "$directory/unpacked"
exec 9>"$directory/lock"
flock 9
[ ! -e "$directory/unpacked/$package" ] || exit 0
echo "tests: getting $package …" >&2

# As root apt would download as the user _apt, which may not enter this directory.
configure_apt() {
  state=$directory/$1
  mkdir -p "$state/lists/partial" "$state/archives/partial"
  : >"$state/status"
  cat >"$state/apt.conf" <<TEXT
Dir::State "$state";
Dir::State::lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
quiet "2";
TEXT
  export APT_CONFIG="$state/apt.conf"
}
# Once per hour. A source that cannot be reached does not matter if another one has the package.
update_lists() {
  [ -z "$(find "$state" -name updated -mmin -60)" ] || return 0
  apt-get update >&2 || true
  : >"$state/updated"
}
candidate() {
  apt-cache policy "$package" | sed -n 's/^ *Candidate: *//p'
}
is_new_enough() {
  [ -n "$1" ] && [ "$1" != "(none)" ] && dpkg --compare-versions "$1" ge "$minimum"
}
# The mirror of Debian among the sources of apt whose lists were fetched.
mirror_of_debian() {
  apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | head -n 1
}
# The lists of one release of Debian only, verified with Debian's keyring.
use_debian() {
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(mirror_of_debian)
  [ -n "$mirror" ] && [ -e "$keyring" ] || return 0
  configure_apt "apt-$1"
  echo "deb [signed-by=$keyring] $mirror $1 main" >"$state/sources.list"
  printf 'Dir::Etc::sourcelist "%s";\nDir::Etc::sourceparts "-";\n' "$state/sources.list" >>"$state/apt.conf"
  update_lists
}
# The package, and unless it is static, what it depends on: one name per line.
wanted() {
  if [ -n "$minimum" ]; then
    echo "$package"
  else
    left_out=libc6
    # Half of the bytes of a database server: a compiler that its settings turn off, and what only an installed package needs.
    [ -z "$suite" ] || left_out='libllvm.*|libz3-.*|(lib)?perl.*|systemd.*|libsystemd-shared|locales|dpkg|passwd|libc-gconv-.*'
    apt-get --simulate install "$package" | sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -vxE "$left_out"
  fi
}
# Those of the packages whose archives are not unpacked.
missing() {
  apt-get download --print-uris "$@" | while read -r _ archive _; do
    [ -e "$directory/unpacked/$archive" ] || echo "${archive%%_*}"
  done
}

for name in bin sbin lib lib64; do
  mkdir -p "$root/usr/$name"
  [ -e "$root/$name" ] || ln -s "usr/$name" "$root/$name"
done
if [ -n "$suite" ]; then
  # The machine's own lists name the mirror, where it has any.
  unset APT_CONFIG
  if [ -z "$(mirror_of_debian)" ]; then
    configure_apt apt
    update_lists
  fi
  use_debian "$suite"
  [ -e "$directory/apt-$suite" ] || { echo "no source of apt is Debian's" >&2; exit 1; }
else
  configure_apt apt
  update_lists
fi
if [ -n "$minimum" ] && ! is_new_enough "$(candidate)"; then
  use_debian trixie
  is_new_enough "$(candidate)" || { echo "no source of apt has $package $minimum or newer" >&2; exit 1; }
fi
names=$(wanted)
[ -n "$names" ] || { echo "no source of apt has $package" >&2; exit 1; }
cd "$state/archives"
names=$(missing $names)
[ -z "$names" ] || apt-get download $names >&2
for archive in *.deb; do
  [ -e "$archive" ] || continue
  # Packages with files in /lib and packages with files in /usr/lib get the same directories, as on any Debian of today.
  dpkg-deb --fsys-tarfile "$archive" |
    tar -x --keep-directory-symlink --no-same-owner --exclude=./usr/share/doc --exclude=./usr/share/locale -C "$root"
  : >"$directory/unpacked/$archive"
  rm "$archive"
done
# A linker looks for the C library here. One that was unpacked as a package with a minimum version stays.
[ -n "$suite" ] || dpkg -L libc6 | grep -E '/(libc|ld-linux[^/]*)\.so\.[0-9]+$' | while read -r file; do
  mkdir -p "$root${file%/*}"
  [ -e "$root$file" ] || ln -sf "$file" "$root$file"
done
: >"$directory/unpacked/$package"
