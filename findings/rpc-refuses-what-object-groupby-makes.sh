#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: Workers RPC and a step's output carry each plain object that structuredClone takes.
# Behaviour: Both refuse an object without a prototype with a DataCloneError that names the type "Object".
#   Object.groupBy and the named groups of a regular expression make such objects. structuredClone in the same runtime
#   takes them.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
Object.groupBy, structuredClone: {"odd":[1,3],"even":[2]}
Object.groupBy, returned over RPC: DataCloneError: Could not serialize object of type "Object". This type does not support serialization.
Object.groupBy, output of a step: DataCloneError: Could not serialize object of type "Object". This type does not support serialization.
groups of a match, structuredClone: {"year":"2026","month":"11"}
groups of a match, returned over RPC: DataCloneError: Could not serialize object of type "Object". This type does not support serialization.
groups of a match, output of a step: DataCloneError: Could not serialize object of type "Object". This type does not support serialization.
a copy by spread, returned over RPC: {"year":"2026","month":"11"}
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
import { WorkerEntrypoint, WorkflowEntrypoint } from "cloudflare:workers";

const groups = () => "2026-11".match(/(?<year>\d+)-(?<month>\d+)/).groups;
const things = {
  "Object.groupBy": () => Object.groupBy([1, 2, 3], (n) => (n % 2 ? "odd" : "even")),
  "groups of a match": groups,
  "a copy by spread": () => ({ ...groups() }),
};

export class Maker extends WorkerEntrypoint {
  make(kind) {
    return things[kind]();
  }
}

export class Runs extends WorkflowEntrypoint {
  async run({ payload: kind }, step) {
    const never = { limit: 0, delay: 10, backoff: "constant" };
    return tried(() => step.do("make", { retries: never }, async () => things[kind]()));
  }
}

async function tried(make) {
  try {
    return JSON.stringify(await make());
  } catch (error) {
    return `${error.name}: ${error.message}`;
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
  async fetch(_request, { MAKER, RUNS }) {
    const lines = [];
    for (const [index, kind] of ["Object.groupBy", "groups of a match"].entries()) {
      const run = await ended(await RUNS.create({ id: `run-${index}`, params: kind }));
      lines.push(`${kind}, structuredClone: ${await tried(() => structuredClone(things[kind]()))}`);
      lines.push(`${kind}, returned over RPC: ${await tried(() => MAKER.make(kind))}`);
      lines.push(`${kind}, output of a step: ${run.output}`);
    }
    lines.push(`a copy by spread, returned over RPC: ${await tried(() => MAKER.make("a copy by spread"))}`);
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
  serviceBindings: { MAKER: { name: "worker", entrypoint: "Maker" } },
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
