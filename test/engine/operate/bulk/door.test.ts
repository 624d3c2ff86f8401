import { describe, expect, it, onTestFinished } from "vitest";
import { pauseAt, reaches, rows, until } from "../../harness.ts";
import { rowOf } from "../../keeper/aged.ts";
import { auditOf, type Item, lettersOfThreeCauses, theOperator } from "./bulk.ts";

interface Refused {
  code: string;
  detail: string;
  issues?: { path: string; message: string }[];
}

const none = { verb: "skip", filter: { reason: "exhausted" }, reason: "none of it" };

describe("A bulk action with an invalid request", () => {
  it.each([
    ["an unknown verb", { ...none, verb: "retyr" }, "verb", "perhaps `retry` is meant"],
    ["an unknown field in its filter", { ...none, filter: { queu: "x" } }, "filter.queu", "queue"],
    ["a status that its verb does not accept", { ...none, verb: "retry", filter: { status: "running" } }, "filter.status", "errored"],
    ["an unknown workflow", { ...none, verb: "retry", filter: { workflow: "prob" } }, "filter.workflow", "perhaps `probe` is meant"],
    ["an unknown queue", { ...none, filter: { queue: "probe-event" } }, "filter.queue", "perhaps `probe-events` is meant"],
    [
      "an unknown message type",
      { ...none, filter: { message_type: "probe.rooted" } },
      "filter.message_type",
      "perhaps `probe.routed` is meant",
    ],
    ["an unknown cause of dead letters", { ...none, filter: { cause: "0123abcd" } }, "filter.cause", "GET /v1/dead-letters/causes"],
    ["an unknown cause of instances", { ...none, verb: "close", filter: { cause: "x" } }, "filter.cause", "GET /v1/instances/causes"],
    ["both a filter and ids", { ...none, ids: ["a"] }, "filter", "one of them"],
    ["neither a filter nor ids", { ...none, filter: undefined }, "filter", "is missing"],
    ["an invalid id", { ...none, filter: undefined, ids: ["a b"] }, "ids.0", "must be an id"],
    ["the field undo and a verb without undo", { ...none, undo: false }, "undo", "undoes no effects"],
    ["a rate above 100 items a second", { ...none, rate_per_second: 101 }, "rate_per_second", "100"],
    ["a stage of 0 items", { ...none, ramp: [1, 0] }, "ramp.1", "1"],
    ["a maximum share of errors above 1", { ...none, stop_at_error_rate: 2 }, "stop_at_error_rate", "1"],
  ])("a bulk action with %s is refused (422) and not stored", async (_, body, path, words) => {
    const { ask, tenantId } = await theOperator();
    for (const more of [{}, { dry_run: true }]) {
      const answer = await ask<Refused>("/v1/bulk-actions", { ...body, ...more });
      expect(answer).toMatchObject({ status: 422, body: { code: "invalid_payload", issues: [{ path }] } });
      expect(JSON.stringify(answer.body)).toContain(words);
    }
    expect(await rows("SELECT 1 FROM millrace_bulk_actions WHERE tenant_id = ?1", tenantId)).toEqual([]);
  });

  it("a bulk action is refused (409) when more items match its filter than its dry run counted", async () => {
    const { ask, tenantId, start, over } = await theOperator();
    await lettersOfThreeCauses(tenantId, [0, 2, 0]);
    const all = { verb: "skip", filter: {}, reason: "all of it" };
    const { matched } = (await ask<{ matched: number }>("/v1/bulk-actions", { ...all, dry_run: true })).body;
    expect(matched).toBe(2);
    await lettersOfThreeCauses(tenantId, [0, 3, 0]);
    const key = { "idempotency-key": "all" };
    const refused = await ask<Refused>("/v1/bulk-actions", { ...all, at_most: matched }, key);
    expect(refused).toMatchObject({ status: 409, body: { code: "more_matched" } });
    expect(refused.body.detail).toMatch(/^5 items match now, and `at_most` is 2/);
    expect(await rows("SELECT 1 FROM millrace_bulk_actions WHERE tenant_id = ?1", tenantId)).toEqual([]);
    const begun = await start({ ...all, at_most: 5 }, key);
    expect(begun.status).toBe(202);
    expect(await over(begun.body.id)).toMatchObject({ state: "complete", matched: 5, done: 5 });
  });

  it("a bulk action with a reason of invisible characters is refused (422)", async () => {
    const { ask } = await theOperator();
    const answer = await ask<Refused>("/v1/bulk-actions", { ...none, reason: "\u200b\u2060" });
    expect(answer).toMatchObject({ status: 422, body: { issues: [{ path: "reason" }] } });
  });

  it("a bulk action is refused (403) for a token that may only read", async () => {
    const { ask } = await theOperator(["read"]);
    expect(await ask("/v1/bulk-actions", none)).toMatchObject({ status: 403, body: { code: "forbidden" } });
    expect(await ask("/v1/bulk-actions/x/abort", { reason: "r" })).toMatchObject({ status: 403 });
  });
});

describe("A bulk action of a tenant", () => {
  it("a bulk action and its items are visible to its own tenant only", async () => {
    const [acme, globex] = [await theOperator(), await theOperator()];
    await lettersOfThreeCauses(acme.tenantId, [0, 3, 0]);
    const letters = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE tenant_id = ?1", acme.tenantId);
    const ids = letters.map(({ id }) => id);
    expect((await globex.ask("/v1/bulk-actions", { verb: "skip", filter: {}, reason: "r", dry_run: true })).body).toMatchObject({
      matched: 0,
    });
    const plan = await globex.ask("/v1/bulk-actions", { verb: "skip", ids, reason: "r", dry_run: true });
    const refused = expect.stringContaining("no dead letter");
    expect(plan.body).toMatchObject({ sample: ids.map((id) => ({ id, refused })) });
    const foreign = (await globex.start({ verb: "skip", ids, stop_at_error_rate: 1 })).body;
    expect(await globex.over(foreign.id)).toMatchObject({ state: "complete", matched: 3, done: 0, failed: 3 });
    expect(await globex.items(foreign.id)).toMatchObject(ids.map((target) => ({ target, code: "dead_letter_not_found" })));
    expect(await rows("SELECT 1 FROM millrace_dead_letters WHERE tenant_id = ?1 AND state = 'open'", acme.tenantId)).toHaveLength(3);

    const own = (await acme.start({ verb: "skip", ids: [...ids, ids[0]], ramp: [] })).body;
    expect(await acme.over(own.id)).toMatchObject({ state: "complete", matched: 3, done: 3 });
    expect(await acme.ask(`/v1/bulk-actions/${own.id}/items?cursor=~YQ`)).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
    for (const verb of ["abort", "resume"]) {
      expect(await globex.ask(`/v1/bulk-actions/${own.id}/${verb}`, { reason: "r" })).toMatchObject({ status: 404 });
    }
    const listed = await globex.ask<{ items: { id: string }[] }>("/v1/bulk-actions");
    expect(listed.body.items.map(({ id }) => id)).toEqual([foreign.id]);
  });

  it("a bulk action is created once for one key, also after a double click; a different request under that key is refused", async () => {
    const operator = await theOperator();
    await lettersOfThreeCauses(operator.tenantId, [0, 2, 0]);
    const asked = { verb: "skip", filter: {} };
    const clicks = await Promise.all([1, 2].map(() => operator.start(asked, { "idempotency-key": "monday" })));
    expect(clicks.map(({ status }) => status)).toEqual([202, 202]);
    expect(new Set(clicks.map(({ body }) => body.id)).size).toBe(1);
    const id = clicks[0]?.body.id ?? "";
    expect(await operator.over(id)).toMatchObject({ state: "complete", done: 2 });
    expect((await operator.start(asked, { "idempotency-key": "monday" })).body).toMatchObject({ id, replayed: true, state: "complete" });
    expect(await operator.start({ ...asked, ramp: [2] }, { "idempotency-key": "monday" })).toMatchObject({
      status: 422,
      body: { code: "idempotency_key_reused" },
    });
    const audit = await rows<{ verb: string }>(
      "SELECT verb FROM millrace_actions WHERE tenant_id = ?1 ORDER BY at, verb",
      operator.tenantId,
    );
    expect(audit.map(({ verb }) => verb).toSorted()).toEqual(["attempt", "bulk", "skip", "skip"]);
  });

  it("a bulk action without items is complete at once; a halt or resume of an ended bulk action is refused, with that reason", async () => {
    const operator = await theOperator();
    const { status, body } = await operator.start({ verb: "skip", filter: {} });
    expect({ status, ...body }).toMatchObject({ status: 202, state: "complete", matched: 0, remaining: 0 });
    for (const verb of ["abort", "resume"]) {
      const refused = { status: 409, body: { code: "invalid_transition", from: "complete" } };
      expect(await operator.ask(`/v1/bulk-actions/${body.id}/${verb}`, { reason: "r" })).toMatchObject(refused);
    }
  });

  it("a bulk action waits while five others of its tenant run, and starts when one of them ends", async () => {
    const operator = await theOperator();
    await lettersOfThreeCauses(operator.tenantId, [0, 6, 0]);
    const letters = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE tenant_id = ?1", operator.tenantId);
    const slow = { verb: "replay", rate_per_second: 0.1, stop_at_error_rate: 1, ids: letters.map(({ id }) => id) };
    const running = await Promise.all([1, 2, 3, 4, 5].map(() => operator.start(slow)));
    onTestFinished(async () => {
      for (const { body } of running) await operator.ask(`/v1/bulk-actions/${body.id}/abort`, { reason: "the test is over" });
    });
    expect(running.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202]);
    const sixth = () => operator.start({ verb: "skip", filter: {} }, { "Idempotency-Key": "sixth" });
    expect(await sixth()).toMatchObject({ status: 409, body: { code: "bulk_actions_running" } });
    expect((await operator.ask<{ items: Item[] }>("/v1/bulk-actions?state=running")).body.items).toHaveLength(5);
    const halted = running[0]?.body.id ?? "";
    await operator.ask(`/v1/bulk-actions/${halted}/abort`, { reason: "make room" });
    const next = await sixth();
    expect(next.status).toBe(202);
    expect(await operator.over(next.body.id)).toMatchObject({ state: "complete", failed: 0 });
    const audited = "SELECT verb, result FROM millrace_actions WHERE tenant_id = ?1 AND (target = ?2 OR verb = 'attempt') ORDER BY at";
    expect(await rows(audited, operator.tenantId, next.body.id)).toEqual([
      { verb: "attempt", result: "refused" },
      { verb: "bulk", result: "applied" },
    ]);
  });

  it("a bulk action contains the items that match when it is created: a later failure is not included, and items are listed in pages", async () => {
    const operator = await theOperator();
    await lettersOfThreeCauses(operator.tenantId, [0, 5, 0]);
    const { body } = await operator.start({ verb: "skip", filter: {}, ramp: [1] });
    await lettersOfThreeCauses(operator.tenantId, [0, 1, 0]);
    expect(await operator.over(body.id)).toMatchObject({ matched: 5, done: 5 });
    expect(await rows("SELECT 1 FROM millrace_dead_letters WHERE tenant_id = ?1 AND state = 'open'", operator.tenantId)).toHaveLength(1);
    type Page = { items: Item[]; next_cursor: string | null };
    const first = (await operator.ask<Page>(`/v1/bulk-actions/${body.id}/items?limit=3&result=done`)).body;
    expect(first.items.map(({ n }) => n)).toEqual([0, 1, 2]);
    const second = (await operator.ask<Page>(`/v1/bulk-actions/${body.id}/items?limit=3&cursor=${first.next_cursor}`)).body;
    expect([second.items.map(({ n }) => n), second.next_cursor]).toEqual([[3, 4], null]);
    const audit = await auditOf(body.id);
    expect(new Set(audit.map(({ target }) => target))).toEqual(new Set([...first.items, ...second.items].map(({ target }) => target)));
  });

  it("a bulk action can be halted while a chunk is being recorded: completed items remain completed, and each item is listed", async () => {
    const operator = await theOperator();
    await lettersOfThreeCauses(operator.tenantId, [0, 4, 0]);
    const { body } = await operator.start({ verb: "skip", filter: {}, ramp: [] });
    const held = pauseAt("B02 items changed, chunk not recorded", body.id);
    await until(async () => held.reached(), Boolean);
    await operator.ask(`/v1/bulk-actions/${body.id}/abort`, { reason: "no" });
    held.release();
    expect(await reaches(body.instance_id, "complete")).toBe("complete");
    expect(await operator.show(body.id)).toMatchObject({ state: "aborted", done: 4, remaining: 0 });
    expect(await operator.items(body.id)).toHaveLength(4);
  });
});

it("a dry run of a bulk action marks an irreversible verb as final", async () => {
  const { ask } = await theOperator();
  const consequence = async (verb: string) =>
    (await ask<{ consequence: string | null }>("/v1/bulk-actions", { verb, filter: {}, reason: "r", dry_run: true })).body.consequence;
  expect([await consequence("skip"), await consequence("close")]).toEqual(Array(2).fill(expect.stringContaining("Final: ")));
  expect([await consequence("retry"), await consequence("replay")]).toEqual([null, null]);
});

it("a dry run of a bulk cancel reports the undo; a dry run of a bulk retry reports how many undone items repeat their effects", async () => {
  const { ask, tenantId } = await theOperator();
  const dry = async (verb: string, filter: object) =>
    (await ask<{ consequence: string | null; matched: number }>("/v1/bulk-actions", { verb, filter, reason: "r", dry_run: true })).body;
  expect((await dry("cancel", { status: "waiting" })).consequence).toContain("Their effects are undone");
  const ids = await Promise.all([0, 1, 2].map(() => rowOf("terminated", 0)));
  for (const id of ids) await rows("UPDATE millrace_instances SET tenant_id = ?2 WHERE id = ?1", id, tenantId);
  await rows("UPDATE millrace_instances SET undo = 'undo-of-it', undone = 1 WHERE id IN (?1, ?2)", ids[0] ?? "", ids[1] ?? "");
  expect(await dry("retry", { status: "terminated" })).toMatchObject({
    matched: 3,
    consequence: expect.stringContaining("Undone instances among these: 2. "),
  });
  expect(await dry("retry", { status: "terminated", undone: false })).toMatchObject({ matched: 1, consequence: null });
  const byId = await ask<{ consequence: string }>("/v1/bulk-actions", { verb: "retry", ids: [ids[0], ids[2]], reason: "r", dry_run: true });
  expect(byId.body.consequence).toContain(
    "Undone instances among these: 1. Each starts from the beginning and repeats the effects that were undone",
  );
});
