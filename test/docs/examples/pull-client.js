// BASE=https://millrace.example.com/client/v4 ACCOUNT=acme QUEUE=renders TOKEN=mr_… node pull-client.js
const { BASE, ACCOUNT, QUEUE, TOKEN } = process.env;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Repeats a request until it is answered. After a network error, 429 or 5xx it waits, longer each time. */
async function call(verb, body) {
  for (let waitMs = 250; ; waitMs = Math.min(waitMs * 2, 60_000)) {
    const response = await fetch(`${BASE}/accounts/${ACCOUNT}/queues/${QUEUE}/messages/${verb}`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    }).catch(() => undefined);
    const answer = response && response.status !== 429 && response.status < 500 && (await response.json().catch(() => undefined));
    if (answer?.success) return answer.result;
    if (answer) throw new Error(answer.errors[0].message);
    await sleep(Math.max(waitMs, 1000 * (Number(response?.headers.get("retry-after")) || 0)));
  }
}

async function render({ scene }) {
  if (scene < 0) throw new Error("There is no such scene.");
  console.log(`rendered ${scene}`);
}

for (;;) {
  const { messages } = await call("pull", { batch_size: 10, visibility_timeout_ms: 60_000 });
  const acks = [];
  const retries = [];
  for (const { lease_id, body } of messages) {
    const done = await render(JSON.parse(Buffer.from(body, "base64").toString())).then(
      () => true,
      () => false,
    );
    done ? acks.push({ lease_id }) : retries.push({ lease_id, delay_seconds: 30 });
  }
  if (messages.length > 0) await call("ack", { acks, retries });
  else await sleep(2000);
}
