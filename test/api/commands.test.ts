import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Answer, callerWith, expectProblem, fresh, reaches, research } from "./client.ts";

describe("POST /v1/commands", () => {
  it("POST /v1/commands accepts a command, returns the address of its instance, and executes it", async () => {
    const caller = await callerWith();
    const { status, headers, body } = await caller.ask(fresh());
    expect(status).toBe(202);
    expect(body).toEqual({
      instance_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      replayed: false,
      instance_status: "accepted",
      due_at: null,
      correlation_id: expect.any(String),
    });
    expect(headers.get("idempotency-replayed")).toBeNull();
    expect(headers.get("location")).toBe(`/v1/instances/${body.instance_id}`);
    await reaches(caller, body.instance_id, "complete");
  });

  it("an accepted command passes correlation, causation and trace on to its instance", async () => {
    const caller = await callerWith();
    const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const command = { ...research(fresh()), correlation_id: "job 7", causation_id: "a click", schema_version: 1, delay_seconds: 3600 };
    const { body } = await caller.post("/v1/commands", command, { traceparent: trace });
    expect(body.correlation_id).toBe("job 7");
    const row = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE id = ?1")
      .bind(body.instance_id)
      .first<{ envelope: string }>();
    const envelope = JSON.parse(row?.envelope ?? "");
    expect(envelope).toMatchObject({ causation_id: "a click", source: "api/ada", tenant_id: caller.tenantId });
    expect(envelope.traceparent).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
    expect(envelope.traceparent).not.toBe(trace);
  });

  it("A02 a repeated command is answered with the same instance, marked as replayed", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const first = await caller.ask(keyword, { "idempotency-key": "k-1" });
    const again = await caller.ask(keyword, { "idempotency-key": "k-1" });
    expect(again.body).toEqual({ ...first.body, replayed: true, instance_status: expect.any(String) });
    expect(again.status).toBe(202);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
  });

  it("a repeated command is answered with the status of the instance that has the key: complete, errored, delayed, terminated", async () => {
    const caller = await callerWith();
    const done = await caller.ask(fresh());
    await reaches(caller, done.body.instance_id, "complete");
    const repeated = async ({ body: { instance_id } }: Answer) => {
      const { idempotency_key, payload } = (await caller.get(`/v1/instances/${instance_id}`)).body;
      const again = await caller.post("/v1/commands", { type: "research.requested", payload }, { "idempotency-key": idempotency_key });
      expect(again).toMatchObject({ status: 202, body: { instance_id, replayed: true } });
      expect(again.headers.get("idempotency-replayed")).toBe("true");
      const commands = [{ type: "research.requested", payload, idempotency_key }];
      const { results } = (await caller.post("/v1/commands/batch", { commands })).body;
      expect(results).toEqual([{ status: 202, ...again.body }]);
      return [again.body.instance_status, again.body.due_at];
    };
    expect(await repeated(done)).toEqual(["complete", null]);

    await env.DB.prepare("UPDATE millrace_instances SET status = 'errored' WHERE id = ?1").bind(done.body.instance_id).run();
    expect(await repeated(done)).toEqual(["errored", null]);

    const before = Date.now();
    const late = await caller.post("/v1/commands", { ...research(fresh()), delay_seconds: 3600 });
    const due = Date.parse(late.body.due_at);
    expect(due - before).toBeGreaterThanOrEqual(3_600_000);
    expect(due - Date.now()).toBeLessThanOrEqual(3_600_000);
    expect(await repeated(late)).toEqual(["accepted", late.body.due_at]);
    expect((await caller.get(`/v1/instances/${late.body.instance_id}`)).body).toMatchObject({
      status: "accepted",
      due_at: late.body.due_at,
    });
    expect((await caller.get("/v1/instances?activity=delayed")).body.items).toMatchObject([{ id: late.body.instance_id }]);

    await caller.post(`/v1/instances/${late.body.instance_id}/cancel`, { reason: "not needed" });
    await reaches(caller, late.body.instance_id, "terminated");
    expect(await repeated(late)).toEqual(["terminated", null]);
    expect((await caller.get("/v1/instances?activity=delayed")).body.items).toEqual([]);
  });

  it("a command without a key gets a key derived from its payload", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const first = await caller.ask(keyword);
    expect((await caller.ask(keyword)).body).toMatchObject({ instance_id: first.body.instance_id, replayed: true });
    expect((await caller.ask(`${keyword} two`)).body.instance_id).not.toBe(first.body.instance_id);
  });

  it("a command with the key `.` or `..`, which no URL can contain, is refused, in the header and in a batch", async () => {
    const caller = await callerWith();
    for (const key of [".", "..", '"."']) {
      const { issues } = expectProblem(await caller.ask(fresh(), { "idempotency-key": key }), 422, "invalid_payload");
      expect(issues).toEqual([{ path: "Idempotency-Key", message: expect.stringContaining('must not be "." or ".."') }]);
    }
    const { results } = (await caller.post("/v1/commands/batch", { commands: [{ ...research(fresh()), idempotency_key: ".." }] })).body;
    expect(results).toMatchObject([{ status: 422, problem: { issues: [{ path: "idempotency_key" }] } }]);
    expect((await caller.ask(fresh(), { "idempotency-key": "..." })).status).toBe(202);
  });

  it("a bare key and the same key in quotes are the same key", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const bare = await caller.ask(keyword, { "idempotency-key": 'a "b" c\\d' });
    const quoted = await caller.ask(keyword, { "idempotency-key": '"a \\"b\\" c\\\\d"' });
    expect(quoted.body).toMatchObject({ instance_id: bare.body.instance_id, replayed: true });
    const longest = await caller.ask(fresh(), { "idempotency-key": "k".repeat(500) });
    expect(longest.status).toBe(202);
  });

  it.each([
    ["too long", "k".repeat(501)],
    ["empty quotes", '""'],
    ["an open quote", '"abc'],
    ["two strings", '"a", "b"'],
    ["two headers, which arrive as one header", "a1, a2"],
    ["a parameter", '"a";p=1'],
    ["not ASCII", "schl\u00fcssel"],
    ["empty", ""],
  ])("a command with a key that is %s is refused, and the error names the header", async (_, key) => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.ask(fresh(), { "idempotency-key": key }), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "Idempotency-Key", message: expect.stringContaining("1 to 500") }]);
  });

  it("A05 a command with the key of another payload is refused and changes nothing", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const first = await caller.ask(keyword, { "idempotency-key": "k" });
    expectProblem(await caller.ask(`${keyword} two`, { "idempotency-key": "k" }), 422, "idempotency_key_reused");
    const { body } = await caller.get("/v1/instances");
    expect(body.items).toMatchObject([{ id: first.body.instance_id, subject: `acme/${keyword}` }]);
  });

  it("A06 fifty concurrent identical commands create one instance, which the other 49 responses return", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const answers = await Promise.all(Array.from({ length: 50 }, () => caller.ask(keyword, { "idempotency-key": "k" })));
    expect(new Set(answers.map(({ body }) => body.instance_id)).size).toBe(1);
    expect(answers.filter(({ status, body }) => status === 202 && body.replayed === false)).toHaveLength(1);
    expect(answers.filter(({ status, body }) => status === 202 && body.replayed === true)).toHaveLength(49);
  });

  it("A07 two tenants with the same key have two instances", async () => {
    const [one, two] = [await callerWith(), await callerWith()];
    const keyword = fresh();
    const a = await one.ask(keyword, { "idempotency-key": "k" });
    const b = await two.ask(keyword, { "idempotency-key": "k" });
    expect(b.body.replayed).toBe(false);
    expect(b.body.instance_id).not.toBe(a.body.instance_id);
  });

  it("A09 a refused command is not stored: the corrected command is accepted under the same key", async () => {
    const caller = await callerWith();
    expectProblem(await caller.ask("", { "idempotency-key": "k" }), 422, "invalid_payload");
    const { status, body } = await caller.ask(fresh(), { "idempotency-key": "k" });
    expect([status, body.replayed]).toEqual([202, false]);
  });

  it("a refused command's error names the invalid field of the payload", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(
      await caller.post("/v1/commands", { type: "research.requested", payload: {} }),
      422,
      "invalid_payload",
    );
    expect(issues.map(({ path }: { path: string }) => path)).toEqual(["payload.brand", "payload.keyword"]);
  });

  it("a command with an unknown field is refused, and the error suggests the intended name", async () => {
    const caller = await callerWith();
    const asked = { ...research("tea"), urgency: 1 };
    const beside = expectProblem(await caller.post("/v1/commands", asked), 422, "invalid_payload");
    expect(beside.issues).toEqual([{ path: "urgency", message: "is not known here: remove it" }]);
    const within = { type: "research.requested", payload: { brand: "acme", keyword: "tea", cylce: "may", urgency: 1 } };
    const problem = expectProblem(await caller.post("/v1/commands", within), 422, "invalid_payload");
    expect(problem.issues).toEqual([
      { path: "payload.cylce", message: "is not known here: perhaps `cycle` is meant" },
      { path: "payload.urgency", message: "is not known here: remove it" },
    ]);
    expect(problem.detail).toContain("(and 1 more under `issues`)");
    const [batched] = (await caller.post("/v1/commands/batch", { commands: [within] })).body.results;
    expect(batched).toMatchObject({ status: 422, problem: { issues: problem.issues } });
    const schedule = { cron: "0 * * * *", command: within, reason: "r" };
    expectProblem(await caller.call("PUT", "/v1/schedules/hourly", schedule), 422, "invalid_payload");
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("the error names the misspelled field in addition to the missing field", async () => {
    const caller = await callerWith();
    const wrong = { type: "research.requested", payload: { brand: "acme", keywrd: "tea" } };
    const { issues, detail } = expectProblem(await caller.post("/v1/commands", wrong), 422, "invalid_payload");
    expect(issues).toEqual([
      { path: "payload.keyword", message: "is missing: add it" },
      { path: "payload.keywrd", message: "is not known here: perhaps `keyword` is meant" },
    ]);
    expect(detail).toBe("The payload of research.requested is not valid: payload.keyword is missing: add it (and 1 more under `issues`).");
  });

  it("an event sent as a command is refused with the hint that it is an event", async () => {
    const caller = await callerWith();
    const { detail } = expectProblem(
      await caller.post("/v1/commands", { type: "content.published", payload: {} }),
      404,
      "unknown_message_type",
    );
    expect(detail).toContain('"content.published" is an event');
  });

  it("a command of a type without a handler is refused, and the error suggests the intended type", async () => {
    const caller = await callerWith();
    const problem = expectProblem(await caller.post("/v1/commands", { type: "content.publsh", payload: {} }), 404, "unknown_message_type");
    expect(problem.did_you_mean).toBe("content.publish");
    expectProblem(await caller.post("/v1/commands", { type: "content.published", payload: {} }), 404, "unknown_message_type");
  });

  it("a command with an unknown payload version is refused", async () => {
    const caller = await callerWith();
    expectProblem(await caller.post("/v1/commands", { ...research("x"), schema_version: 2 }), 422, "invalid_envelope");
  });

  it.each([
    ["subject", { subject: "mine" }, "subject"],
    ["a tenant", { tenant_id: "globex" }, "tenant_id"],
    ["a delay of zero seconds", { delay_seconds: -1 }, "delay_seconds"],
    ["a delay above the maximum", { delay_seconds: 31_536_001 }, "delay_seconds"],
    ["an empty correlation", { correlation_id: "" }, "correlation_id"],
    ["a causation above the maximum length", { causation_id: "c".repeat(301) }, "causation_id"],
    ["a control character", { correlation_id: "a\u0000b" }, "correlation_id"],
    ["a job that no URL can contain", { correlation_id: ".." }, "correlation_id"],
    ["a key that no URL can contain", { idempotency_key: "." }, "idempotency_key"],
    ["version 0", { schema_version: 0 }, "schema_version"],
  ])("a command with %s in the body is refused, and the error names the field", async (_, extra, path) => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/commands", { ...research("x"), ...extra }), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path }]);
  });
});

describe("POST /v1/commands/batch", () => {
  it("POST /v1/commands/batch answers every command separately, in order", async () => {
    const caller = await callerWith();
    const keyword = fresh();
    const { status, body } = await caller.post("/v1/commands/batch", {
      commands: [
        { ...research(keyword), idempotency_key: "k" },
        { type: "nobody.knows", payload: {} },
        { type: "research.requested", payload: { brand: "ACME", keyword } },
        "no object",
        { ...research(keyword), idempotency_key: "k" },
        { ...research(`${keyword} two`), idempotency_key: "k" },
        { ...research(keyword), correlation_id: "job 8" },
      ],
    });
    expect(status).toBe(200);
    const id = body.results[0].instance_id;
    const accepted = { instance_status: "accepted", due_at: null };
    expect(body.results).toEqual([
      { status: 202, instance_id: expect.any(String), replayed: false, ...accepted, correlation_id: expect.any(String) },
      { status: 404, problem: expect.objectContaining({ status: 404, code: "unknown_message_type" }) },
      {
        status: 422,
        problem: expect.objectContaining({ code: "invalid_payload", issues: [expect.objectContaining({ path: "payload.brand" })] }),
      },
      { status: 422, problem: expect.objectContaining({ code: "invalid_payload" }) },
      { status: 202, instance_id: id, replayed: true, ...accepted, correlation_id: body.results[0].correlation_id },
      { status: 422, problem: expect.objectContaining({ code: "idempotency_key_reused" }) },
      { status: 202, instance_id: expect.not.stringMatching(id), replayed: false, ...accepted, correlation_id: "job 8" },
    ]);
  });

  it("a command that a rate delays is answered with its due time", async () => {
    const caller = await callerWith();
    const commands = [0, 1, 2].map((n) => research(`${fresh()} ${n}`));
    const { results } = (await caller.post("/v1/commands/batch", { commands, rate_per_second: 0.001 })).body;
    const [now, second, third] = results.map(({ due_at }: { due_at: string | null }) => due_at && Date.parse(due_at));
    expect(now).toBeNull();
    expect(third - second).toBe(1_000_000);
    const { items } = (await caller.get("/v1/instances?activity=delayed")).body;
    expect(items.map(({ due_at }: { due_at: string }) => Date.parse(due_at)).toSorted()).toEqual([second, third]);
  });

  it("a batch can have 100 commands", async () => {
    const caller = await callerWith();
    const commands = Array.from({ length: 100 }, (_, n) => ({ ...research(`mint ${n}`), delay_seconds: 3600 }));
    const { body } = await caller.post("/v1/commands/batch", { commands });
    expect(body.results.filter(({ status }: Answer) => status === 202)).toHaveLength(100);
  });

  it("an empty batch, a batch of 101 commands, and a batch with one Idempotency-Key header are refused", async () => {
    const caller = await callerWith();
    const batch = (count: number, headers = {}) =>
      caller.post("/v1/commands/batch", { commands: Array.from({ length: count }, () => research("x")) }, headers);
    expect(expectProblem(await batch(0), 422, "invalid_payload").issues[0].path).toBe("commands");
    expect(expectProblem(await batch(101), 422, "invalid_payload").issues[0].path).toBe("commands");
    expect(expectProblem(await batch(1, { "idempotency-key": "k" }), 422, "invalid_payload").issues[0].path).toBe("Idempotency-Key");
  });
});
