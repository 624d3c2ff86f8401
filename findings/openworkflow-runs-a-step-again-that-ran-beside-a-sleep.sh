#!/usr/bin/env bash
# Package: openworkflow 0.10.1, with its SQLite backend, on the npm package node 26.10.0 (the backend needs node:sqlite).
# Guess: In Promise.all([step.run(charge), step.sleep("1s")]) the step runs once, because it ends without an error while
#   the workflow sleeps.
# Behaviour: The sleep ends the execution at once. The step continues to its end, its output is not stored, and the
#   execution after the sleep runs it a second time. Nothing failed, and the step was not retried. A step beside another
#   step's back-off runs twice in the same way. A step that ends before the sleep begins runs once.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
a step of 300 ms beside a sleep of 1 s: begins, ends, begins, ends; the run completed
a step of 300 ms beside a back-off of 1 s: begins, ends, begins, ends; the run completed
a step of 300 ms before a sleep of 1 s: begins, ends; the run completed
END

echo '{ "private": true, "allowScripts": { "node": true } }' >package.json
npm install --silent --no-audit --no-fund openworkflow@0.10.1 node@26.10.0

cat >run.mjs <<'END'
import { OpenWorkflow } from "openworkflow";
import { BackendSqlite } from "openworkflow/sqlite";

const engine = new OpenWorkflow({ backend: BackendSqlite.connect(":memory:") });
const seen = [];
const charge = async () => {
  seen.push("begins");
  await new Promise((resolve) => setTimeout(resolve, 300));
  seen.push("ends");
};
let fails = true;
const flaky = () => {
  if (!fails) return;
  fails = false;
  throw new Error("not yet");
};
const retryPolicy = { initialInterval: "1s", maximumAttempts: 2 };

const workflows = {
  "beside a sleep of 1 s": (step) => Promise.all([step.run({ name: "charge" }, charge), step.sleep("pause", "1s")]),
  "beside a back-off of 1 s": (step) => Promise.all([step.run({ name: "charge" }, charge), step.run({ name: "flaky", retryPolicy }, flaky)]),
  "before a sleep of 1 s": async (step) => {
    await step.run({ name: "charge" }, charge);
    await step.sleep("pause", "1s");
  },
};
const defined = Object.entries(workflows).map(([name, run]) => [name, engine.defineWorkflow({ name }, ({ step }) => run(step))]);
const worker = engine.newWorker({ concurrency: 1 });
await worker.start();
for (const [name, workflow] of defined) {
  seen.length = 0;
  const handle = await workflow.run({});
  await handle.result({ timeoutMs: 20_000 });
  console.log(`a step of 300 ms ${name}: ${seen.join(", ")}; the run completed`);
}
await worker.stop();
END

node_modules/.bin/node --no-warnings run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
