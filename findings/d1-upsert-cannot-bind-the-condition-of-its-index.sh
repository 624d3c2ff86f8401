#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: ON CONFLICT (key) WHERE done = ?1 with 0 bound names the partial index on done = 0, as the same condition in
#   a query does.
# Behaviour: A query with the bound 0 reads by the partial index. The upsert with the bound 0 is refused: its
#   condition must be a literal.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
rows read by a query, done = 0 as a literal: 1
rows read by a query, done = ?1 with 0 bound: 1
upsert, done = 0 as a literal: 1 row changed
upsert, done = ?1 with 0 bound: D1_ERROR: ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint: SQLITE_ERROR
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { DB }) {
    const run = async (sql, ...values) => (await DB.prepare(sql).bind(...values).run()).meta;
    await run("CREATE TABLE tasks (key TEXT, done INTEGER, size INTEGER)");
    await run("CREATE UNIQUE INDEX tasks_open ON tasks (key) WHERE done = 0");
    await run("INSERT INTO tasks (key, done) SELECT 'k' || value, 0 FROM json_each(?1)", JSON.stringify([...Array(500).keys()]));
    const query = "SELECT size FROM tasks WHERE key = 'k7' AND done = ";
    const insert = "INSERT INTO tasks VALUES ('k7', 0, 5)";
    const upsert = (condition) => `${insert} ON CONFLICT (key) WHERE done = ${condition} DO UPDATE SET size = 5`;
    const tried = async (sql, ...values) => run(sql, ...values).then((meta) => `${meta.changes} row changed`, (error) => error.message);
    return new Response(
      [
        `rows read by a query, done = 0 as a literal: ${(await run(`${query}0`)).rows_read}`,
        `rows read by a query, done = ?1 with 0 bound: ${(await run(`${query}?1`, 0)).rows_read}`,
        `upsert, done = 0 as a literal: ${await tried(upsert("0"))}`,
        `upsert, done = ?1 with 0 bound: ${await tried(upsert("?1"), 0)}`,
      ].join("\n"),
    );
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
