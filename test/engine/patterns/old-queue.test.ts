import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { enqueueOne, ids } from "millrace";
import { deadLetters } from "millrace/operate";
import { expect, it } from "vitest";
import { takeOver } from "../../docs/examples/old-queue.ts";
import { ParcelFollow } from "../../docs/examples/parcel.ts";
import { app } from "../../probe/worker.ts";
import { failAt, fresh, operator, probeEnv, rows, statusOf, until } from "../harness.ts";

type Old = Parameters<typeof takeOver>[0]["messages"][number]["body"];

/** Delivers a message of the old queue under this id, and returns how the handler settled it. */
async function delivered(id: string, body: unknown): Promise<"acked" | "retried"> {
  const batch = createMessageBatch<Old>("old-parcels", [{ id, timestamp: new Date(1_800_000_000_000), attempts: 1, body: body as Old }]);
  await takeOver(batch, probeEnv as unknown as Parameters<typeof takeOver>[1], app);
  const { explicitAcks, retryMessages } = await getQueueResult(batch, createExecutionContext());
  expect([...explicitAcks, ...retryMessages.map(({ msgId }) => msgId)]).toEqual([id]);
  return explicitAcks.length === 1 ? "acked" : "retried";
}

const instances = (key: string) => rows("SELECT status FROM millrace_instances WHERE id = ?1", ids.instance("acme", "follow-parcel", key));
const letters = (key: string) =>
  until(
    () =>
      rows<{ id: string; reason: string; state: string; tenant_id: string }>(
        "SELECT * FROM millrace_dead_letters WHERE idempotency_key = ?1",
        key,
      ),
    (found) => found.length > 0,
  );

it("a message of an old queue becomes one command, for any number of deliveries", async () => {
  const parcel = fresh("parcel");
  expect(await delivered(fresh(), { parcel })).toBe("acked");
  expect(await delivered(fresh(), { parcel })).toBe("acked");
  expect(await instances(parcel)).toHaveLength(1);
});

it("a permanently refused message of an old queue becomes one dead letter of the engine, and an operator can repair it there", async () => {
  const [id, key] = [fresh(), fresh("x".repeat(70))];
  expect(await delivered(id, { parcel: key, to: "Ada" })).toBe("acked");
  expect(await letters(key)).toMatchObject([{ tenant_id: "acme", reason: "invalid_payload", state: "open" }]);
  expect(await delivered(id, { parcel: key, to: "Ada" })).toBe("acked");
  const nobody = fresh();
  for (const body of [null, 7, { to: "Ada" }]) expect(await delivered(nobody + typeof body, body)).toBe("acked");
  for (const body of [null, 7, { to: "Ada" }]) expect(await letters(nobody + typeof body)).not.toEqual([]);

  const [letter] = await letters(key);
  const [{ body = "" } = {}] = await rows<{ body: string }>("SELECT body FROM millrace_dead_letters WHERE idempotency_key = ?1", key);
  expect(JSON.parse(body).payload_inline).toEqual({ parcel: key, parcel_id: key, to: "Ada" });
  const mended = { ...JSON.parse(body), payload_inline: { parcel_id: "P-1" } };
  const reader = { ...operator, scopes: ["read", "operate", "enqueue"] };
  const asked = { reason: "Its name was too long.", body: mended };
  expect(await deadLetters.replay(probeEnv, app, reader, letter?.id ?? "", asked)).toMatchObject({ sent: true });
  expect(await instances(key)).toHaveLength(1);
  expect(await letters(key), "a message that is delivered twice has one dead letter").toMatchObject([{ state: "replayed" }]);
});

it("a message of an old queue with the key of other work becomes a dead letter", async () => {
  const parcel = fresh("parcel");
  const asked = { command: ParcelFollow, payload: { parcel_id: "another" }, idempotencyKey: parcel };
  await enqueueOne(probeEnv, app, { tenantId: "acme", source: "test" }, asked);
  expect(await delivered(fresh(), { parcel })).toBe("acked");
  expect(await letters(parcel)).toMatchObject([{ tenant_id: "acme", reason: "idempotency_key_reused" }]);
});

it("a message of an old queue that arrives while the database is unavailable is redelivered", async () => {
  const parcel = fresh("parcel");
  failAt("A01 before accept commits", new Error("D1_ERROR: Network connection lost."));
  expect(await delivered(fresh(), { parcel })).toBe("retried");
  expect(await statusOf(ids.instance("acme", "follow-parcel", parcel))).toBeUndefined();
  expect(await delivered(fresh(), { parcel })).toBe("acked");
  expect(await instances(parcel)).toHaveLength(1);
});
