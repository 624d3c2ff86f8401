#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: batch() answers with one result per statement, in order, or refuses an empty statement as it refuses a
#   comment alone.
# Behaviour: batch() leaves out the result of an empty statement: each later result stands at the index of the
#   statement before it.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
SELECT 1, SELECT 2, SELECT 3: [1,2,3]
SELECT 1, an empty text, SELECT 3: [1,3]
SELECT 1, a comment, SELECT 3: D1_ERROR: SQL code did not contain a statement.
an empty text alone: D1_ERROR: No SQL statements detected.
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { DB }) {
    const tried = (...statements) =>
      DB.batch(statements.map((sql) => DB.prepare(sql))).then(
        (answers) => JSON.stringify(answers.map(({ results }) => results[0].n)),
        (error) => error.message,
      );
    return new Response(
      [
        `SELECT 1, SELECT 2, SELECT 3: ${await tried("SELECT 1 AS n", "SELECT 2 AS n", "SELECT 3 AS n")}`,
        `SELECT 1, an empty text, SELECT 3: ${await tried("SELECT 1 AS n", "", "SELECT 3 AS n")}`,
        `SELECT 1, a comment, SELECT 3: ${await tried("SELECT 1 AS n", "-- none", "SELECT 3 AS n")}`,
        `an empty text alone: ${await tried("")}`,
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
