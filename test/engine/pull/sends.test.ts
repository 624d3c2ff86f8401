import { definePullQueue, pullObject, pullQueueOf } from "millrace/pull";
import { expect, it } from "vitest";
import { halfListed, renders, unlisted } from "../../probe/pull.ts";
import { rowsWritten } from "../written.ts";
import { LabQueue, type Pulled, pullEnv } from "./lab.ts";

it.each([
  ["a body above 128 KB", [{ body: "x".repeat(128_000) }], "payload_too_large", "128 KB"],
  ["more than 100 messages", Array.from({ length: 101 }, () => ({ body: 1 })), "payload_too_large", "the limit is 100"],
  ["more than 256 KB together", Array.from({ length: 3 }, () => ({ body: "x".repeat(100_000) })), "payload_too_large", "256 KB"],
  ["a body without JSON", [{ body: undefined }], "invalid_payload", "has no JSON"],
  ["NaN in a body", [{ body: { rates: [0 / 0] } }], "invalid_payload", 'has no JSON: it has NaN at "rates.0"'],
  ["a text body that is an object", [{ body: { a: 1 }, contentType: "text" as const }], "invalid_payload", "well-formed string"],
  ["the content type v8", [{ body: 1, contentType: "v8" as never }], "invalid_payload", "json, text or bytes"],
  ["a delay beyond 12 hours", [{ body: 1 }, { body: 2, delaySeconds: 43_201 }], "invalid_payload", "message 1"],
  ["an empty key", [{ body: 1, idempotencyKey: "" }], "invalid_payload", "1 to 500"],
  ["a key of too many characters", [{ body: 1, idempotencyKey: "🙂".repeat(501) }], "invalid_payload", "1 to 500"],
  ["a body nested too deep", [{ body: 1 }, { body: JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`) }], "invalid_payload", "message 1"],
] as const)("a send of %s is refused, and nothing of its batch is stored", async (_, batch, code, said) => {
  const queue = new LabQueue(renders);
  await expect(queue.client.sendBatch([...batch])).rejects.toMatchObject({ code, message: expect.stringContaining(said) });
  expect(await queue.object.look()).toMatchObject({ depth: 0 });
});

it("a pull queue has the limits of a Cloudflare queue: 100 messages in one call, and a body of 128 KB", async () => {
  const queue = new LabQueue(renders);
  const sent = await queue.client.sendBatch(Array.from({ length: 100 }, (_, n) => ({ body: n })));
  expect(new Set(sent.map(({ id }) => id)).size).toBe(100);
  await queue.client.send("x".repeat(127_998));
  expect(await queue.pull({ batch_size: 100 })).toHaveLength(100);
  expect(await queue.object.look()).toMatchObject({ depth: 101, leased: 100 });
});

it("senders and consumers of an unknown pull queue get an error that names the list without that queue", async () => {
  const said = { code: "config_invalid", message: expect.stringContaining("pullObject([…])") };
  await expect(pullQueueOf(pullEnv, unlisted, "acme").send(1)).rejects.toMatchObject(said);
  const queue = new LabQueue(halfListed);
  for (const verb of ["pull", "ack"] as const) {
    const { status, body } = await queue.ask(verb, {});
    expect([status, body.errors]).toMatchObject([500, [{ message: expect.stringContaining("pullObject([…])") }]]);
  }
});

it("a key's length is counted in characters, and a send for an unknown tenant is refused", async () => {
  expect(await new LabQueue(renders).client.send(1, { idempotencyKey: "🙂".repeat(500) })).toMatchObject({ duplicate: false });
  const said = { code: "invalid_payload", message: expect.stringContaining('"Acme" is not a tenant') };
  expect(() => pullQueueOf(pullEnv, renders, "Acme")).toThrow(expect.objectContaining(said));
});

it.each([
  ["retries.delay", { retries: { delay: "13 hours" as const } }],
  ["remember", { remember: "366 days" as const }],
  ["scope", { scope: "GPU" }],
])("a definition of a pull queue with %s beyond its bounds is refused", (what, wrong) => {
  expect(() => pullObject([definePullQueue({ name: "renders", ...wrong })])).toThrow(expect.objectContaining({ code: "config_invalid" }));
  expect(() => pullObject([definePullQueue({ name: "renders", ...wrong })])).toThrow(what);
});

it("a pull queue that is only read stores nothing on disk", async () => {
  const queue = new LabQueue(renders);
  const before = (await queue.object.look()).bytes;
  expect(await queue.pull()).toEqual([]);
  await queue.ack([]);
  expect((await queue.object.look()).bytes).toBe(before);
});

it("a hundred messages cost one written row each to send, one row to lease, and one row each plus one to acknowledge", async () => {
  const queue = new LabQueue(renders);
  await queue.send("first");
  const bodies = Array.from({ length: 100 }, (_, n) => n);
  expect(await rowsWritten(queue.object, () => queue.send(...bodies))).toBe(100);
  await queue.ack(await queue.pull({ batch_size: 1 }));
  let pulled: Pulled[] = [];
  const leased = rowsWritten(queue.object, async () => {
    pulled = await queue.pull({ batch_size: 100 });
  });
  expect(await leased).toBe(1);
  expect(await rowsWritten(queue.object, () => queue.ack(pulled))).toBe(101);
  expect(await rowsWritten(queue.object, () => queue.pull())).toBe(0);
});
