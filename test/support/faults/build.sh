#!/bin/sh
# Builds the fault library where it is missing or older than its source. Linux with gcc and glibc; says where it is.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
target="$here/../../../node_modules/.cache/pipectl-faults"
library="$target/faults.so"
if [ ! -e "$library" ] || [ -n "$(find "$here/library" -newer "$library" -name '*.[ch]')" ]; then
  mkdir -p "$target"
  # Under a name of its own first: tests that run at the same time see a whole library or none.
  gcc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o "$library.$$" "$here"/library/*.c -ldl -lpthread
  mv "$library.$$" "$library"
fi
echo "$target/faults.so"
