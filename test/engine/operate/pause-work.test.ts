import { MillraceError, notRetryable } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { listAlerts } from "../../../packages/millrace/src/inspect/alerts.ts";
import { listWorkflows } from "../../../packages/millrace/src/inspect/workflows.ts";
import { acceptCommand, acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { tripBreakers } from "../../../packages/millrace/src/keeper/breakers.ts";
import { actOnWork, planWork, type Work } from "../../../packages/millrace/src/operate/pause-work.ts";
import { blocked, parked, turnCode } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { rowsRead } from "../../rows-read.ts";
import { deliver, dieAt, envelopeOf, fresh, keeperRound, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { runLab } from "../lab.ts";

/** An operator of a tenant that no other test has. */
const someone = (...scopes: string[]) => ({ tenantId: fresh("tenant"), actor: "tess", scopes: ["operate", ...scopes] as never });

type Someone = ReturnType<typeof someone>;

const work = (kind: Work["kind"], name: string, allTenants = false): Work => ({ kind, name, allTenants });
const LAB = work("workflow", "lab");
const pause = (by: Someone, of = LAB) => actOnWork(probeEnv, app, by, "pause", of, { reason: "the shop is closed" });
const resume = (by: Someone, of = LAB) => actOnWork(probeEnv, app, by, "resume", of, { reason: "open again" });

/** Accepts a run that adds its name to `log`. */
const logged = ({ tenantId }: Pick<Someone, "tenantId">, log: string[], name = fresh("lab")) =>
  runLab(async () => void log.push(name), { name, tenantId });

async function nothingStarts(ids: readonly string[], log: readonly string[]): Promise<void> {
  for (let round = 0; round < 3; round++) await keeperRound();
  expect(await Promise.all(ids.map(statusOf))).toEqual(ids.map(() => "accepted"));
  expect(log).toEqual([]);
}

const comes = async (is: () => boolean) => expect(await until(async () => is(), Boolean)).toBe(true);

it.each([LAB, work("queue", "probe-commands")])(
  "a paused $kind accepts a tenant's commands and starts none; after the resume each starts once, in the order of acceptance",
  async (of) => {
    const by = someone();
    await pause(by, of);
    const log: string[] = [];
    const first = await logged(by, log);
    dieAt("A03 accept committed, not enqueued");
    const second = fresh("lab");
    await expect(logged(by, log, second)).rejects.toThrow();
    const [killed] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", second);
    const third = await logged(by, log);
    const ids = [first.instanceId, killed?.id ?? "", third.instanceId];
    // Deliveries of the same messages again, as after a consumer that died before it acknowledged them.
    await deliver("probe-commands", await Promise.all(ids.map(envelopeOf)));
    await nothingStarts(ids, log);
    expect(await rows("SELECT 1 FROM millrace_dead_letters WHERE tenant_id = ?1", by.tenantId)).toEqual([]);
    expect(await instances.get(probeEnv, by, third.instanceId)).toMatchObject({
      status: "accepted",
      held: "Paused by tess: the shop is closed",
    });
    expect(await planWork(probeEnv, app, by, "resume", of)).toMatchObject({ refused: null, running: 0, waiting: 3 });

    const other: string[] = [];
    await reaches((await logged(someone(), other)).instanceId, "complete");
    expect(other).toHaveLength(1);

    await resume(by, of);
    await deliver("probe-commands", [await envelopeOf(third.instanceId)]);
    await keeperRound();
    for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
    await keeperRound();
    expect(log.toSorted()).toEqual([first.name, second, third.name].toSorted());
    expect((await instances.get(probeEnv, by, third.instanceId)).held).toBeNull();
    expect(await rows("SELECT id FROM millrace_instances WHERE held_by IS NOT NULL AND tenant_id = ?1", by.tenantId)).toEqual([]);
    expect(
      await rows(
        "SELECT verb, target, result, before->>'state' AS before, after->>'state' AS after FROM millrace_actions WHERE tenant_id = ?1 ORDER BY at",
        by.tenantId,
      ),
    ).toEqual([
      { verb: "pause", target: `${of.kind}/${of.name}`, result: "applied", before: "active", after: "paused" },
      { verb: "resume", target: `${of.kind}/${of.name}`, result: "applied", before: "paused", after: "active" },
    ]);
  },
);

it("an instance that its paused workflow holds is not paused or restarted, because its resume would start it", async () => {
  const by = someone();
  await pause(by);
  const log: string[] = [];
  const { instanceId: id } = await logged(by, log);
  for (const [verb, why] of [
    ["pause", "The workflow or queue of the instance is paused, so the instance does not start until its resume."],
    ["restart", "The instance has not started, so it cannot be restarted. Its queue, lane or workflow starts it."],
  ] as const) {
    expect((await instances.plan(probeEnv, by, verb, id, {})).refused).toBe(why);
    const acted = instances.act(probeEnv, by, verb, id, { reason: "this one too" });
    await expect(acted).rejects.toMatchObject({ code: "invalid_transition", message: why });
  }
  await nothingStarts([id], log);
  await resume(by);
  expect(await reaches(id, "complete")).toBe("complete");
});

it("the keeper holds the instances of a paused workflow, and releases them in the order of their acceptance", async () => {
  const by = someone();
  await pause(by);
  const ids: string[] = [];
  for (let count = 0; count < 3; count++) ids.push((await logged(by, [])).instanceId);
  const held = "SELECT id FROM millrace_instances WHERE held_by = ?1 ORDER BY accepted_at, rowid";
  // The keeper leaves a command to its queue while the queue's backlog may contain its message.
  const found = await until(
    async () => {
      await keeperRound();
      return rows<{ id: string }>(held, `workflow/lab/${by.tenantId}`);
    },
    ({ length }) => length === 3,
  );
  expect(found.map(({ id }) => id)).toEqual(ids);
  // Paused again before the keeper has released any: they stay held.
  await resume(by);
  await pause(by);
  await nothingStarts(ids, []);
  await resume(by);
  await keeperRound();
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
});

it("a pause refuses an unknown name, a queue of events and a second pause; for all tenants it requires the scope observe", async () => {
  const by = someone();
  await expect(pause(by, work("workflow", "labb"))).rejects.toThrow("perhaps `lab` is meant");
  await expect(pause(by, work("queue", "probe-events"))).rejects.toThrow("pause the workflows that its events start");
  await expect(pause(by, work("workflow", "tell-shared", true))).rejects.toMatchObject({ code: "forbidden" });
  await expect(resume(by)).rejects.toMatchObject({ code: "invalid_transition" });
  await pause(by);
  await expect(pause(by)).rejects.toMatchObject({ code: "invalid_transition", detail: { audited: true } });
  expect(await planWork(probeEnv, app, by, "pause", LAB)).toMatchObject({ refused: expect.stringContaining("paused already") });
});

it("a pause of the running instances is refused as a whole if its bulk action is refused, and its dry run says that it pauses them", async () => {
  const by = someone();
  const { instanceId } = await runLab(({ step }) => step.sleep("long", "1 hour"), { tenantId: by.tenantId });
  await until(
    () => statusOf(instanceId),
    (status) => status === "running",
  );
  await probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = ?2 WHERE id = ?1")
    .bind(instanceId, Date.now() + 3_600_000)
    .run();
  expect((await planWork(probeEnv, app, by, "pause", LAB)).consequence).toContain("Running instances continue.");
  expect((await planWork(probeEnv, app, by, "pause", LAB, true)).consequence).toContain("A bulk action pauses the running instances.");
  const running = { reason: "the shop is closed", pausesRunning: true };
  const withoutBulk = { ...app, kindsOf: () => [] };
  await expect(actOnWork(probeEnv, withoutBulk, by, "pause", LAB, running)).rejects.toMatchObject({ code: "config_invalid" });
  expect(await rows("SELECT 1 FROM millrace_pauses WHERE tenant_id = ?1", by.tenantId)).toEqual([]);
  expect(await actOnWork(probeEnv, app, by, "pause", LAB, running)).toMatchObject({ bulk_action_id: expect.any(String) });
});

it("a pause for all tenants holds each tenant's instances, and a tenant cannot end it", async () => {
  const [deployer, tenant] = [someone("observe"), someone()];
  const shared = work("workflow", "tell-shared", true);
  await pause(deployer, shared);
  const [answer] = await acceptCommands(probeEnv, app, { tenantId: tenant.tenantId, source: "test" }, [
    { type: "shared.asked", payload: { name: fresh("shared") } },
  ]);
  if (answer === undefined || answer instanceof MillraceError) throw answer;
  await nothingStarts([answer.instanceId], []);
  await expect(resume(tenant, work("workflow", "tell-shared"))).rejects.toMatchObject({ code: "invalid_transition" });
  const states = await listWorkflows(probeEnv, app, tenant);
  expect(states.find(({ name }) => name === "tell-shared")).toMatchObject({
    paused: { all_tenants: true, by: "tess", reason: "the shop is closed" },
    counts: { accepted: 1 },
  });
  await resume(deployer, shared);
  await keeperRound();
  expect(await reaches(answer.instanceId, "complete")).toBe("complete");
});

it("a lane whose workflow is paused keeps its messages in order, and continues after the resume", async () => {
  const by = someone();
  const of = work("workflow", "turn-blocked");
  await pause(by, of);
  const log: string[] = [];
  const names = Array.from({ length: 3 }, () => fresh("turn"));
  const key = fresh("key");
  for (const name of names) turnCode.set(name, async () => void log.push(name));
  const answers = await acceptCommands(
    probeEnv,
    app,
    { tenantId: by.tenantId, source: "test" },
    names.map((name) => ({ type: blocked.command.type, payload: { key, name } })),
  );
  const ids = answers.map((answer) => (answer instanceof MillraceError ? "" : answer.instanceId));
  await nothingStarts(ids, log);
  await resume(by, of);
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(log).toEqual(names);
});

it("a breaker pauses a tenant's workflow after failures of one cause, raises an alert, and counts from zero after the resume", async () => {
  const by = someone("observe");
  // No other test fails runs of this workflow within the breaker's time, so the breaker pauses the workflow for no other tenant.
  const { workflow, command } = parked;
  const of = work("workflow", workflow.name);
  // A pause that remained after a failure of this test would raise an alert in other tests.
  onTestFinished(() => void rows("DELETE FROM millrace_pauses WHERE tenant_id = ?1 RETURNING id", by.tenantId));
  const withBreaker = [{ ...workflow, breaker: { failures: 3, within: "5 minutes" as const } }];
  const runs = async (code: Parameters<typeof turnCode.set>[1]) => {
    const name = fresh("turn");
    turnCode.set(name, code);
    const asked = { type: command.type, payload: { key: name, name } };
    return (await acceptCommand(probeEnv, app, { tenantId: by.tenantId, source: "test" }, asked)).instanceId;
  };
  const fails = async (said: string) => {
    const id = await runs(async ({ step }) => {
      await step.commit("charge", () => {
        throw notRetryable(said);
      });
    });
    expect(await reaches(id, "errored")).toBe("errored");
    return id;
  };
  const pausesOf = () =>
    rows<{ actor: string; reason: string; cause: string }>(
      "SELECT actor, reason, cause FROM millrace_pauses WHERE tenant_id = ?1 AND resumed_at IS NULL",
      by.tenantId,
    );
  const failed = [await fails("The account is closed."), await fails("The account is closed.")];
  await fails("Another cause.");
  await tripBreakers(probeEnv, withBreaker);
  expect(await pausesOf()).toEqual([]);
  failed.push(await fails("The account is closed."));
  await tripBreakers(probeEnv, withBreaker);
  const [tripped] = await pausesOf();
  expect(tripped).toMatchObject({
    actor: "millrace",
    reason: expect.stringMatching(/3 failures within 5 minutes.*not_retryable at the step "charge"/),
  });

  const log: string[] = [];
  const waiting = await runs(async () => void log.push("resumed"));
  await nothingStarts([waiting], log);
  await tripBreakers(probeEnv, withBreaker);
  expect(await rows("SELECT result FROM millrace_actions WHERE tenant_id = ?1 AND verb = 'pause'", by.tenantId)).toEqual([
    { result: "applied" },
  ]);

  await raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges: [] });
  const { items } = await listAlerts(probeEnv, { rule: "breaker_tripped", state: "firing", limit: 10 });
  expect(items).toMatchObject([{ labels: { workflow: workflow.name }, severity: "critical" }]);
  expect(failed).toContain(items[0]?.examples[0]);

  await resume(by, of);
  await tripBreakers(probeEnv, withBreaker);
  expect(await pausesOf()).toEqual([]);
  await keeperRound();
  await comes(() => log.length === 1);
});

it("a breaker reads the failures of its own workflow only, within its time", async () => {
  const { tenantId } = someone("observe");
  const own = [{ ...parked.workflow, name: fresh("broken"), breaker: { failures: 3, within: "5 minutes" as const } }];
  const failed = (workflow: string, age: string, count: number) =>
    rows(
      `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
         fingerprint, envelope, status, cause, accepted_at, updated_at)
       SELECT lower(hex(randomblob(16))), ?2, ?1, 'a', 'k' || value, 'c', 'c', 's', 'f', '{}', 'errored', 'one', 1,
         CAST(unixepoch('subsec', ?3) * 1000 AS INTEGER)
       FROM json_each(?4) WHERE true RETURNING id`,
      workflow,
      tenantId,
      age,
      JSON.stringify(Array.from({ length: count }, (_, n) => n)),
    );
  onTestFinished(() => void rows("DELETE FROM millrace_instances WHERE tenant_id = ?1 RETURNING 1", tenantId));
  await failed(fresh("other"), "-1 minutes", 300);
  await failed(own[0]?.name ?? "", "-10 minutes", 300);
  await failed(own[0]?.name ?? "", "-1 minutes", 2);
  const { read, answer } = await rowsRead(() => tripBreakers(probeEnv, own));
  expect([answer, read < 20]).toEqual([0, true]);
});

it("a breaker counts only failures after a resume of its workflow for all tenants", async () => {
  const { tenantId } = someone("observe");
  const name = fresh("broken");
  const own = [{ ...parked.workflow, name, breaker: { failures: 3, within: "5 minutes" as const } }];
  const ago = (minutes: number) => Date.now() - minutes * 60_000;
  const ids = [1, 2, 3].map(() => crypto.randomUUID().replaceAll("-", ""));
  for (const id of ids)
    await rows(
      `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
         fingerprint, envelope, status, cause, accepted_at, updated_at)
       VALUES (?1, ?2, ?3, 'a', ?1, 'c', 'c', 's', 'f', '{}', 'errored', 'one', 1, ?4) RETURNING id`,
      ...[id, tenantId, name, ago(3)],
    );
  onTestFinished(async () => {
    await rows("DELETE FROM millrace_instances WHERE tenant_id = ?1 RETURNING 1", tenantId);
    await rows("DELETE FROM millrace_pauses WHERE id GLOB ?1 RETURNING 1", `workflow/${name}/*`);
  });
  await rows(
    "INSERT INTO millrace_pauses (id, tenant_id, actor, reason, since, resumed_at) VALUES (?1, '', 'tess', 'an outage', ?2, ?3) RETURNING id",
    ...[`workflow/${name}/`, ago(2), ago(1)],
  );
  expect(await tripBreakers(probeEnv, own)).toBe(0);
  await rows("UPDATE millrace_instances SET updated_at = ?2 WHERE tenant_id = ?1 RETURNING id", tenantId, ago(0.5));
  expect(await tripBreakers(probeEnv, own)).toBe(1);
});
