import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "./client.ts";
import { envelopeFor, hexId, seedInstance, seedLetter } from "./seed.ts";

/** A job page by page, with this maximum of members per page. */
async function pages(caller: Caller, job: string, limit = 50): Promise<Json[]> {
  const all: Json[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { status, body }: Json = await caller.get(`/v1/correlations/${job}?limit=${limit}${cursor && `&cursor=${cursor}`}`);
    expect(status).toBe(200);
    all.push(body);
    cursor = body.next_cursor;
  }
  return all;
}

/** Sets the job of instances and their order in time. */
async function belong(job: string, ids: readonly string[], causes: readonly string[] = []): Promise<void> {
  for (const [index, id] of ids.entries()) {
    await env.DB.prepare("UPDATE millrace_instances SET correlation_id = ?2, accepted_at = ?3, causation_id = ?4 WHERE id = ?1")
      .bind(id, job, 1_790_000_000_000 + index, causes[index] ?? "request/1")
      .run();
  }
}

it("a job is listed from causes to effects: every instance, the messages of its steps, and the instances that they started", {
  timeout: 60_000,
}, async () => {
  const caller = await callerWith();
  const job = fresh("spring");
  const asked = { type: "research.requested", correlation_id: job, payload: { brand: "acme", keyword: fresh("cold brew") } };
  const { body } = await caller.post("/v1/commands", asked);
  await reaches(caller, body.instance_id, "complete");
  const [{ items, summary, elsewhere }]: Json[] = await until(
    () => pages(caller, job),
    ([{ summary, items }]: Json[]) =>
      !summary.open &&
      items.every(({ kind, status }: Json) => kind === "instance" || status !== "on_its_way") &&
      summary.instances.length > 2,
  );

  const [first] = items;
  expect(first).toMatchObject({ node: body.instance_id, kind: "instance", name: "research-keyword", cause: null, status: "complete" });
  const researched = items.find(({ message_type, kind }: Json) => kind === "event" && message_type === "research.completed");
  expect(researched).toMatchObject({ cause: first.node, from_instance: first.node, step: expect.any(String), status: "taken" });
  const article = items.find(({ name }: Json) => name === "generate-article");
  expect(article).toMatchObject({ kind: "instance", cause: researched.node, from_instance: first.node, step: researched.step });
  expect(article.latency_ms).toBeGreaterThanOrEqual(0);
  expect(researched.leads_to).toEqual([{ instance_id: article.node, status: article.status }]);

  // Every edge leads to an earlier node, and all edges lead to the first node.
  const places = new Map<string, number>(items.map(({ node }: Json, index: number) => [node, index]));
  for (const [index, { cause, node }] of items.entries()) {
    if (index > 0) expect(places.get(cause), `${node} is caused by ${cause}`).toBeLessThan(index);
  }
  const count = (kind: string) => items.filter((one: Json) => one.kind === kind).length;
  expect(summary.instances.reduce((sum: number, { count }: Json) => sum + count, 0)).toBe(count("instance"));
  expect(summary.instances).toContainEqual({
    status: "complete",
    workflow: "research-keyword",
    message_type: "research.requested",
    count: 1,
  });
  expect(Date.parse(summary.first_at)).toBe(Date.parse(first.at));
  expect(elsewhere).toEqual([{ kind: "facts", url: `/v1/facts?correlation=${job}` }]);
});

it("a job of 10,000 members is read in pages of the usual size, each member once", { timeout: 60_000 }, async () => {
  const caller = await callerWith();
  const job = fresh("bulk");
  const like = await seedInstance(caller.tenantId);
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
     INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     SELECT substr(hex(?2) || printf('%032d', i), -32), ?1, 'research-keyword', 'research.requested', i, ?2, 'request/1', 's', 'f', '{}',
       iif(i % 100 = 0, 'errored', 'complete'), 1790000000000 + i / 3, 1790000000000 + i FROM n`,
  )
    .bind(caller.tenantId, job)
    .run();
  await env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(like).run();
  const [first, ...others] = await pages(caller, job, 200);
  expect(first.summary).toMatchObject({ open: false, more: true });
  expect(first.summary.instances.map(({ status, count }: Json) => [status, count])).toEqual([
    ["complete", 9900],
    ["errored", 100],
  ]);
  expect(others.map(({ summary }) => summary)).toEqual(others.map(() => null));
  expect([first, ...others].map(({ items }) => items.length)).toEqual(Array.from({ length: 50 }, () => 200));
  const nodes = [first, ...others].flatMap(({ items }) => items.map(({ node }: Json) => node));
  expect(new Set(nodes).size).toBe(10_000);
  expect(nodes).toEqual(nodes.toSorted());
});

it("dead letters are listed among the members of their job, after the step that emitted them", async () => {
  const caller = await callerWith();
  const job = fresh("job");
  const id = await seedInstance(caller.tenantId);
  await belong(job, [id]);
  const body = { ...envelopeFor(caller.tenantId, "k"), causation_id: `${id}/put page` };
  const letter = await seedLetter(caller.tenantId, { body });
  await env.DB.prepare("UPDATE millrace_dead_letters SET correlation_id = ?2, idempotency_key = 'k' WHERE id = ?1").bind(letter, job).run();
  const [{ items, summary }]: Json[] = await pages(caller, job);
  expect(items.map(({ node }: Json) => node)).toEqual([id, letter]);
  expect(items[1]).toMatchObject({ kind: "dead_letter", status: "open", name: "gatherfeed-commands", from_instance: id, step: "put page" });
  expect(summary.dead_letters).toEqual([{ state: "open", count: 1 }]);
});

it("hundreds of messages of one instance are listed in part, and counted by type", async () => {
  const caller = await callerWith();
  const job = fresh("job");
  const id = await seedInstance(caller.tenantId);
  await belong(job, [id]);
  const messages = Array.from({ length: 300 }, (_, index) => ({
    ...envelopeFor(caller.tenantId, `k${index}`),
    causation_id: `${id}/fan out`,
    message_type: index < 3 ? "research.requested" : "content.publish",
  }));
  await env.DB.prepare(
    `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, messages, updated_at)
     VALUES (?1, 'fan out', 0, 'commit', 'done', 1, 't', ?2, 1790000000000)`,
  )
    .bind(id, JSON.stringify(messages))
    .run();
  const [{ items, collapsed }]: Json[] = await pages(caller, job);
  expect(items.length).toBe(21);
  expect(items[1]).toMatchObject({ kind: "command", message_type: "research.requested", cause: id, step: "fan out", leads_to: [] });
  expect(collapsed).toEqual([{ instance_id: id, message_type: "content.publish", count: 280 }]);
});

it("a job shows deletions by retention: missing causes, and pruned instances that a message started", async () => {
  const caller = await callerWith();
  const job = fresh("job");
  const ids = [await seedInstance(caller.tenantId), await seedInstance(caller.tenantId)];
  const parent = hexId();
  await belong(job, ids, [`${parent}/plan`, `${parent}/plan`]);
  const [{ items }]: Json[] = await pages(caller, job);
  expect(items.map(({ node, status }: Json) => [node, status])).toEqual([
    [parent, "gone"],
    [ids[0], "complete"],
    [ids[1], "complete"],
  ]);
});

it("another tenant's job and an unknown job are not found, and another tenant's message is not shown as a cause", async () => {
  const [caller, stranger] = [await callerWith(), await callerWith()];
  const job = fresh("job");
  const id = await seedInstance(caller.tenantId);
  await belong(job, [id]);
  expectProblem(await stranger.get(`/v1/correlations/${job}`), 404, "correlation_not_found");
  expectProblem(await stranger.get(`/v1/correlations/${fresh("job")}`), 404, "correlation_not_found");
  const own = await seedInstance(stranger.tenantId);
  await belong(job, [own], [`${id}/put page`]);
  const [{ items }]: Json[] = await pages(stranger, job);
  expect(items.map(({ node, status }: Json) => [node, status])).toEqual([
    [id, "gone"],
    [own, "complete"],
  ]);
});
