#!/bin/sh
# run.sh FOLDER PROGRAM WEB: installs the pinned test tools into FOLDER, checks the types of the page's source and opens the
# page of PROGRAM in Chromium. WEB is where the build put the page's packages.
# Exit code 77: skipped, because KVASIR_SKIP_BROWSER=1 or KVASIR_SKIP_CLIENTS=1 says so.
folder=$1
program=$2
web=$3
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
fail() { echo "$*; set KVASIR_SKIP_BROWSER=1 to do without this test" >&2; exit 1; }
[ "${KVASIR_SKIP_BROWSER:-${KVASIR_SKIP_CLIENTS:-0}}" = 1 ] && { echo "skipped: KVASIR_SKIP_BROWSER=1"; exit 77; }
command -v node >/dev/null && command -v npm >/dev/null || fail "node and npm are not installed"
command -v chromium >/dev/null || fail "chromium is not installed"
[ -d "$web/node_modules" ] || fail "the page was not built: $web/node_modules is missing"
mkdir -p "$folder" && rm -f "$folder"/*.mjs && cp "$here"/package.json "$here"/package-lock.json "$here"/*.mjs "$folder" || exit 1
cd "$folder" || exit 1
if ! cmp -s package-lock.json installed-lock.json; then
  rm -f installed-lock.json
  # A registry may stumble: three tries, a pause between them.
  for pause in 5 20 none; do
    npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 && break
    tail -n 5 npm.log >&2
    [ "$pause" = none ] && fail "the test's tools cannot be had from npm"
    sleep "$pause"
  done
  cp package-lock.json installed-lock.json
fi
node node_modules/typescript/bin/tsc -p "$web" || exit 1
KVASIR_CHROMIUM=${KVASIR_CHROMIUM:-$(command -v chromium)} KVASIR_PROGRAM=$program exec node --test --test-concurrency=1 page.test.mjs
