import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json, reaches } from "./client.ts";
import { envelopeFor, hexId, seedLetter } from "./seed.ts";

const DAY_MS = 86_400_000;

it("GET of a key returns its instance, its time, its expiry, its number of requests, and its payload as a hash", async () => {
  const caller = await callerWith();
  const key = fresh("order");
  const { body } = await caller.ask(fresh("keyword"), { "idempotency-key": key });
  await caller.ask(fresh("keyword"), { "idempotency-key": key });
  const before = (await caller.get(`/v1/keys/${key}`)).body;
  expect(before).toMatchObject({ key, holders: [{ kind: "instance", id: body.instance_id, name: "research-keyword" }], captured: [] });
  await reaches(caller, body.instance_id, "complete");
  const after = (await caller.get(`/v1/keys/${key}`)).body.holders[0];
  expect(after).toMatchObject({
    status: "complete",
    correlation_id: body.correlation_id,
    fingerprint: expect.stringMatching(/^[0-9a-f]{32}$/),
  });
  expect(after.deliveries).toBeGreaterThanOrEqual(1);
  expect(Date.parse(after.row_expires_at) - Date.now()).toBeGreaterThan(29 * DAY_MS);
  expect(Date.parse(after.key_expires_at) - Date.parse(after.row_expires_at)).toBe(400 * DAY_MS);
});

it("each workflow has a separate instance per key: one workflow can be queried, and an unknown name is refused", async () => {
  const caller = await callerWith();
  const key = fresh("order");
  const { body } = await caller.ask(fresh("keyword"), { "idempotency-key": key });
  expect((await caller.get(`/v1/keys/${key}?workflow=research-keyword`)).body.holders).toMatchObject([{ id: body.instance_id }]);
  expectProblem(await caller.get(`/v1/keys/${key}?workflow=publish-article`), 404, "key_not_found");
  const refused = expectProblem(await caller.get(`/v1/keys/${key}?workflow=research-keywords`), 422, "invalid_payload");
  expect(refused.issues[0].message).toContain("research-keyword");
});

it("the key of a pruned instance is found by its tombstone, for its tenant only", async () => {
  const [caller, stranger] = [await callerWith(), await callerWith()];
  const key = fresh("order");
  const id = ids.instance(caller.tenantId, "research-keyword", key);
  const day = Math.floor(Date.now() / DAY_MS) - 10;
  await env.DB.prepare("INSERT INTO millrace_tombstones (id, fingerprint, place) VALUES (unhex(?1), unhex(?2), ?3)")
    .bind(id, "ab".repeat(6), day * DAY_MS)
    .run();
  const { holders } = (await caller.get(`/v1/keys/${key}`)).body;
  expect(holders).toMatchObject([{ kind: "tombstone", id, name: "research-keyword", status: "pruned" }]);
  expect(Date.parse(holders[0].key_expires_at)).toBe((day + 400) * DAY_MS);
  expect((await caller.get(`/v1/search?q=${key}`)).body.items).toMatchObject([{ kind: "key", id, status: "pruned" }]);
  expectProblem(await stranger.get(`/v1/keys/${key}`), 404, "key_not_found");
});

it("another payload under the same key is refused, with the status of the first", async () => {
  const [caller, stranger] = [await callerWith(), await callerWith()];
  const key = fresh("order");
  const { body } = await caller.ask(fresh("keyword"), { "idempotency-key": key });
  const refused = envelopeFor(caller.tenantId, key, { brand: "acme", keyword: "another" });
  const letter = await seedLetter(caller.tenantId, { reason: "idempotency_key_reused", body: refused });
  await env.DB.prepare("UPDATE millrace_dead_letters SET idempotency_key = ?2 WHERE id = ?1").bind(letter, key).run();
  const { holders, captured } = (await caller.get(`/v1/keys/${key}`)).body;
  expect(holders).toMatchObject([{ id: body.instance_id }]);
  expect(captured).toMatchObject([{ dead_letter_id: letter, reason: "idempotency_key_reused", state: "open" }]);
  expect(captured[0].fingerprint).toMatch(/^[0-9a-f]{32}$/);
  expect(captured[0].fingerprint).not.toBe(holders[0].fingerprint);
  expectProblem(await stranger.get(`/v1/keys/${key}`), 404, "key_not_found");
});

it("keys of any characters can be queried, and unused ones are not found", async () => {
  const caller = await callerWith();
  for (const key of ["acme/2026/mint", "ünïcödé ⚙", "a'; DROP TABLE millrace_instances; --", "%", hexId()]) {
    const asked = await caller.get(`/v1/keys/${encodeURIComponent(key)}`);
    expectProblem(asked, 404, "key_not_found");
  }
  const { body }: Json = await caller.post("/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "a b/c" } });
  const { idempotency_key } = (await caller.get(`/v1/instances/${body.instance_id}`)).body;
  expect((await caller.get(`/v1/keys/${encodeURIComponent(idempotency_key)}`)).body.holders).toMatchObject([{ id: body.instance_id }]);
});
