import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json, reaches, until } from "./client.ts";
import { hexId, seedApproval, seedEffect, seedInstance } from "./seed.ts";

const ids = (answer: { body: Json }) => answer.body.items.map(({ id }: Json) => id);

describe("GET /v1/instances", () => {
  it("GET /v1/instances lists instances newest first, page by page, each once", async () => {
    const caller = await callerWith();
    const seeded: string[] = [];
    for (const at of [5, 5, 5, 9, 1]) seeded.push(await seedInstance(caller.tenantId, { acceptedAt: at }));
    const seen: string[] = [];
    let cursor = "";
    do {
      const answer = await caller.get(`/v1/instances?limit=2${cursor}`);
      seen.push(...ids(answer));
      cursor = answer.body.next_cursor && `&cursor=${answer.body.next_cursor}`;
    } while (cursor);
    expect(seen).toHaveLength(5);
    expect(new Set(seen)).toEqual(new Set(seeded));
    expect([seen[0], seen[4]]).toEqual([seeded[3], seeded[4]]);
  });

  it("GET /v1/instances filters by status, workflow, subject, correlation and time", async () => {
    const caller = await callerWith();
    const old = await seedInstance(caller.tenantId, { status: "errored", acceptedAt: Date.parse("2026-01-01T00:00:00Z") });
    const recent = await seedInstance(caller.tenantId, { subject: "acme/rose", acceptedAt: Date.parse("2026-02-01T00:00:00Z") });
    const list = async (query: string) => ids(await caller.get(`/v1/instances?${query}`));
    expect(await list("status=errored")).toEqual([old]);
    expect(await list("workflow=publish-article")).toEqual([]);
    expect(await list("subject=acme%2Frose")).toEqual([recent]);
    expect(await list(`correlation=job-${old}`)).toEqual([old]);
    expect(await list("since=2026-02-01T01:00:00%2B01:00")).toEqual([recent]);
    expect(await list("since=2026-02-01T00:00:00.001Z")).toEqual([]);
  });

  it.each([
    ["status=done", "status"],
    ["limit=201", "limit"],
    ["limit=x", "limit"],
    ["since=yesterday", "since"],
    ["cursor=' OR 1", "cursor"],
    ["statuss=errored", "statuss"],
  ])("GET /v1/instances refuses ?%s, and the error names the parameter", async (query, path) => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.get(`/v1/instances?${query}`), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path }]);
  });
});

describe("GET /v1/instances/{id}", () => {
  it("GET /v1/instances/{id} returns the row with readable labels and times, and the platform's status", async () => {
    const caller = await callerWith();
    const error = { step: "put page", code: "upstream_refused", message: "No.", attempts: 3, upstream_status: 403 };
    const id = await seedInstance(caller.tenantId, { status: "errored", error, acceptedAt: 0 });
    const { body } = await caller.get(`/v1/instances/${id}`);
    expect(body).toEqual({
      id,
      workflow: "research-keyword",
      version: 1,
      status: "errored",
      message_type: "research.requested",
      idempotency_key: id,
      correlation_id: `job-${id}`,
      causation_id: "test",
      subject: "acme/mint",
      deliveries: 0,
      step: "put page",
      waiting_for: [],
      held: null,
      retrying: null,
      sleeping: null,
      due_at: null,
      must_end_by: null,
      overdue: false,
      error: { step: "put page", code: "upstream_refused", message: "No.", attempts: 3, upstream_status: 403 },
      tags: [],
      parent: null,
      progress: null,
      run: 1,
      schema_version: 1,
      undo: null,
      undo_action: null,
      accepted_at: "1970-01-01T00:00:00.000Z",
      updated_at: "1970-01-01T00:00:00.000Z",
      archived_at: null,
      platform_status: "unknown",
      payload: { brand: "acme", keyword: id },
      unknown_outcomes: [],
      payload_ref: null,
      result: null,
      result_changed: null,
      callback: null,
      cost: expect.objectContaining({ messages: 0, usd_counted: 0 }),
    });
  });

  it("GET /v1/instances/{id} shows waits: the question by the id that answers it, and its deadline", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "waiting" });
    const approval = await seedApproval(caller.tenantId, { instanceId: id, dueAt: 0 });
    const waiting = [
      { step: approval, event_type: null, subject: null, child_id: null, approval_id: approval, until: "1970-01-01T00:00:00.000Z" },
    ];
    expect((await caller.get(`/v1/instances/${id}`)).body.waiting_for).toEqual(waiting);
    expect((await caller.get("/v1/instances")).body.items).toMatchObject([{ id, waiting_for: waiting }]);
  });

  it("GET /v1/instances/{id} returns 404 for an unknown instance", async () => {
    const caller = await callerWith();
    expectProblem(await caller.get(`/v1/instances/${hexId()}`), 404, "instance_not_found");
    expectProblem(await caller.get(`/v1/instances/${"x".repeat(5000)}`), 404, "instance_not_found");
  });
});

describe("A finished instance", () => {
  it("a finished instance shows its steps, effects and messages", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const { body: accepted } = await caller.ask(keyword);
    const at = `/v1/instances/${accepted.instance_id}`;
    expect(await reaches(caller, accepted.instance_id, "complete")).toMatchObject({
      platform_status: expect.any(String),
      step: "synthesize",
      payload: { brand: "acme", keyword },
      payload_ref: null,
      result: { verdict: "requested", research_id: accepted.instance_id },
    });

    expect((await caller.get(`${at}/steps`)).body).toEqual({
      items: [
        expect.objectContaining({ name: "decide", state: "complete" }),
        {
          type: "do",
          name: "search the web",
          own: null,
          count: 1,
          mode: "platform",
          kept: false,
          state: "complete",
          started_at: expect.stringMatching(/Z$/),
          ended_at: expect.stringMatching(/Z$/),
          attempts: [{ attempt: 1, started_at: expect.any(String), ended_at: expect.any(String), error: null, retry_delay_ms: null }],
          max_attempts: 6,
          next_attempt_at: null,
          progress: null,
          duration_ms: null,
          until: null,
          event_type: null,
          subject: null,
          approval_id: null,
          child_id: null,
          effects: [{ key: expect.any(String), class: "natural", generation: 1, state: "done" }],
        },
        expect.objectContaining({ name: "synthesize", state: "complete" }),
      ],
      truncated: false,
    });
    expect((await caller.get(`${at}/effects`)).body.items).toMatchObject([
      { step: "decide", class: "natural", state: "done" },
      { step: "search the web", instance_id: accepted.instance_id, class: "natural", state: "done", generation: 1, error: null },
      { step: "synthesize", class: "keyed", state: "done" },
    ]);

    const events = await until(
      () => caller.get(`${at}/events`),
      ({ body }) => body.items[0]?.confirmed,
    );
    expect(events.body.items).toMatchObject([
      { step: "synthesize", confirmed: true, message_type: "research.completed", correlation_id: accepted.correlation_id },
    ]);
    expect(JSON.stringify(events.body)).not.toContain("payload");
    const withPayload = await caller.get(`${at}/events?payload=true`);
    expect(withPayload.body.items[0].payload_inline).toMatchObject({ brand: "acme", keyword });
  });

  it("a finished instance has no steps once the platform has deleted it", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId);
    expect((await caller.get(`/v1/instances/${id}/steps`)).body).toEqual({ items: [], truncated: false });
  });
});

describe("POST /v1/instances/{id}/retry", () => {
  it("a retry restarts an errored instance from the failed step, once the cause is fixed", async () => {
    const caller = await callerWith(["enqueue", "read", "operate", "embedded"]);
    const keyword = fresh();
    const fault = { upstream: "search", match: keyword, status: 401, remaining: null };
    expect((await caller.call("PUT", "/embedded/faults", [fault])).status).toBe(204);
    const { body: accepted } = await caller.ask(keyword);
    const at = `/v1/instances/${accepted.instance_id}`;
    const { error } = await reaches(caller, accepted.instance_id, "errored");
    expect(error).toMatchObject({ step: "search the web", code: "not_retryable", upstream_status: 401 });
    const steps = await caller.get(`${at}/steps`);
    expect(steps.body.items).toMatchObject([
      { name: "decide", state: "complete" },
      { name: "search the web", state: "errored", attempts: [{ attempt: 1, error: { message: expect.any(String) } }] },
    ]);

    expect((await caller.call("DELETE", "/embedded/faults")).status).toBe(204);
    const plan = await caller.post(`${at}/retry`, { reason: "token renewed", dry_run: true });
    expect([plan.status, plan.body.from]).toEqual([200, "search the web"]);
    const { status, body } = await caller.post(`${at}/retry`, { reason: "token renewed" });
    const follows = expect.stringMatching(/^The run starts from search the web\. Recorded effects are kept/);
    expect([status, body]).toEqual([202, { action_id: expect.any(String), from: "search the web", consequence: follows }]);
    await reaches(caller, accepted.instance_id, "complete");

    const { body: audit } = await caller.get("/v1/audit");
    expect(audit.items).toMatchObject([
      { id: body.action_id, actor: "ada", verb: "retry", target: accepted.instance_id, reason: "token renewed", result: "applied" },
    ]);
    expect(audit.items[0].applied_at).toMatch(/Z$/);
  });

  it("the dry run of a retry lists the reused outputs, the steps that run again, and unknown outcomes, and changes nothing", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "errored" });
    for (const state of ["done", "failed", "in_doubt", "superseded"]) await seedEffect(id, { step: state, state });
    const { status, body } = await caller.post(`/v1/instances/${id}/retry`, { reason: "r", dry_run: true, from: "failed" });
    expect(status).toBe(200);
    // The platform does not have this run: a retry would start it from the beginning.
    expect(body.from).toBeNull();
    expect(body.effects).toEqual(
      expect.arrayContaining([
        { step: "done", item: "", verdict: "kept" },
        { step: "failed", item: "", verdict: "runs" },
        { step: "in_doubt", item: "", verdict: "in_doubt" },
      ]),
    );
    expect(body.effects).toHaveLength(3);
    expect((await caller.get("/v1/audit")).body.items).toEqual([]);
  });

  it("a retry of an instance that has not stopped is refused and audited", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "complete" });
    const problem = expectProblem(await caller.post(`/v1/instances/${id}/retry`, { reason: "r" }), 409, "invalid_transition");
    expect(problem).toMatchObject({ from: "complete", to: "running" });
    expect((await caller.get("/v1/audit")).body.items).toMatchObject([{ verb: "retry", target: id, result: "no_change" }]);
  });
});

describe("GET /v1/audit", () => {
  it("GET /v1/audit lists newest first, page by page, each row once", async () => {
    const caller = await callerWith();
    const insert = env.DB.prepare(
      `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at) VALUES (?1, ?2, 'ada', 'skip', 'x', 'r', 'applied', ?3)`,
    );
    await env.DB.batch([3, 3, 3, 1, 7].map((at) => insert.bind(crypto.randomUUID(), caller.tenantId, at)));
    const seen: Json[] = [];
    let cursor = "";
    do {
      const { body } = await caller.get(`/v1/audit?limit=2${cursor}`);
      seen.push(...body.items);
      cursor = body.next_cursor && `&cursor=${body.next_cursor}`;
    } while (cursor);
    expect(seen.map(({ at }) => Date.parse(at))).toEqual([7, 3, 3, 3, 1]);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(5);
    expect(seen[0]).toMatchObject({ actor: "ada", verb: "skip", detail: null, instance_id: null, applied_at: null });
  });
});
