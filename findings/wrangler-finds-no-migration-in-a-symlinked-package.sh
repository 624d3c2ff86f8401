#!/usr/bin/env bash
# Package: wrangler 4.156.2.
# Guess: migrations_pattern finds the migrations of a package in node_modules, also where pnpm, a workspace or
#   `npm link` made that folder a symlink.
# Behaviour: the walk does not enter a symlinked folder. `d1 migrations list` reports that no migration is left to
#   apply and exits with 0. The same folder named as migrations_dir is read through the symlink.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
pattern, a folder: 0001_first.sql
pattern, a symlink: none
migrations_dir, a symlink: 0001_first.sql
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true, "esbuild": true } }' >package.json
npm install --silent --no-audit --no-fund wrangler@4.156.2 node@26.10.0

mkdir -p packages/engine/migrations node_modules/copied
echo 'CREATE TABLE first (id INTEGER);' >packages/engine/migrations/0001_first.sql
cp -r packages/engine/migrations node_modules/copied/migrations
ln -s ../packages/engine node_modules/linked

pending() {
  cat >wrangler.json <<END
{ "name": "app", "compatibility_date": "2026-10-01",
  "d1_databases": [{ "binding": "DB", "database_name": "app", "database_id": "app", $1 }] }
END
  CI=1 WRANGLER_SEND_METRICS=false FORCE_COLOR=0 \
    node_modules/.bin/node node_modules/wrangler/bin/wrangler.js d1 migrations list DB --local 2>/dev/null |
    grep -oE '[0-9]{4}_[a-z]+\.sql' || echo none
}

{
  echo "pattern, a folder: $(pending '"migrations_dir": ".", "migrations_pattern": "./node_modules/copied/migrations/*.sql"')"
  echo "pattern, a symlink: $(pending '"migrations_dir": ".", "migrations_pattern": "./node_modules/linked/migrations/*.sql"')"
  echo "migrations_dir, a symlink: $(pending '"migrations_dir": "node_modules/linked/migrations"')"
} | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
