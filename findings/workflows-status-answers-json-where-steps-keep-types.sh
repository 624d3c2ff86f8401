#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with its workerd, the local Workers runtime of `wrangler dev`.
# Guess: A value that params, events and step outputs keep is also what status().output holds when run() returns it.
# Behaviour: Params, events and step outputs are structured clones: a Date, a Map, a BigInt and bytes arrive as such.
#   The output of the instance is text: a BigInt is "[BigInt(5)]", bytes are "[Uint8Array(2 bytes)]", a Map and an Error
#   are {}, and NaN is null. The instance is complete, without an error. A circular object passes a step, and ends the
#   instance as errored when run() returns it.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
params in run(): Date, Map, BigInt, Uint8Array
an event's payload: Date, Map, BigInt, Uint8Array
a step's output: Date, Map, BigInt, Uint8Array
run() returns a BigInt: complete, "[BigInt(5)]"
run() returns bytes: complete, "[Uint8Array(2 bytes)]"
run() returns a Map, a Set and an Error: complete, {"map":{},"set":{},"error":{}}
run() returns NaN in an object: complete, {"nan":null}
run() returns a circular object that passed a step: errored, null
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

const typed = () => ({ date: new Date(0), map: new Map([["a", 1]]), big: 5n, bytes: new Uint8Array([1, 2]) });
const typesOf = ({ date, map, big, bytes }) => [date, map, big, bytes].map((one) => Object.prototype.toString.call(one).slice(8, -1)).join(", ");

const RETURNED = {
  "a BigInt": () => 5n,
  bytes: () => new Uint8Array([1, 2]),
  "a Map, a Set and an Error": () => ({ map: new Map([["a", 1]]), set: new Set([1]), error: new TypeError("no") }),
  "NaN in an object": () => ({ nan: Number.NaN }),
};
const lines = [];

export class Runs extends WorkflowEntrypoint {
  async run({ payload }, step) {
    if (payload.returns === "a circular object that passed a step") {
      return step.do("circular", async () => {
        const one = {};
        one.self = one;
        return one;
      });
    }
    if (payload.returns !== undefined) return RETURNED[payload.returns]();
    lines.push(`params in run(): ${typesOf(payload)}`);
    const { payload: sent } = await step.waitForEvent("answer", { type: "answer", timeout: "1 minute" });
    lines.push(`an event's payload: ${typesOf(sent)}`);
    lines.push(`a step's output: ${typesOf(await step.do("typed", async () => typed()))}`);
  }
}

async function ended(run) {
  for (let turn = 0; turn < 100; turn++) {
    await scheduler.wait(100);
    const answer = await run.status();
    if (answer.status === "complete" || answer.status === "errored") return `${answer.status}, ${JSON.stringify(answer.output)}`;
  }
}

export default {
  async fetch(_request, { RUNS }) {
    const run = await RUNS.create({ params: typed() });
    await run.sendEvent({ type: "answer", payload: typed() });
    await ended(run);
    for (const returns of [...Object.keys(RETURNED), "a circular object that passed a step"]) {
      lines.push(`run() returns ${returns}: ${await ended(await RUNS.create({ params: { returns } }))}`);
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
