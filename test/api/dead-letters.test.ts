import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json, reaches, until } from "./client.ts";
import { envelopeFor, hexId, seedLetter } from "./seed.ts";

describe("GET /v1/dead-letters", () => {
  it("open dead letters are listed newest first, page by page, without their messages", async () => {
    const caller = await callerWith();
    const seeded: string[] = [];
    for (const at of [4, 4, 9]) seeded.push(await seedLetter(caller.tenantId, { capturedAt: at }));
    const first = await caller.get("/v1/dead-letters?limit=2");
    const second = await caller.get(`/v1/dead-letters?limit=2&cursor=${first.body.next_cursor}`);
    const items: Json[] = [...first.body.items, ...second.body.items];
    expect(items.map(({ captured_at }) => Date.parse(captured_at))).toEqual([9, 4, 4]);
    expect(new Set(items.map(({ id }) => id))).toEqual(new Set(seeded));
    expect(second.body.next_cursor).toBeNull();
    expect(items[0]).toMatchObject({ queue: "gatherfeed-commands", reason: "exhausted", error: "It broke.", attempts: 4, state: "open" });
    expect(items[0]).not.toHaveProperty("body");
  });

  it("dead letters are filtered by state, queue and reason", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId, { queue: "publish-commands", reason: "invalid_payload" });
    await seedLetter(caller.tenantId);
    const list = async (query: string) => (await caller.get(`/v1/dead-letters?${query}`)).body.items.map(({ id }: Json) => id);
    expect(await list("queue=publish-commands")).toEqual([id]);
    expect(await list("reason=invalid_payload")).toEqual([id]);
    expect(await list("state=skipped")).toEqual([]);
    expectProblem(await caller.get("/v1/dead-letters?state=lost"), 422, "invalid_payload");
  });

  it("dead letters without a tenant are listed for tokens with the scope `unattributed` only", async () => {
    const id = await seedLetter(null, { body: "not even an envelope" });
    const [plain, trusted] = [await callerWith(["read", "operate"]), await callerWith(["read", "operate", "unattributed"])];
    const unseen = await plain.get(`/v1/dead-letters/${id}`);
    expectProblem(unseen, 404, "dead_letter_not_found");
    expect(unseen.body.detail).toContain("a dead letter without a tenant requires the scope `unattributed`");
    const foreign = [await seedLetter("somebody-else"), hexId()];
    for (const other of foreign) {
      const { detail } = (await plain.get(`/v1/dead-letters/${other}`)).body;
      expect(detail.replace(other, id), "the error is the same for another tenant's dead letter as for an unknown one").toBe(
        unseen.body.detail,
      );
      expect((await trusted.get(`/v1/dead-letters/${other}`)).body.detail).toBe(
        `There is no dead letter ${other}. List them with GET /v1/dead-letters.`,
      );
    }
    expect((await plain.get("/v1/dead-letters")).body.items).toEqual([]);
    expect((await trusted.get(`/v1/dead-letters/${id}`)).body).toMatchObject({ id, body: "not even an envelope" });
    expectProblem(await plain.post(`/v1/dead-letters/${id}/skip`, { reason: "r" }), 404, "dead_letter_not_found");
    expect((await trusted.post(`/v1/dead-letters/${id}/skip`, { reason: "r" })).body).toMatchObject({ skipped: true });
  });
});

describe("A dead letter", () => {
  it("GET /v1/dead-letters/{id} returns the dead letter with its message", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    expect((await caller.get(`/v1/dead-letters/${id}`)).body).toMatchObject({
      id,
      body: { tenant_id: caller.tenantId, idempotency_key: id },
    });
    expectProblem(await caller.get(`/v1/dead-letters/${hexId()}`), 404, "dead_letter_not_found");
  });

  it("a dead letter is replayed once, for any number of requests, and its command is executed", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    const answers = await Promise.all([1, 2, 3].map(() => caller.post(`/v1/dead-letters/${id}/replay`, { reason: "fixed" })));
    expect(answers.map(({ status, body }) => [status, body.sent]).sort()).toEqual([
      [200, false],
      [200, false],
      [202, true],
    ]);
    const [sent] = answers.filter(({ status }) => status === 202);
    await reaches(caller, sent?.body.instance_id, "complete");
    expect((await caller.get(`/v1/dead-letters/${id}`)).body.state).toBe("replayed");
    const { body: audit } = await caller.get("/v1/audit");
    expect(audit.items.map(({ result }: Json) => result).sort()).toEqual(["applied", "no_change", "no_change"]);
  });

  it("a dead letter is replayed with a corrected message, which is validated first", async () => {
    const caller = await callerWith();
    const key = fresh();
    const id = await seedLetter(caller.tenantId, { body: envelopeFor(caller.tenantId, key, { brand: "acme" }), reason: "invalid_payload" });
    const replay = (body?: unknown) =>
      caller.post(`/v1/dead-letters/${id}/replay`, { reason: "corrected", ...(body !== undefined && { body }) });

    expect(expectProblem(await replay(), 422, "invalid_payload").issues).toMatchObject([{ path: "payload.keyword" }]);
    expectProblem(await replay({ message: "?" }), 422, "invalid_envelope");
    expectProblem(await replay({ ...envelopeFor(caller.tenantId, key), message_type: "nobody.knows" }), 404, "unknown_message_type");
    expectProblem(await replay(envelopeFor("globex", key)), 403, "forbidden");
    expectProblem(await replay({ ...envelopeFor(caller.tenantId, key), payload_inline: "x".repeat(130_000) }), 413, "payload_too_large");
    const { payload_inline: _, ...bare } = envelopeFor(caller.tenantId, key);
    const missing = await replay({ ...bare, payload_ref: `r2://payloads/${caller.tenantId}/nobody/knows` });
    expect(expectProblem(missing, 422, "invalid_envelope").issues).toMatchObject([{ path: "payload_ref" }]);
    expect((await caller.get(`/v1/dead-letters/${id}`)).body.state).toBe("open");

    const { status, body } = await replay(envelopeFor(caller.tenantId, key));
    expect([status, body.sent]).toEqual([202, true]);
    await reaches(caller, body.instance_id, "complete");
  });

  it("a corrected dead letter follows the rules of a sent command: no unknown fields, subjects or redaction marks", async () => {
    const caller = await callerWith();
    const key = fresh();
    const came = { ...envelopeFor(caller.tenantId, key, { brand: "acme" }), subject: "as-it-came", acceptance: "theirs" };
    const id = await seedLetter(caller.tenantId, { body: came, reason: "invalid_payload" });
    const replay = (change: object | null) =>
      caller.post(`/v1/dead-letters/${id}/replay`, {
        reason: "corrected",
        body: change && { ...envelopeFor(caller.tenantId, key), ...change },
      });
    for (const [change, code, path, said] of [
      [{ payload_inline: { brand: "acme", keyword: "mint", cylce: "may" } }, "invalid_payload", "payload.cylce", "`cycle`"],
      [{ subject: "zzz" }, "invalid_envelope", "subject", key],
      [{ acceptance: "made up" }, "invalid_envelope", "acceptance", "is set by the engine"],
      [{ replay: "made up" }, "invalid_envelope", "replay", "is set by the engine"],
      [{ outbox: "sender" }, "invalid_envelope", "outbox", "is set by the engine"],
      [null, "invalid_envelope", "", ""],
    ] as const) {
      const [issue] = expectProblem(await replay(change), 422, code).issues as { path: string; message: string }[];
      expect(issue).toEqual({ path, message: expect.stringContaining(said) });
    }
    expect((await caller.get(`/v1/dead-letters/${id}`)).body.state).toBe("open");
    const tried = (await caller.get("/v1/audit")).body.items;
    expect(new Set(tried.map(({ result }: Json) => result))).toEqual(new Set(["refused"]));

    const { status, body } = await replay({ subject: "as-it-came", acceptance: "theirs" });
    expect([status, body.sent]).toEqual([202, true]);
    await reaches(caller, body.instance_id, "complete");
  });

  it("a dead letter cannot be corrected into a command that the token may not send", async () => {
    const caller = await callerWith();
    const asked = { ...envelopeFor(caller.tenantId, fresh()), message_type: "nobody.knew" };
    const id = await seedLetter(caller.tenantId, { queue: "webhooks", body: asked, reason: "unknown_message_type" });
    const body = { ...asked, message_type: "webhook.deliver" };
    expectProblem(await caller.post(`/v1/dead-letters/${id}/replay`, { reason: "corrected", body }), 403, "forbidden");
    expect((await caller.get(`/v1/dead-letters/${id}`)).body.state).toBe("open");
  });

  it("a skipped dead letter is audited and remains skipped", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    const first = await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "of no use" });
    expect([first.status, first.body]).toEqual([200, { action_id: expect.any(String), skipped: true }]);
    expect((await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "again" })).body.skipped).toBe(false);
    expect((await caller.post(`/v1/dead-letters/${id}/replay`, { reason: "oh" })).body).toMatchObject({ sent: false });
    const { results } = await env.DB.prepare("SELECT state FROM millrace_dead_letters WHERE id = ?1").bind(id).all();
    expect(results).toEqual([{ state: "skipped" }]);
  });

  it("a discarded dead letter becomes one reconciliation fact in the ledger of its queue", async () => {
    const caller = await callerWith();
    const id = await seedLetter(caller.tenantId);
    await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "of no use" });
    await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "again" });
    const facts = await factsOf(caller.tenantId);
    expect(facts).toMatchObject([{ entity: "queue/gatherfeed-commands", subtype: "skipped_dead_letter" }]);
    expect(JSON.parse(facts[0]?.payload ?? "")).toMatchObject({ about: `dead-letter/${id}`, note: "of no use", actor: "ada" });
  });

  it("I16 a dead letter with names above the maximum length can be discarded, and its fact has the beginning of the names", async () => {
    const caller = await callerWith();
    const long = `${fresh()}\ud83d${"n".repeat(9000)}`;
    const names = { idempotency_key: long, correlation_id: long, message_type: long };
    const id = await seedLetter(caller.tenantId, { body: { ...envelopeFor(caller.tenantId, fresh()), ...names } });
    await env.DB.prepare("UPDATE millrace_dead_letters SET idempotency_key = ?2, correlation_id = ?2, message_type = ?2 WHERE id = ?1")
      .bind(id, long)
      .run();
    expect((await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "of no use" })).body).toMatchObject({ skipped: true });
    const [fact] = await factsOf(caller.tenantId);
    expect(JSON.parse(fact?.payload ?? "{}").idempotency_key).toHaveLength(500);
  });
});

/** The published facts of a tenant. Waits until there is one. */
function factsOf(tenantId: string): Promise<{ payload: string }[]> {
  const stated = env.DB.prepare("SELECT entity, subtype, payload FROM facts WHERE tenant_id = ?1").bind(tenantId);
  return until(
    async () => (await stated.all<{ payload: string }>()).results,
    (rows) => rows.length > 0,
  );
}

it("dead letters of a rare queue or reason are found page by page, and each page checks a limited number", async () => {
  const caller = await callerWith(["read", "unattributed"]);
  const rare = fresh("queue");
  for (const [tenant, of] of [
    [caller.tenantId, 7],
    [null, 6000],
  ] as const) {
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
       INSERT INTO millrace_dead_letters (id, tenant_id, queue, body, reason, attempts, first_at, captured_at)
       SELECT ?1 || '-' || CAST(?3 AS INTEGER) || '-' || i, ?2, iif(i % 3000 = ?3 % 3000, ?1, 'usual'), '{}', 'exhausted', 1, 1, 1790000000000 + i FROM n`,
    )
      .bind(rare, tenant, of)
      .run();
  }
  const pages: string[][] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { body }: Json = await caller.get(`/v1/dead-letters?queue=${rare}${cursor && `&cursor=${cursor}`}`);
    expect(body).toMatchObject({ items: expect.any(Array) });
    pages.push(body.items.map(({ id }: Json) => id));
    cursor = body.next_cursor;
  }
  await env.DB.prepare("DELETE FROM millrace_dead_letters WHERE id LIKE ?1 || '-%'").bind(rare).run();
  expect(pages.length).toBeGreaterThan(1);
  expect(pages.flat()).toEqual([`${rare}-6000-6000`, `${rare}-7-3007`, `${rare}-6000-3000`, `${rare}-7-7`]);
});
