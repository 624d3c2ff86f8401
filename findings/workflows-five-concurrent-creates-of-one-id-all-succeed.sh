#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: Of five concurrent create() calls with the same id, one succeeds and four fail with instance.already_exists.
# Behaviour: Locally all five resolve, though one instance exists and runs once, with the parameters of the first
#   call. A later create() is refused: the answer of create() does not say whether the caller's parameters are used.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
five creates at once: fulfilled, fulfilled, fulfilled, fulfilled, fulfilled
runs: 1, with the parameters of call 0
a sixth, later: WorkflowError: (instance.already_exists) Workflow instance with id "one" already exists
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

const runs = [];

export class Runs extends WorkflowEntrypoint {
  async run({ payload }) {
    runs.push(payload.call);
  }
}

async function ended(run) {
  for (let turn = 0; turn < 200; turn++) {
    const state = await run.status();
    if (["complete", "errored", "terminated"].includes(state.status)) return state;
    await scheduler.wait(100);
  }
  return run.status();
}

export default {
  async fetch(_request, { RUNS }) {
    const create = (call) => RUNS.create({ id: "one", params: { call } });
    const settled = await Promise.allSettled([0, 1, 2, 3, 4].map(create));
    await ended(await RUNS.get("one"));
    const later = await create(5).then(() => "fulfilled", (error) => error.message);
    return new Response(
      [
        `five creates at once: ${settled.map(({ status }) => status).join(", ")}`,
        `runs: ${runs.length}, with the parameters of call ${runs}`,
        `a sixth, later: ${later}`,
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
  workflows: { RUNS: { name: "runs", className: "Runs" } },
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
