#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: D1 binds 42 as an integer, because 42 is one in JavaScript and in SQL.
# Behaviour: D1 binds each number as a REAL. A TEXT column stores '42.0', a search for 42 misses the stored text '42',
#   and 7 / 2 is 3.5. A literal in the statement and a number inside a JSON parameter stay integers.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
typeof(?1) of 42: real
typeof(value) of json_each('[42]'): integer
42 inserted into a TEXT column: 42.0
rows whose TEXT is '42', found by the literal 42: 1
rows whose TEXT is '42', found by the bound 42: 0
?1 / 2 with 7 bound: 3.5
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { DB }) {
    const one = (sql, ...values) => DB.prepare(sql).bind(...values).first("value");
    await DB.prepare("CREATE TABLE orders (ref TEXT)").run();
    const lines = [
      `typeof(?1) of 42: ${await one("SELECT typeof(?1) AS value", 42)}`,
      `typeof(value) of json_each('[42]'): ${await one("SELECT typeof(value) AS value FROM json_each(?1)", "[42]")}`,
      `42 inserted into a TEXT column: ${await one("INSERT INTO orders VALUES (?1) RETURNING ref AS value", 42)}`,
    ];
    await DB.batch([DB.prepare("CREATE TABLE imported (ref TEXT)"), DB.prepare("INSERT INTO imported VALUES ('42')")]);
    lines.push(
      `rows whose TEXT is '42', found by the literal 42: ${await one("SELECT count(*) AS value FROM imported WHERE ref = 42")}`,
      `rows whose TEXT is '42', found by the bound 42: ${await one("SELECT count(*) AS value FROM imported WHERE ref = ?1", 42)}`,
      `?1 / 2 with 7 bound: ${await one("SELECT ?1 / 2 AS value", 7)}`,
    );
    return new Response(lines.join("\n"));
  },
};
END

cat >run.mjs <<'END'
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const worker = {
  name: "worker",
  modules: [{ type: "ESModule", path: "worker.mjs" }],
  compatibilityDate: "2026-10-01",
  d1Databases: ["DB"],
};
const runtime = new Miniflare(convertV4MiniflareOptions({ cf: false, workers: [worker] }));
const response = await runtime.dispatchFetch("http://worker/");
console.log(await response.text());
await runtime.dispose();
END

node_modules/.bin/node run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
