import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches } from "./client.ts";
import { envelopeFor, hexId, seedLetter } from "./seed.ts";

const audit = async (caller: Caller) => (await caller.get("/v1/audit")).body.items.map(({ verb, result }: Json) => [verb, result]);

describe("The details of a dead letter", () => {
  it("the details of a dead letter show its type, the errors of its message against the current schema, and that a replay would be refused", async () => {
    const caller = await callerWith();
    const key = fresh();
    const id = await seedLetter(caller.tenantId, { body: envelopeFor(caller.tenantId, key, { brand: "acme" }), reason: "invalid_payload" });
    const { body } = await caller.get(`/v1/dead-letters/${id}`);
    expect(body.definition).toEqual({
      ...{ type: "research.requested", kind: "command", version: expect.any(Number) },
      ...{ queues: ["gatherfeed-commands"], workflow: "research-keyword" },
    });
    expect(body.replay).toMatchObject({
      outcome: "refused",
      refused: { code: "invalid_payload", issues: [{ path: "payload.keyword" }] },
      identity: { tenant_id: caller.tenantId, idempotency_key: key, fingerprint: expect.stringMatching(/^[0-9a-f]{32}$/) },
      instance: null,
    });
  });

  it("the details of a dead letter show that its message would be accepted once a deployment has fixed the error", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId, { reason: "invalid_payload" });
    const { body } = await caller.get(`/v1/dead-letters/${id}`);
    expect(body.replay).toMatchObject({ outcome: "starts", refused: null, queue: "gatherfeed-commands", instance: null });
  });

  it("the details of a dead letter show that an edit would be refused when the content is not a message", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId, { reason: "invalid_payload" });
    for (const body of [null, 0, false, "", "x", []]) {
      const plan = await caller.post(`/v1/dead-letters/${id}/replay`, { reason: "r", dry_run: true, body });
      expect(plan.body, JSON.stringify(body)).toMatchObject({ outcome: "refused", refused: { code: expect.any(String) } });
    }
  });

  it("the details of a dead letter contain no definition for an unknown type, and no identity for an invalid message", async () => {
    const caller = await callerWith();
    const unknown = { ...envelopeFor(caller.tenantId, fresh()), message_type: "nobody.knows" };
    const id = await seedLetter(caller.tenantId, { body: unknown });
    expect((await caller.get(`/v1/dead-letters/${id}`)).body).toMatchObject({
      definition: null,
      replay: { outcome: "refused", refused: { code: "unknown_message_type" }, identity: { message_type: "nobody.knows" } },
    });
    const odd = await seedLetter(caller.tenantId, { body: "not even an envelope" });
    expect((await caller.get(`/v1/dead-letters/${odd}`)).body).toMatchObject({
      definition: null,
      replay: { outcome: "refused", identity: null },
    });
  });
});

describe("A dry run of a replay", () => {
  const plan = async (caller: Caller, id: string, body?: unknown) => {
    const answer = await caller.post(`/v1/dead-letters/${id}/replay`, {
      reason: "see",
      dry_run: true,
      ...(body !== undefined && { body }),
    });
    expect(answer.status).toBe(200);
    return answer.body;
  };

  it("a dry run of a replay shows the result of an edit, and changes nothing", async () => {
    const caller = await callerWith();
    const key = fresh();
    const id = await seedLetter(caller.tenantId, { body: envelopeFor(caller.tenantId, key, { brand: "acme" }), reason: "invalid_payload" });
    const good = envelopeFor(caller.tenantId, key);
    expect(await plan(caller, id, good)).toMatchObject({ outcome: "starts", refused: null, identity: { idempotency_key: key } });
    for (const [body, code, path] of [
      [{ ...good, payload_inline: { brand: "acme", keyword: "mint", cylce: "may" } }, "invalid_payload", "payload.cylce"],
      [{ ...good, idempotency_key: "another" }, "invalid_envelope", "idempotency_key"],
      [{ ...good, tenant_id: "globex" }, "forbidden", "tenant_id"],
    ] as const) {
      expect(await plan(caller, id, body)).toMatchObject({ outcome: "refused", refused: { code, issues: [{ path }] } });
      expectProblem(await caller.post(`/v1/dead-letters/${id}/replay`, { reason: "r", body }), code === "forbidden" ? 403 : 422, code);
    }
    expect((await caller.get(`/v1/dead-letters/${id}`)).body.state).toBe("open");
    expect(new Set((await audit(caller)).map(String)), "refusals are audited, and dry runs are not").toEqual(new Set(["attempt,refused"]));
  });

  it("a dry run of a replay names the instance that the message duplicates, as the replay does", async () => {
    const caller = await callerWith();
    const key = fresh();
    const asked = await caller.ask(key, { "idempotency-key": key });
    await reaches(caller, asked.body.instance_id, "complete");
    const id = await seedLetter(caller.tenantId, { body: envelopeFor(caller.tenantId, key) });
    const instance = { id: asked.body.instance_id, status: "complete" };
    expect(await plan(caller, id)).toMatchObject({ outcome: "duplicate", refused: null, instance });
    expect((await caller.post(`/v1/dead-letters/${id}/replay`, { reason: "r" })).body).toMatchObject({
      sent: false,
      instance_id: instance.id,
    });
    expect(await plan(caller, id)).toMatchObject({ outcome: "settled" });
  });

  it("a dry run of a replay names the instance that has the key with another payload", async () => {
    const caller = await callerWith();
    const key = fresh();
    const asked = await caller.ask("another keyword", { "idempotency-key": key });
    const id = await seedLetter(caller.tenantId, { body: envelopeFor(caller.tenantId, key) });
    const planned = await plan(caller, id);
    expect(planned).toMatchObject({
      outcome: "refused",
      refused: { code: "idempotency_key_reused" },
      instance: { id: asked.body.instance_id },
    });
  });

  it("a dry run of a replay of an event shows that its routes can process it", async () => {
    const caller = await callerWith();
    const event = { ...envelopeFor(caller.tenantId, fresh(), { brand: "acme", keyword: "chai", seen_on: "2026-10-01" }) };
    const body = { ...event, message_type: "keyword.trending", kind: "event" };
    const id = await seedLetter(caller.tenantId, { body, queue: "brand-events" });
    expect(await plan(caller, id)).toMatchObject({ outcome: "follows", refused: null, queue: "brand-events", instance: null });
  });

  it("a dry run of a replay requires the scopes of the replay", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    const other = await callerWith();
    const reading = await callerWith(["read"], caller.tenantId);
    expectProblem(await other.post(`/v1/dead-letters/${id}/replay`, { reason: "r", dry_run: true }), 404, "dead_letter_not_found");
    expectProblem(await reading.post(`/v1/dead-letters/${id}/replay`, { reason: "r", dry_run: true }), 403, "forbidden");
  });
});

describe("A dead letter's escalation", () => {
  it("an escalation of a dead letter has actor, time and reason, leaves it open, and is a filter; of two concurrent ones, one succeeds", async () => {
    const caller = await callerWith();
    const [id, other] = [await seedLetter(caller.tenantId), await seedLetter(caller.tenantId)];
    const answers = await Promise.all(["first", "second"].map((reason) => caller.post(`/v1/dead-letters/${id}/escalate`, { reason })));
    expect(answers.map(({ status, body }) => [status, body.escalated]).sort()).toEqual([
      [200, false],
      [200, true],
    ]);
    const { body } = await caller.get(`/v1/dead-letters/${id}`);
    const note = answers[0]?.body.escalated ? "first" : "second";
    expect(body).toMatchObject({ state: "open", escalation: { by: "ada", at: expect.any(String), note } });
    expect((await audit(caller)).sort()).toEqual([
      ["escalate", "applied"],
      ["escalate", "no_change"],
    ]);
    const list = async (query: string) => (await caller.get(`/v1/dead-letters?${query}`)).body.items.map((one: Json) => one.id);
    expect(await list("escalated=true")).toEqual([id]);
    expect(await list("escalated=false")).toEqual([other]);
    await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "of no use" });
    expect(await list("escalated=true")).toEqual([]);
    expect(await list("escalated=true&state=skipped")).toEqual([id]);
    expect((await caller.post(`/v1/dead-letters/${id}/escalate`, { reason: "late" })).body.escalated).toBe(false);
  });

  it("an escalation of another tenant's dead letter, or by a token that can only read, is refused", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    expectProblem(await (await callerWith()).post(`/v1/dead-letters/${id}/escalate`, { reason: "r" }), 404, "dead_letter_not_found");
    expectProblem(
      await (await callerWith(["read"], caller.tenantId)).post(`/v1/dead-letters/${id}/escalate`, { reason: "r" }),
      403,
      "forbidden",
    );
    expectProblem(await caller.post(`/v1/dead-letters/${hexId()}/escalate`, { reason: "r" }), 404, "dead_letter_not_found");
    expectProblem(await caller.post(`/v1/dead-letters/${id}/escalate`, {}), 422, "invalid_payload");
  });
});

it("a list of dead letters by a rare filter among very many reads a limited part, and continues page by page", {
  timeout: 60_000,
}, async () => {
  const caller = await callerWith();
  const ofTheTenant = (text: string, ...params: unknown[]) => env.DB.prepare(text).bind(caller.tenantId, ...params);
  // Created today, and removed with the test: a test of retention would delete each of these.
  onTestFinished(async () => void (await ofTheTenant("DELETE FROM millrace_dead_letters WHERE tenant_id = ?1").run()));
  await ofTheTenant(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
     INSERT INTO millrace_dead_letters (id, tenant_id, queue, body, reason, attempts, first_at, captured_at)
     SELECT ?1 || i, ?1, iif(i = 5, 'publish-commands', 'gatherfeed-commands'), '{}', 'exhausted', 1, 1, ?2 + i FROM n`,
    Date.now() - 10_000,
  ).run();
  const first = await caller.get("/v1/dead-letters?queue=publish-commands");
  expect(first.body.items).toEqual([]);
  const second = await caller.get(`/v1/dead-letters?queue=publish-commands&cursor=${first.body.next_cursor}`);
  expect(second.body.items.map(({ id }: Json) => id)).toEqual([`${caller.tenantId}5`]);
  expect(second.body.next_cursor).toBeNull();
});
