#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: pause() holds a workflow at its next step, and resume() continues it. The code notices neither.
# Behaviour: pause() rejects a sleep or a waitForEvent that is in progress. A try block around it catches this error,
#   so that the code takes its catch path (a refund, say) and the paused instance is complete, without a resume. A
#   step.do in progress ends first, and its instance waits for the resume.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
sleep, after pause(): complete
sleep, after resume(): complete, caught: Aborting engine: User called pause
waitForEvent, after pause(): complete
waitForEvent, after resume(): complete, caught: Aborting engine: User called pause
do, after pause(): waitingForPause
do, after resume(): complete, done
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

const slow = () => new Promise((resolve) => setTimeout(resolve, 1500, "done"));
const calls = {
  "sleep": (step) => step.sleep("nap", 1500).then(() => "done"),
  "waitForEvent": (step) => step.waitForEvent("answer", { type: "answer", timeout: "1 minute" }).then(({ payload }) => payload),
  "do": (step) => step.do("work", slow),
};

export class Runs extends WorkflowEntrypoint {
  async run({ payload }, step) {
    try {
      return await calls[payload](step);
    } catch (error) {
      await step.do("refund", async () => undefined).catch(() => undefined);
      return `caught: ${error.message}`;
    }
  }
}

async function end(run) {
  for (let turn = 0; turn < 60; turn++) {
    const { status, output } = await run.status();
    if (status === "complete" || status === "errored") return `${status}, ${output}`;
    await scheduler.wait(100);
  }
  return (await run.status()).status;
}

export default {
  async fetch(_request, { RUNS }) {
    const lines = [];
    for (const call of Object.keys(calls)) {
      const run = await RUNS.create({ params: call });
      await scheduler.wait(400);
      await run.pause();
      await scheduler.wait(400);
      lines.push(`${call}, after pause(): ${(await run.status()).status}`);
      await run.resume().catch(() => undefined);
      await run.sendEvent({ type: "answer", payload: "done" }).catch(() => undefined);
      lines.push(`${call}, after resume(): ${await end(run)}`);
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
