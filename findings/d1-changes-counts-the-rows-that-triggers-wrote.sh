#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: meta.changes is the number of rows that the statement itself changed, as changes() of SQLite counts them.
# Behaviour: D1 adds the rows that triggers wrote: an INSERT of one row answers 3. SQLite's changes() still answers 1.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
INSERT of 1 row without a trigger: changes 1, changes() 1
INSERT of 1 row with a trigger that writes 2: changes 3, changes() 1
UPDATE of 0 rows with a trigger: changes 0, changes() 0
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { DB }) {
    const tried = async (sql) => {
      const [written, counted] = await DB.batch([DB.prepare(sql), DB.prepare("SELECT changes() AS rows")]);
      return `changes ${written.meta.changes}, changes() ${counted.results[0].rows}`;
    };
    await DB.batch([DB.prepare("CREATE TABLE orders (id TEXT)"), DB.prepare("CREATE TABLE log (line TEXT)")]);
    const lines = [`INSERT of 1 row without a trigger: ${await tried("INSERT INTO orders VALUES ('a')")}`];
    const logged = "BEGIN INSERT INTO log VALUES ('one'); INSERT INTO log VALUES ('two'); END";
    await DB.prepare(`CREATE TRIGGER orders_inserted AFTER INSERT ON orders ${logged}`).run();
    await DB.prepare(`CREATE TRIGGER orders_updated AFTER UPDATE ON orders ${logged}`).run();
    lines.push(
      `INSERT of 1 row with a trigger that writes 2: ${await tried("INSERT INTO orders VALUES ('b')")}`,
      `UPDATE of 0 rows with a trigger: ${await tried("UPDATE orders SET id = 'c' WHERE id = 'unknown'")}`,
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
