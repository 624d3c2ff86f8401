// BASE=https://millrace.example.com/client/v4 ACCOUNT=acme QUEUE=renders TOKEN=mr_… node pull-client.js
const { BASE, ACCOUNT, QUEUE, TOKEN } = process.env;

async function call(verb, body) {
  const response = await fetch(`${BASE}/accounts/${ACCOUNT}/queues/${QUEUE}/messages/${verb}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const { success, errors, result } = await response.json();
  if (!success) throw new Error(errors[0].message);
  return result;
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
  else await new Promise((resolve) => setTimeout(resolve, 2000));
}
