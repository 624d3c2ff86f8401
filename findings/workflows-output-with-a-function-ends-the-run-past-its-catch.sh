#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: An output that cannot be stored fails the step in the same way for each type: the code around the step can
#   catch it.
# Behaviour: A class instance, a promise or a URL in the output fails the step, after its retries, and catch receives
#   the error. A function or a Response in the output ends the instance at once: catch and the code after it do not
#   run.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
a class instance: complete, caught DataCloneError, 2 attempts
a promise: complete, caught DataCloneError, 2 attempts
a URL: complete, caught DataCloneError, 2 attempts
a function: errored, WorkflowFatalError, 1 attempt
a Response: errored, WorkflowFatalError, 1 attempt
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkflowEntrypoint } from "cloudflare:workers";

class Price {
  amount = 5;
}

const outputs = {
  "a class instance": () => new Price(),
  "a promise": () => ({ later: Promise.resolve(1) }),
  "a URL": () => ({ url: new URL("https://example.com/") }),
  "a function": () => ({ total: () => 5 }),
  "a Response": () => new Response("hello"),
};
const attempts = {};

export class Runs extends WorkflowEntrypoint {
  async run({ payload: kind }, step) {
    const once = { limit: 1, delay: 10, backoff: "constant" };
    try {
      await step.do("make", { retries: once }, async () => {
        attempts[kind] = (attempts[kind] ?? 0) + 1;
        return outputs[kind]();
      });
      return "not refused";
    } catch (error) {
      return `caught ${error.name}`;
    }
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
    const lines = [];
    for (const [index, kind] of Object.keys(outputs).entries()) {
      const { status, output, error } = await ended(await RUNS.create({ id: `run-${index}`, params: kind }));
      const tries = attempts[kind] === 1 ? "1 attempt" : `${attempts[kind]} attempts`;
      lines.push(`${kind}: ${status}, ${output ?? error.name}, ${tries}`);
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
