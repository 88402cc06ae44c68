#!/bin/sh
# run.sh FOLDER PROGRAM [agents | suite NAME ARGUMENTS…]: installs the pinned clients into FOLDER and runs the tests
# against PROGRAM; with `agents` those of programs that are agents, whose packages are 1.1 GB; with `suite` one of the
# scripts in suites/, which count.
# Exit code 77: skipped, because KVASIR_SKIP_CLIENTS=1 says so. Without node or the packages it fails.
folder=$1
export KVASIR_PROGRAM=$2
part=$3
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
export KVASIR_MODELS=$here/../../../models
fail() { echo "$*; set KVASIR_SKIP_CLIENTS=1 to do without this test" >&2; exit 1; }
[ "${KVASIR_SKIP_CLIENTS:-0}" = 1 ] && { echo "skipped: KVASIR_SKIP_CLIENTS=1"; exit 77; }
command -v node >/dev/null && command -v npm >/dev/null || fail "node and npm are not installed"

# install SOURCE FOLDER: what its package.json and lock name, unless it is there. The agents have no lock: they name
# packages of other machines, which not every registry has; what they need themselves they name by exact version.
install() (
  mkdir -p "$2" && rm -f "$2"/*.mjs && cp "$1"/package*.json "$1"/*.mjs "$2" && cd "$2" || exit 1
  lock=package-lock.json && how=ci
  [ -f "$1/$lock" ] || { lock=package.json && how="install --no-package-lock"; }
  cmp -s "$lock" installed-lock.json && exit
  rm -f installed-lock.json schemas.json
  # A registry may stumble: three tries, a pause between them.
  for pause in 5 20 none; do
    npm $how --ignore-scripts --no-audit --no-fund >npm.log 2>&1 && break
    tail -n 5 npm.log >&2
    [ "$pause" = none ] && fail "the clients cannot be had from npm"
    sleep "$pause"
  done
  cp "$lock" installed-lock.json
)

cmp -s "$here/schemas.mjs" "$folder/schemas.mjs" || rm -f "$folder/schemas.json"
install "$here" "$folder" || exit 1
cd "$folder" || exit 1
node --input-type=module -e "import { writeSchemas } from './schemas.mjs'; writeSchemas();" || exit 1
[ -z "$part" ] && exec node --test *.test.mjs
if [ "$part" = suite ]; then
  mkdir -p suites && cp "$here"/suites/*.mjs suites && suite=$4 && shift 4 && exec node "suites/$suite.mjs" "$@"
fi
install "$here/$part" "$folder/$part" || exit 1
exec node --test "$part"/*.test.mjs
