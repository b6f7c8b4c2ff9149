#!/bin/sh
# Installs pipectl from the folder of a release: the Debian package with apt, or the npm package with npm.
#
#   sh install.sh [--version VERSION] [--dry-run] [--npm] [BASE_URL]
#
#   BASE_URL     the folder of the release: https://…, http://… or file:///… (or PIPECTL_BASE_URL). It has the packages,
#                SHA256SUMS, and SHA256SUMS.asc if the release is signed
#   --version    this version; default: the newest one that SHA256SUMS has for this machine
#   --dry-run    downloads and verifies, and prints what would be installed
#   --npm        the npm package, on Debian too
#
# PIPECTL_RELEASE_KEY names a file with the public key of the releases. With it, the signature is required. Without it, gpg checks
# the signature against your own keyring, and a signature that it cannot check is reported.
#
# Nothing is installed before the checksum of the package is verified. The script runs completely or not at all: a download
# of it that is cut off ends before the last line, which starts it.
set -eu

fail() {
  echo "error: $1" >&2
  [ -z "${2:-}" ] || echo "  next: $2" >&2
  exit 1
}

usage_error() {
  echo "error: $1" >&2
  echo "  next: sh install.sh [--version VERSION] [--dry-run] [--npm] BASE_URL" >&2
  exit 2
}

has() {
  command -v "$1" >/dev/null 2>&1
}

read_arguments() {
  base=${PIPECTL_BASE_URL:-}
  version=
  is_dry_run=no
  prefers_npm=no
  while [ $# -gt 0 ]; do
    case "$1" in
      --version)
        [ $# -ge 2 ] || usage_error '--version needs a version'
        version=$2
        shift
        ;;
      --version=*) version=${1#--version=} ;;
      --dry-run) is_dry_run=yes ;;
      --npm) prefers_npm=yes ;;
      -*) usage_error "there is no option $1" ;;
      *) base=$1 ;;
    esac
    shift
  done
  [ -n "$base" ] || usage_error 'there is no address of a release: give it as an argument, or in PIPECTL_BASE_URL'
  case "$base" in
    https://* | http://* | file:///*) base=${base%/} ;;
    *) usage_error "$base is not an address: https://…, http://… or file:///…" ;;
  esac
  case "$version" in
    *[!0-9A-Za-z.-]*) usage_error "$version is not a version" ;;
  esac
}

# Downloads a file of the release into the temporary directory. Returns 1 if the release does not have it.
fetch() {
  case "$base" in
    file://*)
      [ -f "${base#file://}/$1" ] || return 1
      cp "${base#file://}/$1" "$work/$1"
      ;;
    *)
      if has curl; then
        curl --fail --silent --show-error --location --connect-timeout 15 --retry 2 --output "$work/$1" "$base/$1" 2>"$work/log"
      elif has wget; then
        wget --quiet --timeout=15 --tries=3 --output-document="$work/$1" "$base/$1" 2>"$work/log"
      else
        fail 'this needs curl or wget' 'install one of them, or give a file:// address'
      fi
      ;;
  esac
}

# Sets `kind` (deb or npm) and `pattern`, an extended regular expression for the name of the package.
choose_package() {
  [ "$(uname -s)" = Linux ] || fail "there is no package for $(uname -s)" 'build pipectl from source: docs/install.md'
  any='[0-9][0-9A-Za-z.~-]*'
  [ -z "$version" ] || any=$(printf '%s' "$version" | sed 's/\./\\./g')
  if [ "$prefers_npm" = no ] && has apt-get && has dpkg; then
    kind=deb
    # Debian writes 1.0.0~rc.1 for the version 1.0.0-rc.1.
    [ -z "$version" ] || any=$(printf '%s' "$any" | sed 's/-/~/')
    pattern="pipectl_$any-[0-9]+_$(dpkg --print-architecture)\\.deb"
    return
  fi
  kind=npm
  pattern="pipectl-$any\\.tgz"
  require_platform
}

# The npm package installs everywhere, and has native parts for these.
require_platform() {
  case "$(uname -m)" in
    x86_64 | aarch64) ;;
    *) fail "there is no package for $(uname -m)" 'build pipectl from source: docs/install.md' ;;
  esac
  if ldd --version 2>&1 | grep -qi musl; then
    fail 'there is no package for systems with musl' 'use the container image, or build pipectl from source: docs/install.md'
  fi
  has npm || fail 'there is no npm' 'install Node.js 24, which brings it'
  case "$(node --version 2>/dev/null)" in
    v24.* | v20.*) ;;
    *) fail "the npm package is for Node.js 24 and 20, not $(node --version 2>/dev/null || echo none)" 'install Node.js 24' ;;
  esac
}

# Sets `package` to the newest one of SHA256SUMS that fits, and `checksum`.
find_package() {
  line=$(grep -E "^[0-9a-f]{64}  $pattern\$" "$work/SHA256SUMS" | sort -k 2,2 -V | tail -n 1) || true
  [ -n "$line" ] || fail "SHA256SUMS has no checksum of a package for this machine (${version:-any version}, $kind)" \
    "read $base/SHA256SUMS"
  checksum=${line%% *}
  package=${line##* }
}

verify_checksum() {
  has sha256sum || fail 'this needs sha256sum' 'install coreutils'
  (cd "$work" && printf '%s  %s\n' "$checksum" "$package" | sha256sum --check --status -) ||
    fail "$package is not the file that SHA256SUMS names: it is damaged, or was changed" 'download it again'
}

# A signature that is wrong always ends the installation. One that cannot be checked does so if a key is given.
verify_signature() {
  key=${PIPECTL_RELEASE_KEY:-}
  if ! fetch SHA256SUMS.asc; then
    [ -z "$key" ] || fail "$base has no SHA256SUMS.asc, the signature that PIPECTL_RELEASE_KEY is for"
    note 'the release has no signature: only its checksum is verified'
    return
  fi
  if ! has gpg; then
    [ -z "$key" ] || fail 'PIPECTL_RELEASE_KEY is set, and there is no gpg to check the signature with' 'install gnupg'
    note 'there is no gpg: the signature is not checked, only the checksum'
    return
  fi
  if [ -n "$key" ]; then
    mkdir -m 700 "$work/keyring"
    set -- --homedir "$work/keyring"
    gpg "$@" --batch --quiet --import "$key" 2>"$work/log" || fail "$key is not a public key: $(cat "$work/log")"
  else
    set --
  fi
  # A signature of an expired or revoked key is not GOODSIG, and gpg can end with 0.
  if gpg "$@" --batch --status-fd 3 --verify "$work/SHA256SUMS.asc" "$work/SHA256SUMS" 3>"$work/status" 2>"$work/log" &&
    grep -q '^\[GNUPG:\] GOODSIG ' "$work/status"; then
    note "the signature is good: $(sed -n 's/^\[GNUPG:\] GOODSIG //p' "$work/status" | head -n 1)"
  elif [ -z "$key" ] && grep -q '^\[GNUPG:\] NO_PUBKEY' "$work/status" && ! grep -q '^\[GNUPG:\] BADSIG' "$work/status"; then
    note 'your keyring does not have the key of the release: the signature is not checked, only the checksum'
    note 'with PIPECTL_RELEASE_KEY=pipectl-release-key.asc it is checked'
  else
    fail "the signature of SHA256SUMS is wrong: $(tail -n 1 "$work/log")" 'do not install this release'
  fi
}

note() {
  echo "install.sh: $1" >&2
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif has sudo; then
    sudo "$@"
  else
    fail "installing needs root" "run this script as root"
  fi
}

install_package() {
  if [ "$kind" = deb ]; then
    # apt reads the package as the user _apt.
    chmod 755 "$work"
    as_root apt-get install --yes "$work/$package"
  else
    npm install --global --ignore-scripts "$work/$package" ||
      fail 'npm did not install the package' 'see its message above; npm_config_prefix names another folder'
  fi
}

main() {
  read_arguments "$@"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  choose_package
  fetch SHA256SUMS || fail "cannot get $base/SHA256SUMS: $(cat "$work/log" 2>/dev/null)" 'check the address of the release'
  verify_signature
  find_package
  fetch "$package" || fail "cannot get $base/$package: $(cat "$work/log" 2>/dev/null)" 'try again'
  verify_checksum
  if [ "$is_dry_run" = yes ]; then
    note "would install $package ($checksum)"
    return
  fi
  install_package
  if has pipectl; then
    note "installed $package: \`pipectl --version\` prints $(pipectl --version)"
  elif [ "$kind" = npm ]; then
    note "installed $package; $(npm prefix --global)/bin is not on the PATH"
  else
    note "installed $package"
  fi
}

main "$@"
