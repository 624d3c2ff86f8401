#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: A sleep that is over is remembered by its name: a replay passes it at once, as it passes a step of that name.
# Behaviour: The replay remembers a sleep by name and duration. A duration that differs in the replay (computed from
#   the clock, or changed by a deployment) is slept again, while a step whose code differs keeps its first result.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
first run of the code: sleep of 1500 ms, slept at least 1 s: true
replay, the same duration: slept at least 1 s: false
replay, 4000 ms instead: slept at least 3 s: true
result of the step beside it, by each run of the code: first, first, first
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

const passes = [];
let duration = 1500;

export class Runs extends WorkflowEntrypoint {
  async run(_event, step) {
    const began = Date.now();
    await step.sleep("nap", duration);
    const slept = Date.now() - began;
    const result = await step.do("look", async () => (passes.length === 0 ? "first" : "later"));
    passes.push({ slept, result });
    await step.waitForEvent("go on", { type: "go", timeout: "1 minute" });
  }
}

async function until(condition) {
  for (let turn = 0; !condition() && turn < 100; turn++) await scheduler.wait(100);
}

export default {
  async fetch(_request, { RUNS }) {
    const run = await RUNS.create({ id: "one" });
    await until(() => passes.length === 1);
    for (const next of [1500, 4000]) {
      const before = passes.length;
      duration = next;
      await scheduler.wait(300);
      await run.pause();
      await scheduler.wait(300);
      await run.resume();
      await until(() => passes.length > before);
    }
    const [first, same, other] = passes;
    await run.terminate();
    return new Response(
      [
        `first run of the code: sleep of 1500 ms, slept at least 1 s: ${first.slept >= 1000}`,
        `replay, the same duration: slept at least 1 s: ${same.slept >= 1000}`,
        `replay, 4000 ms instead: slept at least 3 s: ${other.slept >= 3000}`,
        `result of the step beside it, by each run of the code: ${passes.map(({ result }) => result).join(", ")}`,
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
