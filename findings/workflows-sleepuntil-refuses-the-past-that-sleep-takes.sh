#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: sleepUntil() with a time that has passed returns at once, as sleep() with a negative duration does.
# Behaviour: sleep(-5000) and sleep(0) return at once. sleepUntil() with a time that has passed throws, so a run that
#   starts late fails at its first due date.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
sleep of -5000 ms: returned
sleep of 0 ms: returned
sleepUntil 5 s ago: Error: You can't sleep until a time in the past, time-traveler
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

export class Runs extends WorkflowEntrypoint {
  async run(_event, step) {
    const tried = (asleep) => asleep.then(() => "returned", (error) => `${error.name}: ${error.message}`);
    return [
      `sleep of -5000 ms: ${await tried(step.sleep("negative", -5000))}`,
      `sleep of 0 ms: ${await tried(step.sleep("zero", 0))}`,
      `sleepUntil 5 s ago: ${await tried(step.sleepUntil("past", new Date(Date.now() - 5000)))}`,
    ];
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
    return new Response((await ended(await RUNS.create({ id: "one" }))).output.join("\n"));
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
