#!/usr/bin/env bash
# Package: miniflare 5.20261102.0-beta with workerd 1.20261102.1, the local Workers runtime; compatibility date
#   2026-10-01.
# Guess: metrics().backlogCount counts each message that the queue holds and has not delivered for good.
# Behaviour: The local queue counts messages that wait for their batch. It counts neither a message sent with a delay
#   nor one that waits for its retry: a backlog of 0 does not mean an empty queue.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
before the first message: backlog 0
1 message waits for its batch: backlog 1
and 1 was sent with a delay of 60 s: backlog 1
the first was delivered, and waits 60 s for its retry: backlog 0
END

echo '{ "private": true, "allowScripts": { "node": true, "workerd": true } }' >package.json
npm install --silent --no-audit --no-fund miniflare@5.20261102.0-beta node@26.10.0

cat >worker.mjs <<'END'
let delivered = 0;

export default {
  async fetch(_request, { QUEUE }) {
    const backlog = async () => `backlog ${(await QUEUE.metrics()).backlogCount}`;
    const lines = [`before the first message: ${await backlog()}`];
    await QUEUE.send("first");
    lines.push(`1 message waits for its batch: ${await backlog()}`);
    await QUEUE.send("second", { delaySeconds: 60 });
    lines.push(`and 1 was sent with a delay of 60 s: ${await backlog()}`);
    for (let turn = 0; delivered === 0 && turn < 100; turn++) await scheduler.wait(100);
    await scheduler.wait(500);
    lines.push(`the first was ${delivered === 1 ? "" : "not "}delivered, and waits 60 s for its retry: ${await backlog()}`);
    return new Response(lines.join("\n"));
  },
  async queue(batch) {
    delivered += batch.messages.length;
    batch.retryAll({ delaySeconds: 60 });
  },
};
END

cat >run.mjs <<'END'
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const worker = {
  name: "worker",
  modules: [{ type: "ESModule", path: "worker.mjs" }],
  compatibilityDate: "2026-10-01",
  queueProducers: { QUEUE: "orders" },
  queueConsumers: { orders: { maxBatchSize: 10, maxBatchTimeout: 2, maxRetries: 5 } },
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
