#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: A UNION ALL takes 500 terms, SQLite's default, and at least as many as a VALUES list has rows.
# Behaviour: D1 and the SQL storage of a Durable Object refuse the sixth term of a UNION. VALUES with 600 rows passes.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
D1, UNION ALL of 5 terms: 5 rows
D1, UNION ALL of 6 terms: D1_ERROR: too many terms in compound SELECT: SQLITE_ERROR
D1, VALUES with 600 rows: 600 rows
Durable Object, UNION ALL of 5 terms: 5 rows
Durable Object, UNION ALL of 6 terms: too many terms in compound SELECT: SQLITE_ERROR
Durable Object, VALUES with 600 rows: 600 rows
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { DurableObject } from "cloudflare:workers";

const union = (terms) => Array(terms).fill("SELECT 1").join(" UNION ALL ");
const values = (rows) => `VALUES ${Array(rows).fill("(1)").join(", ")}`;

export class Tables extends DurableObject {
  tried(sql) {
    try {
      return `${this.ctx.storage.sql.exec(sql).toArray().length} rows`;
    } catch (error) {
      return error.message;
    }
  }
}

export default {
  async fetch(_request, { DB, TABLES }) {
    const inD1 = (sql) => DB.prepare(sql).all().then(({ results }) => `${results.length} rows`, (error) => error.message);
    const inObject = (sql) => TABLES.getByName("one").tried(sql);
    const lines = [];
    for (const [place, tried] of [["D1", inD1], ["Durable Object", inObject]]) {
      lines.push(`${place}, UNION ALL of 5 terms: ${await tried(union(5))}`);
      lines.push(`${place}, UNION ALL of 6 terms: ${await tried(union(6))}`);
      lines.push(`${place}, VALUES with 600 rows: ${await tried(values(600))}`);
    }
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
  durableObjects: { TABLES: { className: "Tables", useSQLite: true } },
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
