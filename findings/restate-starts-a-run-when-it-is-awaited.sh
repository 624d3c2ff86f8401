#!/usr/bin/env bash
# Package: @restatedev/restate-sdk 1.17.2 with @restatedev/restate-server 1.7.12, on the npm package node 26.10.0.
# Guess: ctx.run("a", …) starts its closure at the call, as every function that returns a promise does. So two runs that
#   are begun together overlap, and a run that nobody awaits still happens.
# Behaviour: The closure starts when the promise is awaited, or when then() is called on it. Two runs begun together and
#   awaited in turn run one after the other, in the order of the awaits. A run without an await never starts, also while
#   the handler sleeps, and the invocation succeeds. RestatePromise.all overlaps its runs.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
a and b begun, b awaited, then a: "done", b begins, b ends, a begins, a ends
a begun and not awaited: "done", nothing
a begun, a sleep of 600 ms awaited: "done", nothing
a begun, its then() called, 600 ms awaited: "done", a begins, a ends
RestatePromise.all of a and b: "done", both begin before one ends
END

echo '{ "private": true, "allowScripts": { "node": true } }' >package.json
npm install --silent --no-audit --no-fund @restatedev/restate-sdk@1.17.2 @restatedev/restate-server@1.7.12 node@26.10.0

cat >run.mjs <<'END'
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import * as restate from "@restatedev/restate-sdk";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

const seen = [];
const slow = (name) => async () => {
  seen.push(`${name} begins`);
  await wait(200);
  seen.push(`${name} ends`);
};
const handlers = {
  inTurn: async (ctx) => {
    const a = ctx.run("a", slow("a"));
    const b = ctx.run("b", slow("b"));
    await b;
    await a;
    return "done";
  },
  alone: async (ctx) => {
    ctx.run("a", slow("a"));
    return "done";
  },
  besideSleep: async (ctx) => {
    ctx.run("a", slow("a"));
    await ctx.sleep(600);
    return "done";
  },
  withThen: async (ctx) => {
    ctx.run("a", slow("a")).then(() => undefined);
    await wait(600);
    return "done";
  },
  together: async (ctx) => {
    await restate.RestatePromise.all([ctx.run("a", slow("a")), ctx.run("b", slow("b"))]);
    return "done";
  },
};
const CASES = {
  inTurn: "a and b begun, b awaited, then a",
  alone: "a begun and not awaited",
  besideSleep: "a begun, a sleep of 600 ms awaited",
  withThen: "a begun, its then() called, 600 ms awaited",
  together: "RestatePromise.all of a and b",
};

const [service, ingress, admin, node] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
await restate.serve({ services: [restate.service({ name: "probe", handlers })], port: service });
const server = spawn("node_modules/.bin/restate-server", ["--base-dir", "state", "--no-logo"], {
  stdio: "ignore",
  env: {
    ...process.env,
    DO_NOT_TRACK: "1",
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
  },
});
const ended = once(server, "exit");
try {
  const registration = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ uri: `http://127.0.0.1:${service}` }) };
  for (let tries = 0; ; tries++) {
    const answer = await fetch(`http://127.0.0.1:${admin}/deployments`, registration).catch(() => undefined);
    if (answer?.ok) break;
    if (tries === 150) throw new Error("The server did not start.");
    await wait(200);
  }
  for (const [handler, name] of Object.entries(CASES)) {
    seen.length = 0;
    const answer = await fetch(`http://127.0.0.1:${ingress}/probe/${handler}`, { method: "POST", signal: AbortSignal.timeout(20_000) });
    const text = await answer.text();
    await wait(300);
    const overlap = seen[1]?.endsWith("begins");
    console.log(`${name}: ${text}, ${overlap ? "both begin before one ends" : seen.join(", ") || "nothing"}`);
  }
} finally {
  server.kill();
  await ended;
}
process.exit();
END

RESTATE_LOGGING=ERROR node_modules/.bin/node --no-warnings run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
