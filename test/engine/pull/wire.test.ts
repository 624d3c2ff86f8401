import { expect, it } from "vitest";
import { PULL_SCOPE } from "../../../packages/millrace/src/pull/definition.ts";
import { guarded, renders } from "../../probe/pull.ts";
import { LabQueue, type Pulled, request, tokenFor } from "./lab.ts";
import { PUBLISHED_REQUESTS, publishedAck, publishedFailure, publishedPull } from "./published.ts";

it("a pull answers in the format that Cloudflare publishes, with bodies that its clients can decode", async () => {
  const queue = new LabQueue(renders);
  await queue.client.sendBatch([
    { body: { scene: "größer" } },
    { body: "plain größer", contentType: "text" },
    { body: new Uint8Array([0, 255, 7]), contentType: "bytes" },
  ]);
  const pulled = await queue.ask("pull", { batch_size: 100 });
  expect(pulled.status).toBe(200);
  const { message_backlog_count, messages } = publishedPull.parse(pulled.body).result;
  expect(message_backlog_count).toBe(3);
  const [json, text, bytes] = messages;
  expect(JSON.parse(Buffer.from(json?.body ?? "", "base64").toString())).toEqual({ scene: "größer" });
  expect(text?.body).toBe("plain größer");
  expect([...Buffer.from(bytes?.body ?? "", "base64")]).toEqual([0, 255, 7]);
  expect(messages.map(({ metadata }) => metadata["CF-Content-Type"])).toEqual(["json", "text", "bytes"]);
  const acked = await queue.ask("ack", {
    acks: [{ lease_id: json?.lease_id }, { lease_id: "lease_id2" }],
    retries: [{ lease_id: text?.lease_id, delay_seconds: 600 }],
  });
  expect(acked.status).toBe(200);
  expect(publishedAck.parse(acked.body).result).toEqual({ ackCount: 1, retryCount: 1, warnings: { lease_id2: expect.any(String) } });
});

it("a pull queue accepts the requests that Cloudflare publishes, and a pull returns five messages by default", async () => {
  const queue = new LabQueue(renders);
  await queue.send(1, 2, 3, 4, 5, 6, 7);
  for (const body of PUBLISHED_REQUESTS.ack) expect((await queue.ask("ack", body)).status).toBe(200);
  const counts: number[] = [];
  for (const body of PUBLISHED_REQUESTS.pull) {
    counts.push(publishedPull.parse((await queue.ask("pull", body)).body).result.messages.length);
  }
  expect(counts).toEqual([5, 2, 0, 0]);
});

it.each([
  ["a batch of more than 100 messages", "pull", { batch_size: 101 }, 422, "batch_size"],
  ["a batch of 0 messages", "pull", { batch_size: 0 }, 422, "batch_size"],
  ["a lease of more than twelve hours", "pull", { visibility_timeout_ms: 43_200_001 }, 422, "visibility_timeout_ms"],
  ["a delay of more than twelve hours", "ack", { retries: [{ lease_id: "a.1", delay_seconds: 43_201 }] }, 422, "delay_seconds"],
  ["an invalid lease id", "ack", { acks: [{ lease_id: 7 }] }, 422, "lease_id"],
] as const)("a request with %s is refused in the format of Cloudflare's errors", async (_, verb, body, status, named) => {
  const answer = await new LabQueue(renders).ask(verb, body);
  expect(answer.status).toBe(status);
  const [error] = publishedFailure.parse(answer.body).errors;
  expect(error).toMatchObject({ code: 10_000 + status, message: expect.stringContaining(named) });
});

it.each([
  ["another method", "pull", { method: "GET" }, {}, 405],
  ["an unknown verb", "push", {}, {}, 404],
  ["an Idempotency-Key, which pull queues do not support", "pull", {}, { "idempotency-key": "k" }, 422],
  ["a body in gzip", "pull", {}, { "content-encoding": "gzip" }, 415],
  ["a body in another charset", "pull", {}, { "content-type": "application/json; charset=utf-16" }, 415],
] as const)(
  "a request with %s is refused in the format of Cloudflare's errors, and reaches no queue",
  async (_, verb, how, headers, status) => {
    const queue = new LabQueue(renders);
    const authorization = `Bearer ${await tokenFor(queue.tenant, PULL_SCOPE)}`;
    const answer = await request(`${queue.path}/${verb}`, {}, { authorization, ...headers }, how);
    expect([answer.status, publishedFailure.parse(answer.body).errors[0]?.code]).toEqual([status, 10_000 + status]);
  },
);

it("a token that exceeds its rate gets a Retry-After with the time of its next permitted call", async () => {
  const queue = new LabQueue(renders);
  const authorization = `Bearer ${await tokenFor(queue.tenant, PULL_SCOPE)}`;
  const asked = () => request(`${queue.path}/pull`, {}, { authorization }, { env: { REQUESTS_PER_TOKEN: 1 } });
  expect((await asked()).status).toBe(200);
  const { status, headers, body } = await asked();
  expect([status, publishedFailure.parse(body).errors[0]?.code]).toEqual([429, 10_429]);
  expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  expect([headers.get("ratelimit"), headers.get("ratelimit-policy")]).toEqual([expect.stringContaining("r=0"), '"token";q=1;w=10']);
});

it("a pull needs a token of the queue's tenant with the queue's scope", async () => {
  const queue = new LabQueue(renders);
  await queue.send("secret");
  const other = new LabQueue(renders);
  const asked = async (path: string, token?: string) =>
    request(`${path}/pull`, {}, token === undefined ? {} : { authorization: `Bearer ${token}` });
  const mine = await tokenFor(queue.tenant, PULL_SCOPE);
  const refusals = [
    [await asked(queue.path), 401, "token"],
    [await asked(queue.path, "mr_0000000000000000_nothing"), 401, "token"],
    [await asked(queue.path, await tokenFor(queue.tenant, "read", "enqueue")), 403, "`pull`"],
    [await asked(queue.path, await tokenFor(other.tenant, PULL_SCOPE)), 403, "another tenant"],
    [await asked(other.path, mine), 403, "another tenant"],
    [await asked(queue.path.replace("renders", "rendrs"), mine), 404, "renders"],
    [await asked(new LabQueue(guarded).path.replace(/accounts\/[^/]+/, `accounts/${queue.tenant}`), mine), 403, "`operate`"],
  ] as const;
  for (const [{ status, body }, expected, said] of refusals) {
    expect([status, publishedFailure.parse(body).errors[0]?.message]).toEqual([expected, expect.stringContaining(said)]);
  }
  expect(((await asked(queue.path, mine)).body.result as { messages: Pulled[] }).messages).toHaveLength(1);
});
