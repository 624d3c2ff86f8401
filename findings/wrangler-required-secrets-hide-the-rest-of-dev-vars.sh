#!/usr/bin/env bash
# Package: wrangler 4.156.2 with its local runtime.
# Guess: secrets.required makes wrangler check that a secret is set, and .dev.vars is loaded as before.
# Behaviour: once a configuration has secrets.required, the local Worker gets only the listed names of .dev.vars.
#   Every other variable of the file is undefined, without a warning.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
without secrets.required: KEY, OTHER
with secrets.required ["KEY"]: KEY
END

echo '{ "private": true, "type": "module", "allowScripts": { "node": true, "workerd": true, "esbuild": true } }' >package.json
npm install --silent --no-audit --no-fund wrangler@4.156.2 node@26.10.0
printf 'KEY=one\nOTHER=two\n' >.dev.vars
cat >worker.mjs <<'END'
export default { fetch: (_, env) => new Response(Object.keys(env).sort().join(", ")) };
END

cat >run.mjs <<'END'
import { writeFileSync } from "node:fs";
import { unstable_startWorker as start } from "wrangler";

for (const [label, secrets] of [["without secrets.required", undefined], ['with secrets.required ["KEY"]', { required: ["KEY"] }]]) {
  writeFileSync("wrangler.json", JSON.stringify({ name: "app", main: "worker.mjs", compatibility_date: "2026-10-01", ...(secrets && { secrets }) }));
  const worker = await start({ config: "wrangler.json", dev: { watch: false, logLevel: "none", inspector: false, server: { hostname: "127.0.0.1", port: 0 } } });
  const response = await worker.fetch("http://example.com/");
  console.log(`${label}: ${await response.text()}`);
  await worker.dispose();
}
process.exit(0);
END

WRANGLER_SEND_METRICS=false WRANGLER_HIDE_BANNER=true FORCE_COLOR=0 node_modules/.bin/node run.mjs 2>/dev/null | grep secrets.required | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
