#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: get() with a condition that fails answers null, as put() does, or an object whose body is empty.
# Behaviour: get() answers an object with size, etag and metadata, but without body, text() and json(): calling text()
#   is a TypeError. Only a key that does not exist gives null.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
put() under a condition that fails: null
get() of a key that does not exist: null
get() under a condition that fails: an object, size 5, text() is undefined
get() under a condition that holds: an object, size 5, text() is function
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
export default {
  async fetch(_request, { PAGES }) {
    const { etag } = await PAGES.put("page", "hello");
    const shown = (page) => page && `an object, size ${page.size}, text() is ${typeof page.text}`;
    return new Response(
      [
        `put() under a condition that fails: ${shown(await PAGES.put("page", "again", { onlyIf: { etagDoesNotMatch: etag } }))}`,
        `get() of a key that does not exist: ${shown(await PAGES.get("unknown"))}`,
        `get() under a condition that fails: ${shown(await PAGES.get("page", { onlyIf: { etagDoesNotMatch: etag } }))}`,
        `get() under a condition that holds: ${shown(await PAGES.get("page", { onlyIf: { etagMatches: etag } }))}`,
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
  r2Buckets: ["PAGES"],
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
