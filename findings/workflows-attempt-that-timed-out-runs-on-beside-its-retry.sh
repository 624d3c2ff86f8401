#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: A step's time-out ends the attempt: its code is stopped, or the retry begins after it.
# Behaviour: The local engine starts the retry while the first attempt still runs. The first attempt goes on to its
#   end, after the retry has succeeded.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
attempt 1 begins
attempt 2 begins
attempt 2 ends
the step returned 2
attempt 1 ends
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

const log = [];

export class Runs extends WorkflowEntrypoint {
  async run(_event, step) {
    const retries = { limit: 2, delay: 100, backoff: "constant" };
    const result = await step.do("slow at first", { timeout: 1000, retries }, async ({ attempt }) => {
      log.push(`attempt ${attempt} begins`);
      await scheduler.wait(attempt === 1 ? 4000 : 100);
      log.push(`attempt ${attempt} ends`);
      return attempt;
    });
    log.push(`the step returned ${result}`);
    await step.sleep("until the first attempt has ended", 4000);
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
    await ended(await RUNS.create({ id: "one" }));
    return new Response(log.join("\n"));
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
