#!/bin/sh
# run.sh FOLDER PROGRAM: installs the pinned clients into FOLDER and runs clients.test.mjs against PROGRAM.
# Exit code 77: skipped, since node or the packages cannot be had.
folder=$1
program=$2
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
command -v node >/dev/null && command -v npm >/dev/null || { echo "node and npm are not installed: skipped"; exit 77; }
mkdir -p "$folder" && cp "$here/package.json" "$here/package-lock.json" "$here/clients.test.mjs" "$folder" || exit 1
cd "$folder" || exit 1
if ! cmp -s package-lock.json installed-lock.json; then
  npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { tail -n 5 npm.log; echo "the packages cannot be had: skipped"; exit 77; }
  cp package-lock.json installed-lock.json
fi
KVASIR_PROGRAM=$program exec node --test clients.test.mjs
