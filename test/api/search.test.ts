import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { beforeAll, describe, expect, it } from "vitest";
import { ALL_SCOPES, type Caller, callerWith, expectProblem, fresh, type Json } from "./client.ts";
import { hexId, seedApproval, seedBatch, seedEffect, seedInstance, seedLetter } from "./seed.ts";

let caller: Caller;
let stranger: Caller;
beforeAll(async () => {
  caller = await callerWith();
  stranger = await callerWith([...ALL_SCOPES]);
});

/** The search results for a text, by kind and name. */
async function found(text: string, by: Caller = caller): Promise<Json[]> {
  const { status, body } = await by.get(`/v1/search?q=${encodeURIComponent(text)}`);
  expect(status).toBe(200);
  return body.items;
}

/** An accepted instance, with a key that names it. */
async function accepted(key: string, row: { subject?: string; correlation?: string; workflow?: string } = {}): Promise<string> {
  const workflow = row.workflow ?? "research-keyword";
  const id = ids.instance(caller.tenantId, workflow, key);
  await env.DB.prepare(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     VALUES (?1, ?2, ?3, 'research.requested', ?4, ?5, 'test', ?6, 'f', ?7, 'complete', ?8, ?8)`,
  )
    .bind(
      id,
      caller.tenantId,
      workflow,
      key,
      row.correlation ?? `job-${key}`,
      row.subject ?? `acme/${key}`,
      JSON.stringify({ traceparent: `00-${traceOf(key)}-b7ad6b7169203331-01` }),
      Date.now(),
    )
    .run();
  return id;
}

const traceOf = (key: string) => ids.instance("trace", "", key);

describe("The search by name", () => {
  it("the search finds an instance by its id, by a prefix, by the id of a part of it, and by its key", async () => {
    const key = fresh("order");
    const id = await accepted(key);
    const way = { kind: "instance", id, url: `/v1/instances/${id}`, title: `research-keyword · acme/${key}`, status: "complete" };
    expect(await found(id)).toEqual([expect.objectContaining({ ...way, by: "id", match: "exact" })]);
    expect(await found(` ${id.toUpperCase()} `)).toMatchObject([{ ...way, match: "exact" }]);
    expect(await found(id.slice(0, 8))).toMatchObject([{ ...way, by: "id", match: "prefix" }]);
    expect(await found(`${id}/put page`)).toMatchObject([way]);
    expect(await found(key)).toMatchObject([{ ...way, by: "idempotency_key", match: "exact" }]);
    expect((await caller.get(way.url)).body.idempotency_key).toBe(key);
  });

  it("the search finds every workflow's instance of one key", async () => {
    const key = fresh("order");
    const ids = [await accepted(key), await accepted(key, { workflow: "publish-article" })];
    expect((await found(key)).map(({ id }) => id).sort()).toEqual(ids.sort());
  });

  it("the search finds instances by subject and by trace, among the newest, and shows the limit of the search", async () => {
    const key = fresh("order");
    const id = await accepted(key);
    expect(await found(`acme/${key}`)).toMatchObject([{ kind: "instance", id, by: "subject" }]);
    const trace = { kind: "instance", id, by: "trace_id" };
    expect(await found(traceOf(key))).toMatchObject([trace]);
    expect(await found(`00-${traceOf(key)}-0000000000000001-01`)).toMatchObject([trace]);
    const { body } = await caller.get("/v1/search?q=nothing-like-it");
    expect(body).toEqual({ items: [], more: [], scanned: { instances: 2000, since: null } });
  });

  it("the search finds a job by its correlation id and a prefix: one line, for any number of members", async () => {
    const job = fresh("spring");
    for (let member = 0; member < 8; member++) await accepted(fresh("member"), { correlation: job });
    await accepted(fresh("member"), { correlation: `${job}-again` });
    const way = { kind: "correlation", id: job, url: `/v1/correlations/${job}` };
    expect(await found(job)).toMatchObject([
      { ...way, match: "exact" },
      { kind: "correlation", id: `${job}-again`, match: "prefix" },
    ]);
    expect(await found(job.slice(0, -2))).toMatchObject([{ ...way, match: "prefix" }, { id: `${job}-again` }]);
  });

  it("the search finds a dead letter by its id, and by the key and the job of its message", async () => {
    const key = fresh("order");
    const id = await seedLetter(caller.tenantId);
    await env.DB.prepare("UPDATE millrace_dead_letters SET idempotency_key = ?2, correlation_id = ?3 WHERE id = ?1")
      .bind(id, key, `job-${key}`)
      .run();
    const way = { kind: "dead_letter", id, status: "open", url: `/v1/dead-letters/${id}` };
    expect(await found(id)).toMatchObject([{ ...way, by: "id", match: "exact" }]);
    expect(await found(id.slice(0, 10))).toMatchObject([{ ...way, match: "prefix" }]);
    expect(await found(key)).toMatchObject([{ ...way, by: "idempotency_key", match: "exact" }]);
    expect(await found(`job-${key}`)).toMatchObject([{ ...way, by: "correlation_id" }]);
    const nobodys = await seedLetter(null);
    expect(await found(nobodys)).toEqual([]);
    expect(await found(nobodys, stranger)).toMatchObject([{ kind: "dead_letter", id: nobodys }]);
  });

  it("the search finds an effect by its key, a question, an action, and an event that a step emitted", async () => {
    const id = await seedInstance(caller.tenantId, { status: "in_doubt" });
    const effect = await seedEffect(id);
    expect(await found(effect)).toMatchObject([{ kind: "effect", id: effect, status: "in_doubt", url: `/v1/instances/${id}/effects` }]);
    const approval = await seedApproval(caller.tenantId);
    expect((await found(approval)).map(({ kind }) => kind)).toEqual(expect.arrayContaining(["approval", "instance"]));
    const { body } = await caller.post(`/v1/effects/${effect}/reject`, { reason: "it never arrived" });
    const [action] = await found(body.action_id);
    expect(action).toMatchObject({ kind: "action", id: body.action_id, title: `reject · ${effect}` });
    expect((await caller.get(action.url)).body.items).toMatchObject([{ id: body.action_id }]);

    const event = `${id}.${hexId().slice(0, 16)}`;
    await env.DB.prepare("UPDATE millrace_inbox SET messages = ?2 WHERE instance_id = ?1")
      .bind(id, JSON.stringify([{ message_type: "order.shipped", idempotency_key: event }]))
      .run();
    expect((await found(event)).filter(({ kind }) => kind === "event")).toMatchObject([
      { kind: "event", id: event, title: "order.shipped · send mail", url: `/v1/instances/${id}/events` },
    ]);
  });

  it("the search finds the app's own kinds of items", async () => {
    const id = await seedInstance(caller.tenantId);
    const batch = await seedBatch(caller.tenantId, id);
    expect((await found(batch)).filter(({ kind }) => kind === "batch")).toMatchObject([{ id: batch, url: `/v1/batches/${batch}` }]);
    expect((await found(batch.slice(0, 7))).filter(({ kind }) => kind === "batch")).toMatchObject([{ id: batch, match: "prefix" }]);
  });

  it("the search lists whole names before prefixes, and a few items of each kind, with a mark for kinds with more", async () => {
    const job = fresh("autumn");
    for (const end of ["", "-1", "-2", "-3", "-4", "-5", "-6"]) await accepted(fresh("member"), { correlation: job + end });
    const { body } = await caller.get(`/v1/search?q=${job}`);
    expect(body.items.map(({ id }: Json) => id)).toEqual(["", "-1", "-2", "-3", "-4"].map((end) => job + end));
    expect(body.more).toEqual(["correlation"]);
  });
});

it("the search finds nothing of another tenant, by any name", async () => {
  const key = fresh("order");
  const id = await accepted(key);
  const effect = await seedEffect(id);
  const approval = await seedApproval(caller.tenantId);
  const letter = await seedLetter(caller.tenantId);
  const batch = await seedBatch(caller.tenantId, id);
  for (const text of [id, id.slice(0, 8), key, `acme/${key}`, `job-${key}`, traceOf(key), effect, approval, letter, batch]) {
    expect(await found(text, stranger), text).toEqual([]);
  }
});

it("a search without a text is refused", async () => {
  for (const query of ["", "?q=", `?q=${"x".repeat(501)}`]) expectProblem(await caller.get(`/v1/search${query}`), 422, "invalid_payload");
});
