import { createExecutionContext } from "cloudflare:test";
import { tokens } from "millrace/operate";
import { expect, it } from "vitest";
import type { Json } from "../../api/client.ts";
import { plain } from "../../probe/pull.ts";
import worker from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { probeEnv } from "../harness.ts";
import { ALONE, LabQueue, textOf } from "./lab.ts";

/** Sends a request of an operator of the queue's tenant to the API of dead letters, and returns the answer. */
async function asked(queue: LabQueue, path: string, body?: object) {
  const token = await tokens.mint(probeEnv, { tenantId: queue.tenant, actor: "ada", scopes: ["read", "operate"] });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const request = new Request(`http://localhost/v1/dead-letters${path}`, {
    headers,
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  const response = (await worker.fetch?.(request as never, probeEnv as unknown as Env, createExecutionContext())) as unknown as Response;
  return { status: response.status, body: (await response.json()) as Json };
}

/** Releases each message until it has no deliveries left. */
async function giveUp(queue: LabQueue): Promise<void> {
  for (let messages = await queue.pull(); messages.length > 0; messages = await queue.pull()) await queue.ack([], messages);
}

function letters(queue: LabQueue, count: number): Promise<Json[]> {
  return until(
    async () => (await asked(queue, "")).body.items as Json[],
    (items) => items.length >= count,
  );
}

it("a dead letter of a pull queue becomes a dead letter of the engine and leaves its queue, and two replays send one message", async () => {
  const queue = new LabQueue(plain);
  await queue.send({ scene: 7 });
  await giveUp(queue);
  const [letter] = await letters(queue, 1);
  expect(letter).toMatchObject({ queue: "pull:plain", reason: "exhausted", attempts: 2, state: "open", instance_id: null });
  await until(
    () => queue.object.look(),
    (look) => look.letters === 0,
  );
  expect((await queue.object.look()).letters).toBe(0);
  const path = `/${letter?.id}`;
  expect((await asked(queue, path)).body.body).toEqual({ content_type: "json", body: { scene: 7 } });
  const again = await Promise.all([1, 2].map(() => asked(queue, `${path}/replay`, { reason: "The GPU is repaired." })));
  expect(again.map(({ status }) => status).toSorted()).toEqual([200, 202]);
  expect((await queue.pull()).map(textOf)).toEqual([{ scene: 7 }]);
});

it("a replay returns a body of bytes unchanged, and a skipped dead letter of a pull queue cannot be replayed", async () => {
  const queue = new LabQueue(plain);
  await queue.client.sendBatch([
    { body: new Uint8Array([0, 255, 7]), contentType: "bytes" },
    { body: "größer", contentType: "text" },
  ]);
  await giveUp(queue);
  const bodies = await Promise.all((await letters(queue, 2)).map(async ({ id }) => ({ id, ...(await asked(queue, `/${id}`)).body.body })));
  const [bytes, text] = ["bytes", "text"].map((type) => bodies.find(({ content_type }) => content_type === type));
  expect((await asked(queue, `/${text?.id}/skip`, { reason: "Nobody wants it." })).body).toMatchObject({ skipped: true });
  expect((await asked(queue, `/${bytes?.id}/replay`, { reason: "Again." })).status).toBe(202);
  expect((await queue.pull()).map(({ body }) => [...Buffer.from(body, "base64")])).toEqual([[0, 255, 7]]);
  expect((await asked(queue, `/${text?.id}/replay`, { reason: "After all." })).body).toMatchObject({ sent: false });
});

it("a replay of a pull queue's dead letter with another body is refused, because only the deployment's code sets such bodies", async () => {
  const queue = new LabQueue(plain);
  await queue.send("as it came");
  await giveUp(queue);
  const [letter] = await letters(queue, 1);
  const { status } = await asked(queue, `/${letter?.id}/replay`, { reason: "Better.", body: { content_type: "json", body: "another" } });
  expect([status, (await letters(queue, 1))[0]?.state]).toEqual([403, "open"]);
});

it("dead letters of a pull queue are hidden from other tenants", async () => {
  const [queue, other] = [new LabQueue(plain), new LabQueue(plain)];
  await queue.send("secret");
  await giveUp(queue);
  const [letter] = await letters(queue, 1);
  expect((await asked(other, `/${letter?.id}`)).status).toBe(404);
  expect((await asked(other, `/${letter?.id}/replay`, { reason: "Mine." })).status).toBe(404);
});

it("dead letters stay in their pull queue in a Worker without the engine's bindings", async () => {
  const queue = new LabQueue(plain, ALONE);
  await queue.send("alone");
  await giveUp(queue);
  expect(await queue.object.letters()).toMatchObject([{ body: "alone", dueAt: null }]);
  expect((await asked(queue, "")).body.items).toEqual([]);
});
