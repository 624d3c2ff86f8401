import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { instances, type Scope, tokens } from "millrace/operate";
import { expect, it } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import type { Sample } from "../../../packages/millrace/src/observe/metrics/series.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, until } from "../harness.ts";
import { calmly, receiver, run, vars } from "./raising.ts";

calmly();

const api = engineRoutes(app);

/** A caller of a tenant, with a token that has these scopes. */
async function asking(scopes: readonly Scope[], tenantId = fresh("tenant")) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  return async (path: string, body?: object) => {
    const init = body && { method: "POST", body: JSON.stringify(body) };
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await api.fetch(new Request(`http://localhost${path}`, { headers, ...init }), probeEnv, createExecutionContext());
    // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
    return { status: response.status, body: (await response.json()) as any };
  };
}

const gauges: Sample[] = [
  { name: "effects_in_doubt", labels: {}, value: 2 },
  { name: "lanes_blocked", labels: { lane: "a", state: "held" }, value: 1 },
  { name: "lanes_blocked", labels: { lane: "b", state: "held" }, value: 1 },
];
const raise = () => raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges });
const inAMinute = () => new Date(Date.now() + 60_000).toISOString();

it("alerts are listed page by page, by state and by rule, for tokens with the scope `observe`", async () => {
  await raise();
  const ask = await asking(["observe"]);
  const first = await ask("/v1/alerts?limit=2");
  expect(first).toMatchObject({ status: 200, body: { items: [{}, {}], next_cursor: expect.any(String) } });
  const second = await ask(`/v1/alerts?limit=2&cursor=${first.body.next_cursor}`);
  expect(second.body).toMatchObject({ items: [{}], next_cursor: null });
  expect(new Set([...first.body.items, ...second.body.items].map(({ id }) => id)).size).toBe(3);
  expect((await ask("/v1/alerts?state=firing")).body.items).toMatchObject([
    {
      rule: "effects_in_doubt",
      severity: "warning",
      value: 2,
      count: null,
      labels: {},
      notice_at: expect.any(String),
      notified_at: null,
      delivery: null,
      muted: null,
    },
  ]);
  const lanes = (await ask("/v1/alerts?rule=lanes_blocked")).body.items;
  expect(lanes.map(({ state, labels }: { state: string; labels: object }) => [state, labels])).toEqual(
    expect.arrayContaining([
      ["pending", { lane: "a" }],
      ["pending", { lane: "b" }],
    ]),
  );
  expect(await ask("/v1/alerts?state=open")).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
  expect(await (await asking(["read", "operate"]))("/v1/alerts")).toMatchObject({ status: 403, body: { code: "forbidden" } });
});

it("an alert shows every tenant the last refusal of a channel until all channels have accepted the notification", async () => {
  const { requests } = await receiver({ treatments: [{ status: 410, times: 1 }] });
  await raise();
  await requests(1);
  const ask = await asking(["observe"]);
  const firing = async () => (await ask("/v1/alerts?state=firing")).body.items[0];
  const failed = await until(firing, ({ delivery }) => delivery?.status === "errored");
  expect(failed).toMatchObject({ notice_at: expect.any(String), notified_at: null, delivery: { attempts: 1 } });
  expect(failed.delivery.last_error).toContain("webhook answered 410");
  const retried = () =>
    instances.act(probeEnv, { tenantId: "millrace", actor: "tess" }, "retry", failed.delivery.instance_id, { reason: "mended" });
  await until(() => retried().catch(() => undefined), Boolean);
  const told = await until(firing, ({ notified_at }) => notified_at !== null);
  expect(told.delivery).toMatchObject({ instance_id: failed.delivery.instance_id, status: "complete", last_error: null });
  expect(Date.parse(told.notified_at)).toBeGreaterThanOrEqual(Date.parse(told.notice_at));
});

it("an alert shows that its notification to an unreachable channel is being retried", async () => {
  const { hook } = await receiver();
  vars.ALERTS_WEBHOOK_URL = `http://127.0.0.1:1/hook/${hook}`;
  await raise();
  const ask = await asking(["observe"]);
  const tried = await until(
    async () => (await ask("/v1/alerts?state=firing")).body.items[0],
    ({ delivery }) => delivery?.attempts > 1,
  );
  expect(tried).toMatchObject({ notified_at: null, delivery: { last_error: expect.stringContaining("webhook cannot be reached") } });
});

it("a corrupt alert row is listed without its unreadable fields, and all other alerts are listed", async () => {
  await raise();
  await run("UPDATE millrace_alerts SET examples = 'no JSON', labels = '[' WHERE rule = 'effects_in_doubt'");
  const { status, body } = await (await asking(["observe"]))("/v1/alerts");
  expect([status, body.items.length]).toEqual([200, 3]);
  expect(body.items).toContainEqual(expect.objectContaining({ rule: "effects_in_doubt", labels: {}, examples: [] }));
});

it("a mute needs the scopes observe and operate, a reason and an end within 30 days, and is in the tenant's audit", async () => {
  await raise();
  const ask = await asking(["observe", "operate", "read"]);
  const { id } = (await ask("/v1/alerts?state=firing")).body.items[0];
  for (const scopes of [["observe"], ["operate"]]) {
    expect((await (await asking(scopes))(`/v1/alerts/${id}/mute`, { reason: "r", until: inAMinute() })).status).toBe(403);
  }
  const path = `/v1/alerts/${id}/mute`;
  for (const wrong of [
    { until: inAMinute() },
    { reason: "r" },
    { reason: "r", until: "2020-01-01T00:00:00.000Z" },
    { reason: "r", until: new Date(Date.now() + 31 * 86_400_000).toISOString() },
  ]) {
    expect(await ask(path, wrong)).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
  }
  const muted = { reason: "We know.", until: inAMinute() };
  const done = await ask(path, muted);
  expect(done).toMatchObject({ status: 200, body: { changed: true } });
  expect(await ask(path, muted)).toMatchObject({ status: 200, body: { changed: false } });
  expect((await ask("/v1/alerts?state=firing")).body.items).toMatchObject([{ id, muted: { until: muted.until, reason: "We know." } }]);
  expect(await ask(`/v1/alerts/${id}/unmute`, { reason: "Over." })).toMatchObject({ status: 200, body: { changed: true } });
  expect((await ask("/v1/alerts?state=firing")).body.items).toMatchObject([{ id, muted: null }]);
  expect((await ask("/v1/audit?result=applied")).body.items.slice(-1)).toMatchObject([
    { id: done.body.action_id, verb: "mute", target: id, reason: "We know.", detail: { until: muted.until }, result: "applied" },
  ]);
  expect((await (await asking(["read"]))("/v1/audit")).body.items).toEqual([]);
  expect(await ask(`/v1/alerts/${"0".repeat(32)}/mute`, { reason: "r", until: inAMinute() })).toMatchObject({
    status: 404,
    body: { code: "alert_not_found" },
  });
});
