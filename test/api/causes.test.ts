import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { rowsRead } from "../rows-read.ts";
import { callerWith, expectProblem, type Json } from "./client.ts";
import { seedInstance, seedLetter } from "./seed.ts";

describe("GET /v1/dead-letters/causes", () => {
  it("GET /v1/dead-letters/causes has a group for each cause, the most recent first, page by page", async () => {
    const caller = await callerWith();
    for (const [cause, capturedAt, error] of [
      ["aaaa", 10, "Order 1 is late."],
      ["bbbb", 20, "It broke."],
      ["aaaa", 30, "Order 2 is late."],
      ["cccc", 20, "It fell."],
    ] as const)
      await seedLetter(caller.tenantId, { cause, capturedAt, error });
    const first = await caller.get("/v1/dead-letters/causes?limit=2");
    const second = await caller.get(`/v1/dead-letters/causes?limit=2&cursor=${first.body.next_cursor}`);
    const items: Json[] = [...first.body.items, ...second.body.items];
    expect(items.map(({ id, count, message }) => [id, count, message])).toEqual([
      ["aaaa", 2, "Order # is late."],
      ["cccc", 1, "It fell."],
      ["bbbb", 1, "It broke."],
    ]);
    expect(second.body.next_cursor).toBeNull();
    expect(items[0]).toMatchObject({ queue: "gatherfeed-commands", message_type: "research.requested", reason: "exhausted", step: null });
    expect([items[0].first_at, items[0].last_at].map(Date.parse)).toEqual([10, 30]);
    const { body: list } = await caller.get("/v1/dead-letters?cause=aaaa&limit=1");
    expect(list.items.map(({ id, cause }: Json) => [id, cause])).toEqual([[items[0].dead_letter_id, "aaaa"]]);
    expect((await caller.get(`/v1/dead-letters?cause=aaaa&cursor=${list.next_cursor}`)).body.items).toHaveLength(1);
  });

  it("causes of dead letters are filtered by queue, reason and type; unknown names are refused", async () => {
    const caller = await callerWith();
    await seedLetter(caller.tenantId, { cause: "aaaa", queue: "publish-commands", reason: "invalid_payload" });
    await seedLetter(caller.tenantId, { cause: "bbbb" });
    const found = async (query: string) => (await caller.get(`/v1/dead-letters/causes?${query}`)).body.items.map(({ id }: Json) => id);
    expect(await found("queue=publish-commands")).toEqual(["aaaa"]);
    expect(await found("reason=exhausted")).toEqual(["bbbb"]);
    expect((await found("type=research.requested")).sort()).toEqual(["aaaa", "bbbb"]);
    expect(await found("type=content.publish")).toEqual([]);
    expectProblem(await caller.get("/v1/dead-letters/causes?queue=publish-comands"), 422, "invalid_payload");
  });

  it("dead letters without a tenant are grouped for tokens with the scope `unattributed` only; another tenant's are not", async () => {
    const [plain, trusted] = [await callerWith(["read"]), await callerWith(["read", "unattributed"])];
    await seedLetter(plain.tenantId, { cause: "mine" });
    const cause = crypto.randomUUID();
    await seedLetter(null, { cause });
    const ids = async (caller: typeof plain) =>
      (await caller.get("/v1/dead-letters/causes?limit=200")).body.items.map(({ id }: Json) => id);
    expect(await ids(plain)).toEqual(["mine"]);
    expect(await ids(trusted)).toContain(cause);
    expect(await ids(trusted)).not.toContain("mine");
    expect((await trusted.get(`/v1/dead-letters?cause=${cause}`)).body.items).toHaveLength(1);
    expectProblem(await (await callerWith(["enqueue"])).get("/v1/dead-letters/causes"), 403, "forbidden");
  });
});

describe("GET /v1/instances/causes", () => {
  it("GET /v1/instances/causes has a group for each cause of errored instances, which filters the list", async () => {
    const caller = await callerWith();
    const failed = (message: string) => ({ step: "put page [a]", code: "upstream_refused", message, attempts: 1 });
    const seeded = await Promise.all(
      [503, 500].map((status) => seedInstance(caller.tenantId, { status: "errored", cause: "aaaa", error: failed(`answered ${status}`) })),
    );
    await seedInstance(caller.tenantId, { status: "complete", cause: "aaaa" });
    await seedInstance((await callerWith()).tenantId, { status: "errored", cause: "aaaa", error: failed("answered 1") });
    const { body } = await caller.get("/v1/instances/causes");
    expect(body.items).toEqual([
      expect.objectContaining({
        ...{ id: "aaaa", workflow: "research-keyword", step: "put page", code: "upstream_refused" },
        ...{ message: "answered #", count: 2 },
      }),
    ]);
    expect(seeded).toContain(body.items[0].instance_id);
    const list = async (query: string) => (await caller.get(`/v1/instances?${query}`)).body.items.map(({ id }: Json) => id).sort();
    expect(await list("cause=aaaa")).toEqual(seeded.toSorted());
    expect(await list("cause=aaaa&workflow=publish-article")).toEqual([]);
    expect(await list(`cause=aaaa&correlation=job-${seeded[0]}`)).toEqual([seeded[0]]);
    expect((await caller.get("/v1/instances/causes?code=not_retryable")).body.items).toEqual([]);
    expectProblem(await caller.get("/v1/instances/causes?workflow=nobodys"), 422, "invalid_payload");
  });
});

describe("GET /v1/instances/counts", () => {
  it("counts the tenant's instances by status, by each filter, and refuses unknown workflows", async () => {
    const caller = await callerWith(["read"]);
    const old = Date.now() - 7_200_000;
    for (const row of [{ status: "errored" }, { status: "errored", acceptedAt: old }, { status: "complete", subject: "acme/rye" }, {}])
      await seedInstance(caller.tenantId, row);
    await seedInstance((await callerWith()).tenantId, { status: "errored" });
    const counts = async (query = "") =>
      Object.fromEntries(
        ((await caller.get(`/v1/instances/counts?${query}`)).body.items as Json[])
          .filter(({ count }) => count > 0)
          .map(({ status, count, more }) => [status, more ? `${count}+` : count]),
      );
    expect((await caller.get("/v1/instances/counts")).body.items).toHaveLength(11);
    expect(await counts()).toEqual({ errored: 2, complete: 2 });
    expect(await counts(`since=${new Date(old + 1).toISOString()}`)).toEqual({ errored: 1, complete: 2 });
    expect(await counts("subject=acme%2Frye")).toEqual({ complete: 1 });
    const [{ correlation_id }] = (await caller.get("/v1/instances?subject=acme%2Frye")).body.items;
    expect(await counts(`correlation=${correlation_id}`)).toEqual({ complete: 1 });
    const tagged = (await caller.get("/v1/instances?status=errored&limit=1")).body.items[0];
    await env.DB.prepare("UPDATE millrace_instances SET envelope = json_set(envelope, '$.tags', json('[\"vip\"]')) WHERE id = ?1")
      .bind(tagged.id)
      .run();
    expect(await counts("tag=vip")).toEqual({ errored: 1 });
    expect(await counts(`tag=vip&correlation=${tagged.correlation_id}&workflow=research-keyword`)).toEqual({ errored: 1 });
    expect(await counts(`tag=vip&correlation=${correlation_id}`)).toEqual({});
    expect(await counts("tag=vip&subject=acme%2Frye")).toEqual({});
    expect(await counts(`tag=vip&since=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual({});
    expect(await counts("workflow=publish-article")).toEqual({});
    expectProblem(await caller.get("/v1/instances/counts?workflow=nobodys"), 422, "invalid_payload");
    expectProblem(await (await callerWith(["enqueue"])).get("/v1/instances/counts"), 403, "forbidden");
  });

  it("stops at 1,000 of a status", async () => {
    const { tenantId, get } = await callerWith(["read"]);
    const id = await seedInstance(tenantId, { status: "errored" });
    await env.DB.prepare(
      `WITH RECURSIVE nth(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM nth WHERE value < 1000)
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
         fingerprint, envelope, queue, status, accepted_at, updated_at)
       SELECT substr(?1, 1, 27) || printf('%05d', value), tenant_id, workflow, message_type, 'key ' || value, correlation_id, causation_id, subject, fingerprint, envelope,
         queue, status, accepted_at, updated_at FROM millrace_instances, nth WHERE id = ?1`,
    )
      .bind(id)
      .run();
    const all = await rowsRead(() => get("/v1/instances/counts"));
    expect(all.answer.body.items.filter(({ count }: Json) => count > 0)).toEqual([{ status: "errored", count: 1000, more: true }]);
    expect(all.read).toBeGreaterThan(1000);
    // A count of a tag reads the instances with this tag, and no others.
    expect((await rowsRead(() => get("/v1/instances/counts?tag=vip"))).read).toBeLessThan(50);
  });
});
