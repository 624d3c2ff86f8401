#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: An instance that has ended refuses events and verbs, as terminate() does, or keeps an event for a restart.
# Behaviour: sendEvent(), pause() and resume() of a complete instance resolve and change nothing. The event is lost:
#   the instance does not receive it after a restart() either. Only terminate() rejects.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
the instance: ended at once
sendEvent() to the complete instance: resolves
pause() of the complete instance: resolves, status complete
resume() of the complete instance: resolves, status complete
terminate() of the complete instance: rejects: cannot_terminate, status complete
the same instance after restart(), which waits for the event: received nothing
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

let waits = false;

export class Runs extends WorkflowEntrypoint {
  async run(_event, step) {
    if (!waits) return "ended at once";
    return await step.waitForEvent("answer", { type: "answer", timeout: "2 seconds" }).then(
      ({ payload }) => `received ${payload}`,
      () => "received nothing",
    );
  }
}

async function end(run) {
  for (let turn = 0; turn < 60; turn++) {
    await scheduler.wait(100);
    const { status, output } = await run.status();
    if (status === "complete") return output;
  }
}

async function answer(call) {
  return await call().then(
    () => "resolves",
    (error) => `rejects: ${/cannot_\w+/.exec(error.message)}`,
  );
}

export default {
  async fetch(_request, { RUNS }) {
    const run = await RUNS.create({ id: "one" });
    const lines = [`the instance: ${await end(run)}`];
    lines.push(`sendEvent() to the complete instance: ${await answer(() => run.sendEvent({ type: "answer", payload: "an event" }))}`);
    for (const verb of ["pause", "resume", "terminate"]) {
      lines.push(`${verb}() of the complete instance: ${await answer(() => run[verb]())}, status ${(await run.status()).status}`);
    }
    waits = true;
    await run.restart();
    await scheduler.wait(100);
    lines.push(`the same instance after restart(), which waits for the event: ${await end(run)}`);
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
