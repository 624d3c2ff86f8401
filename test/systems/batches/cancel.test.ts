import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { callerWith, expectProblem, type Json, reaches, send, until } from "../../api/client.ts";
import { batchIn, completed, contactsCsv, contactsOf, upload } from "./batch.ts";
import { holdAt } from "./hold.ts";

const reason = "the wrong list";

it("a cancelled batch stops at its next chunk; completed rows are counted and remain, and its instance ends", async () => {
  const caller = await callerWith();
  const held = holdAt("c2500");
  const { batch_id: id, instance_id: instance } = (await upload(caller, contactsCsv(5000))).body;
  await until(
    async () => held.attempts(),
    (attempts) => attempts > 0,
  );
  const cancelled = await caller.post(`/v1/batches/${id}/cancel`, { reason });
  expect(cancelled).toMatchObject({ status: 202, body: { state: "cancelling", rows: { done: 2000 }, action_id: expect.any(String) } });
  held.release();
  const batch = await batchIn(caller, id, "cancelled");
  // The running chunk is done; no other chunk has started.
  expect(batch).toMatchObject({ cancel_reason: reason, ended_at: expect.any(String), rows: { done: 3000 } });
  expect(await contactsOf(caller.tenantId)).toHaveLength(3000);
  await reaches(caller, instance, "complete");

  expect(await caller.post(`/v1/batches/${id}/cancel`, { reason: "again" })).toMatchObject({
    status: 200,
    body: { state: "cancelled", cancel_reason: reason },
  });
  const { items } = (await caller.get("/v1/audit")).body;
  expect(items.map(({ verb, target, result }: Json) => [verb, target, result])).toEqual([
    ["cancel", id, "no_change"],
    ["cancel", id, "applied"],
  ]);
});

it("a complete batch cannot be cancelled", async () => {
  const caller = await callerWith();
  const { batch_id: id } = await completed(caller, contactsCsv(1));
  expect(expectProblem(await caller.post(`/v1/batches/${id}/cancel`, { reason }), 409, "invalid_transition")).toMatchObject({
    from: "complete",
  });
  expect((await caller.get(`/v1/batches/${id}`)).body).toMatchObject({ state: "complete", cancel_reason: null });
});

it("a batch that is cancelled while it writes its last chunk completes, and its result reports that", async () => {
  const caller = await callerWith();
  const held = holdAt("c1500");
  const { batch_id: id } = (await upload(caller, contactsCsv(1800))).body;
  await until(
    async () => held.attempts(),
    (attempts) => attempts > 0,
  );
  expect((await caller.post(`/v1/batches/${id}/cancel`, { reason })).status).toBe(202);
  held.release();
  expect(await batchIn(caller, id, "complete", "cancelled")).toMatchObject({ state: "complete", rows: { done: 1800 } });
  expect(await contactsOf(caller.tenantId)).toHaveLength(1800);
});

it.each(Array.from({ length: 8 }, (_, index) => index * 12))(
  "a batch that is cancelled %i ms after the request has a state that matches its rows",
  async (delay) => {
    const caller = await callerWith();
    const rows = 1800;
    const { batch_id: id, instance_id: instance } = (await upload(caller, contactsCsv(rows))).body;
    await scheduler.wait(delay);
    const answer = await caller.post(`/v1/batches/${id}/cancel`, { reason });
    const batch = await batchIn(caller, id, "cancelled", "complete");
    const written = (await contactsOf(caller.tenantId)).length;
    expect(batch.rows.done).toBe(written);
    expect(batch.state).toBe(written === rows ? batch.state : "cancelled");
    if (batch.state === "complete") expect(written).toBe(rows);
    if (answer.status === 409) expect(batch.state).toBe("complete");
    await reaches(caller, instance, "complete");
  },
);

it("a cancelled batch with a stopped instance also ends", async () => {
  const caller = await callerWith();
  const key = `files/${caller.tenantId}/people.csv`;
  await env.PAYLOADS.put(key, contactsCsv(3));
  await caller.post("/v1/batches", { operation: "import", dataset: "contacts", batch_id: "gone", manifest: { key, format: "csv" } });
  await env.PAYLOADS.delete(key);
  const { instance_id } = await batchIn(caller, "gone", "errored");
  expect((await caller.post("/v1/batches/gone/cancel", { reason })).status).toBe(202);
  await batchIn(caller, "gone", "cancelled");
  await reaches(caller, instance_id, "complete");
});

it("a follower of a batch gets its progress until the end, and continues after a broken connection", async () => {
  const caller = await callerWith();
  const { batch_id: id } = (await upload(caller, contactsCsv(3000))).body;
  const authorization = `Bearer ${caller.token}`;
  const follow = async () => {
    const headers = { authorization };
    const { body, headers: answered } = await send(`/v1/batches/${id}/stream`, { headers });
    expect(answered.get("content-type")).toBe("text/event-stream");
    return [...String(body).matchAll(/id: (.+)\nevent: (\w+)\ndata: (.+)\n\n/g)].map(([, event, type, data]) => ({
      id: event,
      type,
      batch: JSON.parse(data ?? ""),
    }));
  };
  const events = await follow();
  expect(events.map(({ type }) => type)).toEqual([...events.slice(1).map(() => "progress"), "end"]);
  expect(events.at(-1)?.batch).toMatchObject({ state: "complete", rows: { done: 3000 } });
  const read = events.map(({ batch }) => batch.read_bytes);
  expect(read).toEqual(read.toSorted((one: number, other: number) => one - other));
  // Otherwise a follower would request the end again every second, forever.
  const seen = { authorization, "last-event-id": events.at(-1)?.id ?? "" };
  expect((await send(`/v1/batches/${id}/stream`, { headers: seen })).status).toBe(204);
});
