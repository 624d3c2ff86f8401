#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: transactionSync() refuses an async callback, or rolls its rows back when the promise rejects.
# Behaviour: transactionSync() commits when the callback returns its promise. Each row stays, those written before the
#   rejection too. transaction() rolls the same callback back.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
transactionSync, callback throws: boom, rows kept: 0
transactionSync, async callback rejects: boom, rows kept: 2
transaction, async callback rejects: boom, rows kept: 0
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { DurableObject } from "cloudflare:workers";

export class Tables extends DurableObject {
  async tried(kind) {
    const { storage } = this.ctx;
    const insert = () => storage.sql.exec("INSERT INTO orders VALUES (?)", kind);
    storage.sql.exec("CREATE TABLE IF NOT EXISTS orders (kind TEXT)");
    const throws = () => {
      insert();
      insert();
      throw new Error("boom");
    };
    const rejects = async () => {
      insert();
      await scheduler.wait(10);
      insert();
      throw new Error("boom");
    };
    let answer = "nothing thrown";
    try {
      if (kind === "transactionSync, callback throws") storage.transactionSync(throws);
      if (kind === "transactionSync, async callback rejects") await storage.transactionSync(rejects);
      if (kind === "transaction, async callback rejects") await storage.transaction(rejects);
    } catch (error) {
      answer = error.message;
    }
    const { rows } = storage.sql.exec("SELECT count(*) AS rows FROM orders WHERE kind = ?", kind).one();
    return `${kind}: ${answer}, rows kept: ${rows}`;
  }
}

export default {
  async fetch(_request, { TABLES }) {
    const tables = TABLES.getByName("one");
    const kinds = ["transactionSync, callback throws", "transactionSync, async callback rejects", "transaction, async callback rejects"];
    const lines = [];
    for (const kind of kinds) lines.push(await tables.tried(kind));
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
