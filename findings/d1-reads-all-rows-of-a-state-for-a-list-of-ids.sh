#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: a query for a list of primary keys, given as JSON, reads a row per key, whatever further condition it has.
# Behaviour: with `id IN (SELECT value FROM json_each(?)) AND state = ?` and an index that begins with `state`, the
#   planner searches that index: one key reads all 300 rows of the state. `+state = ?`, or the keys as single
#   parameters, read fewer than 5. The result is the same, so only `meta.rows_read`, which D1 bills, shows it.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
keys as JSON, state: 1 found, more than 299 rows read
keys as JSON, +state: 1 found, fewer than 5 rows read
keys as parameters, state: 1 found, fewer than 5 rows read
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { DB }) {
    await DB.batch(
      [
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX jobs_by_time ON jobs (state, at, id)",
        `INSERT INTO jobs WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
           SELECT 'job-' || i, 'ended', i FROM n`,
      ].map((sql) => DB.prepare(sql)),
    );
    const tried = async (name, sql, ...values) => {
      const { results, meta } = await DB.prepare(sql).bind(...values).all();
      const read = meta.rows_read > 299 ? "more than 299" : meta.rows_read < 5 ? "fewer than 5" : String(meta.rows_read);
      return `${name}: ${results.length} found, ${read} rows read`;
    };
    const json = "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1))";
    return new Response(
      [
        await tried("keys as JSON, state", `${json} AND state = 'ended'`, '["job-7"]'),
        await tried("keys as JSON, +state", `${json} AND +state = 'ended'`, '["job-7"]'),
        await tried("keys as parameters, state", "SELECT id FROM jobs WHERE id IN (?1, ?2) AND state = 'ended'", "job-7", "none"),
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
