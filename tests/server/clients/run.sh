#!/bin/sh
# run.sh FOLDER PROGRAM: installs the pinned clients into FOLDER and runs the tests against PROGRAM.
# Exit code 77: skipped, because KVASIR_SKIP_CLIENTS=1 says so. Without node or the packages it fails.
folder=$1
program=$2
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
fail() { echo "$*; set KVASIR_SKIP_CLIENTS=1 to do without this test" >&2; exit 1; }
[ "${KVASIR_SKIP_CLIENTS:-0}" = 1 ] && { echo "skipped: KVASIR_SKIP_CLIENTS=1"; exit 77; }
command -v node >/dev/null && command -v npm >/dev/null || fail "node and npm are not installed"
cmp -s "$here/schemas.mjs" "$folder/schemas.mjs" || rm -f "$folder/schemas.json"
mkdir -p "$folder" && rm -f "$folder"/*.mjs && cp "$here"/package.json "$here"/package-lock.json "$here"/*.mjs "$folder" || exit 1
cd "$folder" || exit 1
if ! cmp -s package-lock.json installed-lock.json; then
  rm -f installed-lock.json schemas.json
  # A registry may stumble: three tries, a pause between them.
  for pause in 5 20 none; do
    npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 && break
    tail -n 5 npm.log >&2
    [ "$pause" = none ] && fail "the clients cannot be had from npm"
    sleep "$pause"
  done
  cp package-lock.json installed-lock.json
fi
node --input-type=module -e "import { writeSchemas } from './schemas.mjs'; writeSchemas();" || exit 1
KVASIR_PROGRAM=$program exec node --test *.test.mjs
