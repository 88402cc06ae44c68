#!/bin/sh
# build.sh WEB FOLDER OUT: builds the page of WEB in FOLDER, which keeps the packages from npm, and writes its files as
# the source OUT. Where that cannot be done (no network for npm's first time), OUT says that there is no page.
web=$1
folder=$2
out=$3
no_page() {
  echo "kvasir: the page was not built: $*; the server works without it" >&2
  cp "$web/no_page.cpp" "$out"
  exit 0
}
mkdir -p "$folder" && rm -rf "$folder/src" "$folder/dist" || exit 1
cp -R "$web/src" "$web"/index.html "$web"/*.json "$web"/*.ts "$web"/*.mjs "$folder" || exit 1
cd "$folder" || exit 1
if ! cmp -s package-lock.json installed-lock.json; then
  rm -f installed-lock.json
  npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 --fetch-timeout=30000 >npm.log 2>&1 || no_page "npm ci failed, see $folder/npm.log"
  cp package-lock.json installed-lock.json
fi
node node_modules/vite/bin/vite.js build --logLevel warn >vite.log 2>&1 || { cat vite.log >&2; no_page "vite failed"; }
node embed.mjs dist "$out.new" && mv "$out.new" "$out"
