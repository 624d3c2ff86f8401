import { env } from "cloudflare:workers";
import { notRetryable } from "millrace";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { labs } from "../../probe/lab.ts";
import { ProbeFollow } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { type Asking, asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { fresh, keeperRound, probeEnv, reaches, rows, until } from "../harness.ts";
import { held } from "../lab.ts";

const HOUR_MS = 3_600_000;

/** A run with this deadline. It lasts until the test releases it. */
async function lasting(caller: Asking, more: object = {}) {
  const state = { go: false };
  const id = await ask(caller, () => held(() => state.go), { must_end_by: "2 hours", ...more });
  return { id, state };
}

/** Moves the deadline of an instance into the past. */
const late = (id: string, byMs = HOUR_MS) =>
  env.DB.prepare("UPDATE millrace_instances SET must_end_by = ?2 WHERE id = ?1")
    .bind(id, Date.now() - byMs)
    .run();

const overdue = async ({ get }: Asking, more = "") =>
  (await get(`/v1/instances?overdue=true${more}`)).body.items.map(({ id }: { id: string }) => id);

it("the deadline of a command is a time or a duration; a repeat keeps the first deadline; a workflow can set a default", async () => {
  const caller = await asking();
  const began = Date.now();
  const { id, state } = await lasting(caller);
  const { body } = await caller.get(`/v1/instances/${id}`);
  expect(Date.parse(body.must_end_by) - began).toBeGreaterThanOrEqual(2 * HOUR_MS);
  expect(Date.parse(body.must_end_by) - began).toBeLessThan(2 * HOUR_MS + 60_000);
  expect(body.overdue).toBe(false);
  state.go = true;
  const timed = await lasting(caller, { must_end_by: "2030-01-01T02:00:00+02:00" });
  expect((await caller.get(`/v1/instances/${timed.id}`)).body.must_end_by).toBe("2030-01-01T00:00:00.000Z");
  timed.state.go = true;

  const follow = async (more: object) => {
    const asked = { type: ProbeFollow.type, payload: { name: fresh(), step: "s" }, ...more };
    return (await caller.get(`/v1/instances/${(await caller.post("/v1/commands", asked)).body.instance_id}`)).body;
  };
  const own = await follow({});
  expect(Date.parse(own.must_end_by) - Date.parse(own.accepted_at)).toBe(2 * HOUR_MS);
  expect((await follow({ must_end_by: "2030-01-01T00:00:00Z" })).must_end_by).toBe("2030-01-01T00:00:00.000Z");
});

const NO_DAYS = ["2027-02-30T00:00:00Z", "2027-02-29T00:00:00+01:00", "2027-04-31T09:30Z"];

it.each(["yesterday", "2 fortnights", "0 hours", "400 days", "2026-10-01", "-1 hour", "1800", ...NO_DAYS])(
  "%s is refused as the deadline of a command",
  async (said) => {
    const caller = await asking();
    const asked = { type: "lab.requested", payload: { name: fresh() }, must_end_by: said };
    expect(await caller.post("/v1/commands", asked)).toMatchObject({ status: 422, body: { issues: [{ path: "must_end_by" }] } });
  },
);

it("a deadline more than one minute in the past is refused, except for a repeat of an accepted command", async () => {
  const caller = await asking();
  const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
  const asked = (name: string, must_end_by: string) =>
    caller.post("/v1/commands", { type: "lab.requested", payload: { name }, must_end_by });
  const name = fresh("lab");
  const message = expect.stringContaining("is in the past: use a future time");
  for (const over of ["2001-01-01T00:00:00Z", ago(90_000)]) {
    expect(await asked(name, over)).toMatchObject({
      status: 422,
      body: { code: "invalid_payload", issues: [{ path: "must_end_by", message }] },
    });
  }
  expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  labs.set(name, async () => 1);
  const { body } = await asked(name, ago(20_000));
  expect(body).toMatchObject({ replayed: false });
  expect(await asked(name, ago(90_000))).toMatchObject({ status: 202, body: { instance_id: body.instance_id, replayed: true } });
  expect(await reaches(body.instance_id, "complete")).toBe("complete");
  const commands = [{ payload: { name: fresh() } }, { payload: { name: fresh() }, must_end_by: ago(HOUR_MS) }];
  const { results } = (await caller.post("/v1/commands/batch", { commands: commands.map((one) => ({ type: "lab.requested", ...one })) }))
    .body;
  expect(results.map(({ status }: { status: number }) => status)).toEqual([202, 422]);
});

it("an unfinished instance past its deadline is listed as overdue, and continues", async () => {
  const caller = await asking();
  const runs = [await lasting(caller), await lasting(caller), await lasting(caller, { correlation_id: "other" })];
  const [first, second, third] = runs.map(({ id }) => id);
  expect(await overdue(caller)).toEqual([]);
  await late(String(first), 30 * 24 * HOUR_MS);
  await late(String(second));
  expect(await overdue(caller)).toEqual([second, first]);
  const { items, next_cursor } = (await caller.get("/v1/instances?overdue=true&limit=1")).body;
  expect(items).toMatchObject([{ id: second, overdue: true, must_end_by: expect.any(String) }]);
  expect(await overdue(caller, `&limit=1&cursor=${next_cursor}`)).toEqual([first]);
  await late(String(third));
  expect(await overdue(caller, "&correlation=other")).toEqual([third]);
  expect(await overdue(caller, "&workflow=send-callback")).toEqual([]);
  expect(await overdue(await asking())).toEqual([]);
  await keeperRound();
  expect((await caller.get(`/v1/instances/${first}`)).body).toMatchObject({ overdue: true, error: null });
  for (const { id, state } of runs) {
    state.go = true;
    await reaches(id, "complete");
  }
  expect(await overdue(caller)).toEqual([]);
  expect((await caller.get(`/v1/instances/${first}`)).body.overdue).toBe(false);
});

it("an errored instance is not overdue until it is retried", async () => {
  const caller = await asking();
  const state = { broken: true, go: false };
  const code = async () => {
    if (state.broken) throw notRetryable("Broken.");
    await held(() => state.go);
  };
  const id = await ask(caller, async ({ step }) => step.read("look", code), { must_end_by: "2 hours" });
  await reaches(id, "errored");
  await late(id);
  expect(await overdue(caller)).toEqual([]);
  expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "errored", overdue: false });
  state.broken = false;
  await until(
    () => caller.post(`/v1/instances/${id}/retry`, { reason: "mended" }),
    ({ status }) => status === 202,
  );
  expect(await overdue(caller)).toEqual([id]);
  state.go = true;
  await reaches(id, "complete");
});

it("an instance during its undo is not overdue", async () => {
  const caller = await asking();
  let go = false;
  const undo = () => ({});
  const id = await ask(
    caller,
    async ({ step }) => {
      await step.commit("put", () => ({}), { undo });
      await step.read("once", () => held(() => go));
    },
    { must_end_by: "2 hours" },
  );
  go = true;
  await reaches(id, "complete");
  await late(id);
  go = false;
  await until(
    () => caller.post(`/v1/instances/${id}/undo`, { reason: "called off" }),
    ({ status }) => status === 202,
  );
  expect(await overdue(caller)).toEqual([]);
  go = true;
  expect(await reaches(id, "terminated")).toBe("terminated");
});

it("the keeper counts the overdue instances of each workflow of all tenants, and raises an alert", async () => {
  const callers = [await asking(), await asking()];
  const runs = await Promise.all(callers.map((caller) => lasting(caller)));
  const counted = async () => {
    await keeperOf(probeEnv).readVitals();
    const { samples } = await keeperOf(probeEnv).vitals();
    return samples.filter(({ name }) => name === "instances_overdue");
  };
  const before = (await counted()).find(({ labels }) => labels.workflow === "lab")?.value ?? 0;
  for (const { id } of runs) await late(id);
  const gauges = await counted();
  expect(gauges.find(({ labels }) => labels.workflow === "lab")?.value).toBe(before + 2);
  // A firing alert keeps its first examples.
  await env.DB.prepare("DELETE FROM millrace_alerts WHERE rule = 'instances_overdue'").run();
  await raiseAlerts(probeEnv, { rules: ALERT_RULES.filter(({ name }) => name === "instances_overdue"), catalog: app, gauges });
  expect(await rows("SELECT labels, state, severity FROM millrace_alerts WHERE rule = 'instances_overdue' AND state = 'firing'")).toEqual([
    { labels: '{"workflow":"lab"}', state: "firing", severity: "warning" },
  ]);
  const [alert] = await rows<{ examples: string }>(
    "SELECT examples FROM millrace_alerts WHERE rule = 'instances_overdue' AND state = 'firing'",
  );
  expect(JSON.parse(alert?.examples ?? "")).toHaveLength(Math.min(3, before + 2));
  for (const { id, state } of runs) {
    state.go = true;
    await reaches(id, "complete");
  }
  expect((await counted()).find(({ labels }) => labels.workflow === "lab")?.value ?? 0).toBe(before);
});
