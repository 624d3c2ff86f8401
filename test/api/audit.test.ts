import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { because, ELSEWHERE, failed, ROUTES, TOLD, timing } from "./changing-routes.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, send, until } from "./client.ts";
import { seedApproval, seedEffect, seedInstance, seedLetter } from "./seed.ts";

async function mutating(): Promise<string[]> {
  const { body } = await send("/openapi.json");
  return Object.entries<Json>(body.paths).flatMap(([path, item]) =>
    Object.keys(item).flatMap((method) => (method === "get" ? [] : [`${method.toUpperCase()} ${path}`])),
  );
}

const auditOf = async (caller: Caller, query = "") => (await caller.get(`/v1/audit?limit=100${query}`)).body.items as Json[];

describe("The audit", () => {
  it("the record of each changing route is written by the declared component", async () => {
    expect((await mutating()).toSorted()).toEqual([...Object.keys(ROUTES), ...Object.keys(ELSEWHERE)].toSorted());
  });

  it.each(Object.entries(ROUTES).flatMap(([route, kept]) => ("does" in kept ? [[route, kept] as const] : [])))(
    "the audit has one row for %s: actor, token and scope, subject, reason, and the change",
    async (_route, { verb, does }) => {
      const caller = await callerWith(["enqueue", "read", "operate", "tokens"]);
      const answer = await does(caller);
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
      const rows = (await auditOf(caller)).filter((row) => row.verb === verb);
      const [, id] = caller.token.split("_");
      const scope = verb === "mint" || verb === "revoke" ? "tokens" : "operate";
      expect(rows).toMatchObject([{ actor: "ada", token_id: id, scope, verb, result: "applied" }]);
      // A new item has no earlier state and a deleted item no later state. An instance or a secret is described by its detail.
      const told = [...(rows[0].before ? ["before"] : []), ...(rows[0].after ? ["after"] : [])];
      expect(told).toEqual(TOLD[verb] ?? ["before", "after"]);
    },
  );

  it("an audit row has the earlier and the new value of a status or a setting", async () => {
    const caller = await callerWith();
    const brand = fresh("brand");
    await caller.call("PUT", `/v1/brands/${brand}`, { max_drafts: 3 });
    await caller.call("PUT", `/v1/brands/${brand}`, { max_drafts: 4, reason: "more room" });
    const [changed] = await auditOf(caller, `&target=${brand}`);
    expect(changed).toMatchObject({ before: { max_drafts: 3 }, after: { max_drafts: 4 }, reason: "more room" });
    const letter = await seedLetter(caller.tenantId);
    await caller.post(`/v1/dead-letters/${letter}/skip`, because);
    expect(await auditOf(caller, `&target=${letter}`)).toMatchObject([{ before: { state: "open" }, after: { state: "skipped" } }]);
  });

  it("an audit row names its subject as operators do: an instance, the step of an effect, a dead letter", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { status: "in_doubt", subject: "acme/mint" });
    const effect = await seedEffect(id, { step: "send mail" });
    await caller.post(`/v1/effects/${effect}/confirm`, { ...because, output: null });
    await caller.post(`/v1/instances/${id}/cancel`, because);
    await caller.post(`/v1/dead-letters/${await seedLetter(caller.tenantId)}/skip`, because);
    await caller.call("PUT", `/v1/brands/${fresh("brand")}`, { max_drafts: 3 });
    const about = Object.fromEntries((await auditOf(caller)).map((row) => [row.verb, row.about]));
    expect(about).toEqual({
      confirm: "send mail · research-keyword · acme/mint",
      cancel: "research-keyword · acme/mint",
      skip: "research.requested",
      settings: null,
    });
  });

  it("the audit has one row for a double click that changed an item, and one for the late click", async () => {
    const caller = await callerWith();
    const other = await callerWith(["operate"], caller.tenantId);
    const id = await seedApproval(caller.tenantId);
    const path = `/v1/approvals/${id}/approve`;
    const answers = await Promise.all([caller.post(path, because), caller.post(path, because), other.post(path, because)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409]);
    const rows = await auditOf(caller);
    expect(rows.map(({ result }) => result).sort()).toEqual(["applied", "no_change", "no_change"]);
    expect(new Set(rows.map(({ token_id }) => token_id)).size).toBe(2);
    for (const { result, before, after } of rows) expect([before !== null, after !== null]).toEqual(Array(2).fill(result === "applied"));
  });

  it("the audit is append-only: the database refuses to change, delete or overwrite a row", async () => {
    const caller = await callerWith();
    await caller.call("PUT", `/v1/brands/${fresh("brand")}`, { max_drafts: 3 });
    const [row] = await auditOf(caller);
    const tried = (text: string) => env.DB.prepare(text).bind(row.id).run();
    for (const change of [
      "actor = 'eve'",
      "reason = 'x'",
      "detail = NULL",
      "before = NULL",
      "at = 0",
      "token_id = NULL",
      "result = 'failed'",
    ]) {
      await expect(tried(`UPDATE millrace_actions SET ${change} WHERE id = ?1`), change).rejects.toThrow("The audit is append-only");
    }
    await expect(tried("DELETE FROM millrace_actions WHERE id = ?1")).rejects.toThrow("The audit is append-only");
    await tried(`INSERT OR REPLACE INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at)
      VALUES (?1, '${caller.tenantId}', 'eve', 'skip', 'x', 'r', 'applied', 1)`);
    expect(await auditOf(caller)).toEqual([row]);
  });
});

describe("A refused request", () => {
  it("a request to a changing route with a token that lacks the scope is audited", async () => {
    const reader = await callerWith(["read"]);
    const powerless = await callerWith(["pull"], reader.tenantId);
    const [, id] = powerless.token.split("_");
    for (const route of Object.keys(ROUTES)) {
      const [method = "", path = ""] = route.split(" ");
      const asked = path.replace("{generation}", "1").replaceAll(/\{\w+\}/g, "some");
      expectProblem(await powerless.call(method, asked, method === "DELETE" ? undefined : {}), 403, "forbidden");
    }
    const rows = await auditOf(reader, "&result=refused");
    expect(rows.map(({ detail }) => detail.route).toSorted()).toEqual(Object.keys(ROUTES).toSorted());
    for (const row of rows) {
      expect(row).toMatchObject({ verb: "attempt", token_id: id, scope: null, detail: { code: "forbidden", status: 403, times: 1 } });
    }
  });

  it("a refused request for another tenant's item, or for an impossible change, is audited with its target", async () => {
    const [owner, caller] = [await callerWith(), await callerWith()];
    const instance = await seedInstance(owner.tenantId, failed);
    expectProblem(await caller.post(`/v1/instances/${instance}/retry`, because), 404, "instance_not_found");
    expectProblem(
      await caller.call("PUT", "/v1/schedules/n", { ...timing, command: { type: "nonesuch", payload: {} } }),
      404,
      "unknown_message_type",
    );
    expectProblem(await caller.post(`/v1/dead-letters/${await seedLetter(caller.tenantId)}/skip`, {}), 422, "invalid_payload");
    expect((await auditOf(caller)).toReversed()).toMatchObject([
      { result: "refused", target: `/v1/instances/${instance}/retry`, scope: "operate", detail: { code: "instance_not_found" } },
      { result: "refused", detail: { route: "PUT /v1/schedules/{name}", code: "unknown_message_type" } },
      { result: "refused", detail: { route: "POST /v1/dead-letters/{id}/skip", code: "invalid_payload", status: 422 } },
    ]);
    expect(await auditOf(owner)).toEqual([]);
  });

  it("of many refused requests in a minute only the first, tenth and hundredth are audited; an invalid body is not", async () => {
    const caller = await callerWith();
    for (let times = 0; times < 30; times++) {
      const wave = Array.from({ length: 4 }, () => caller.post(`/v1/dead-letters/${fresh("x")}/skip`, because));
      await Promise.all([...wave, caller.post("/v1/commands", { type: "nonesuch", payload: {} })]);
    }
    const told = (await auditOf(caller)).map(({ detail }) => [detail.route, detail.times] as const);
    expect(new Set(told.map(([route]) => route))).toEqual(new Set(["POST /v1/dead-letters/{id}/skip"]));
    // The minute may have ended between the requests.
    expect(told.length).toBeGreaterThanOrEqual(2);
    expect(told.length).toBeLessThanOrEqual(5);
    expect(Math.max(...told.map(([, times]) => times))).toBeGreaterThanOrEqual(10);
  });
});

describe("A query of the audit", () => {
  it("a query of the audit filters by actor, verb and time, and excludes the items of bulk actions", async () => {
    const caller = await callerWith();
    const grace = fresh("grace");
    const other = await callerWith(["operate", "read"], caller.tenantId, grace);
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => seedLetter(caller.tenantId)));
    await caller.post(`/v1/dead-letters/${one}/skip`, because);
    await other.post(`/v1/dead-letters/${two}/escalate`, because);
    const { body } = await other.post("/v1/bulk-actions", { verb: "skip", ids: [two, three], ...because });
    await until(
      async () => (await caller.get(`/v1/bulk-actions/${body.id}`)).body,
      ({ state }) => state === "complete",
    );
    const told = async (query: string) => (await auditOf(caller, query)).map(({ actor, verb, target }) => `${actor} ${verb} ${target}`);
    const items = [`${grace} skip ${three}`, `${grace} skip ${two}`];
    const own = [`${grace} bulk ${body.id}`, `${grace} escalate ${two}`];
    expect((await told(`&actor=${grace}`)).toSorted()).toEqual([...items, ...own].toSorted());
    expect(await told(`&actor=${grace}&bulk=false`)).toEqual(own);
    expect(await told("&bulk=false")).toEqual([...own, `ada skip ${one}`]);
    expect((await told("&verb=skip")).toSorted()).toEqual([...items, `ada skip ${one}`].toSorted());
    expect(await told("&verb=skip&bulk=false")).toEqual([`ada skip ${one}`]);
    expect(await told(`&verb=skip&bulk=false&target=${two}`)).toEqual([]);
    const [{ at }] = await auditOf(caller, "&verb=bulk");
    const since = encodeURIComponent(at);
    expect(await told(`&bulk=false&since=${since}`)).toEqual([`${grace} bulk ${body.id}`]);
    expect(await told(`&bulk=false&until=${since}`)).toEqual([`${grace} escalate ${two}`, `ada skip ${one}`]);
    const instance = await seedInstance(caller.tenantId, { status: "waiting" });
    const question = await seedApproval(caller.tenantId, { instanceId: instance });
    await caller.post(`/v1/approvals/${question}/approve`, because);
    await caller.post(`/v1/instances/${instance}/pause`, because);
    expect((await told(`&instance=${instance}`)).toSorted()).toEqual([`ada approve ${question}`, `ada pause ${instance}`]);
    expect(await told(`&instance=${instance}&verb=approve`)).toEqual([`ada approve ${question}`]);
    expect(await told(`&instance=${instance}&target=${instance}`)).toEqual([`ada pause ${instance}`]);
    const { issues } = expectProblem(await caller.get("/v1/audit?verb=skipp"), 422, "invalid_payload");
    expect(issues[0]).toMatchObject({ path: "verb" });
  });
});
