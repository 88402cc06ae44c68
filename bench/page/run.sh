#!/bin/sh
# run.sh [PROGRAM]: bench/page/smooth.mjs with the browser's tools that the page's test installed below build/.
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
folder=$root/build/tests/page/browser
[ -d "$folder/node_modules/playwright-core" ] || { echo "run ./kvasir test -R page first: it installs the browser's tools" >&2; exit 1; }
cp "$root/tests/page/browser.mjs" "$root/bench/page/smooth.mjs" "$folder" || exit 1
cd "$folder" && KVASIR_CHROMIUM=${KVASIR_CHROMIUM:-$(command -v chromium)} KVASIR_PROGRAM=${1:-$root/build/kvasir} exec node smooth.mjs
