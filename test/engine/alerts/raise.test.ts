import { defineConsumer, defineWorkflow, on, start } from "millrace";
import { actions } from "millrace/operate";
import { AlertChanged, catalog, keeperOf } from "millrace/worker";
import { expect, it, onTestFinished, vi } from "vitest";
import { noticeOf } from "../../../packages/millrace/src/alerts/notice.ts";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES, INSTANCES_ERRORED } from "../../../packages/millrace/src/alerts/rules.ts";
import { mute } from "../../../packages/millrace/src/operate/mute-alert.ts";
import { app } from "../../probe/worker.ts";
import { deliver, dieAt, fresh, keeperRound, operator, probeEnv, retentionPass, rows } from "../harness.ts";
import { rowOf } from "../keeper/aged.ts";
import { alerts, calmly, pass, receiver, round, run, saidIn, vars } from "./raising.ts";

calmly();

/** One poll with this number of effects in doubt. */
const look = (value: number) =>
  raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges: value > 0 ? [{ name: "effects_in_doubt", labels: {}, value }] : [] });
const messages = () => rows("SELECT id FROM millrace_outbox WHERE queue = 'alerts'");

it("an alert without a configured channel is listed and logged, and no message is sent", async () => {
  const warned = vi.spyOn(console, "warn");
  await look(3);
  expect(await alerts()).toMatchObject([{ rule: "effects_in_doubt", labels: "{}", state: "firing", severity: "warning" }]);
  expect(await messages()).toEqual([]);
  const lines = warned.mock.calls.map(([line]) => JSON.parse(String(line))).filter(({ log }) => log === "alert");
  expect(lines).toMatchObject([{ change: "firing", rule: "effects_in_doubt", value: 3, count: null }]);
});

it("a keeper round raises alerts from the gauges of that round", async () => {
  const warned = vi.spyOn(console, "warn");
  await deliver("probe-events", [{ poison: fresh("poison") }]);
  await keeperOf(probeEnv).round();
  expect(await alerts("labels LIKE '%probe-events%' AND rule IN ('dead_letter_arrived', 'dlq_depth')")).toMatchObject([
    { rule: "dead_letter_arrived", state: "firing", count: 1 },
    { rule: "dlq_depth", state: "pending", count: null },
  ]);
  expect(warned.mock.calls.join("\n")).toContain('"rule":"dead_letter_arrived"');
});

it("an alert of a process that dies before it sends the notification is sent once by the next keeper round", async () => {
  const { requests } = await receiver();
  const death = dieAt("alert raised, not sent");
  await expect(look(3)).rejects.toThrow("Died at");
  expect(death.died()).toBe(true);
  expect(await messages()).toHaveLength(1);
  const [own] = await alerts("rule = 'effects_in_doubt'");
  const ofDoubts = async () => (await requests()).map(saidIn).flatMap(({ type, data }) => (data.alert_id === own?.id ? [type] : []));
  await keeperRound();
  await expect.poll(ofDoubts, { timeout: 20_000 }).toEqual(["alert.firing"]);
  await look(3);
  await keeperRound();
  expect(await ofDoubts()).toEqual(["alert.firing"]);
});

it("two concurrent keeper rounds raise an alert once", async () => {
  const { requests } = await receiver();
  for (let turn = 1; turn <= 5; turn++) {
    const all = await Promise.all([look(3), look(3), look(3)]);
    expect(all.reduce((sum, { did }) => sum + did, 0)).toBe(1);
    expect(await alerts("state = 'firing'")).toHaveLength(1);
    await pass(60_000);
    await look(0);
    await pass(120_000);
    const ended = await Promise.all([look(0), look(0)]);
    expect(ended.reduce((sum, { did }) => sum + did, 0)).toBe(1);
  }
  expect(await alerts("state = 'resolved'")).toHaveLength(5);
  const seen = await requests(10);
  expect([seen.length, new Set(seen.map(({ id }) => id)).size]).toEqual([10, 10]);
});

it("a muted alert is recorded, and sent after the unmute; the mute and the unmute are in the audit", async () => {
  const { requests } = await receiver();
  await look(3);
  await requests(1);
  const [alert] = await alerts();
  const id = alert?.id ?? "";
  const muted = await mute(probeEnv, operator, id, Date.now() + 3_600_000, "We know.");
  expect(muted.changed).toBe(true);
  await pass(5 * 3_600_000);
  await run("UPDATE millrace_alerts SET quiet_since = NULL");
  await look(4);
  expect((await requests()).length).toBe(1);
  expect(await alerts()).toMatchObject([{ state: "firing", muted_until: expect.any(Number) }]);
  await mute(probeEnv, operator, id, null, "No team works on it yet.");
  await look(4);
  expect(saidIn((await requests(2))[1] as never)).toMatchObject({ type: "alert.repeated" });
  const { items } = await actions.list(probeEnv, operator, {});
  expect(items.filter(({ target }) => target === id).map(({ verb, reason, result }) => [verb, reason, result])).toEqual([
    ["unmute", "No team works on it yet.", "applied"],
    ["mute", "We know.", "applied"],
  ]);
});

it("after an unmute the open alert and the next one are sent, although an older mute was longer", async () => {
  const { requests } = await receiver();
  const over = async () => {
    await pass(60_000);
    await look(0);
    await pass(120_000);
    await look(0);
  };
  const newest = async () => (await alerts("state = 'firing'"))[0]?.id ?? "";
  // Waits for each notification before the next, because each has its own run.
  await look(3);
  await requests(1);
  const first = await newest();
  await over();
  await requests(2);
  await mute(probeEnv, operator, first, Date.now() + 86_400_000, "Planned work.");
  await look(3);
  expect(await alerts("state = 'firing'")).toMatchObject([{ muted_until: expect.any(Number) }]);
  expect((await mute(probeEnv, operator, await newest(), null, "It is done.")).changed).toBe(true);
  await look(3);
  await requests(3);
  await over();
  await requests(4);
  await look(3);
  expect(await alerts("state = 'firing' OR muted_until IS NOT NULL")).toMatchObject([{ state: "firing", muted_until: null }]);
  const said = (await requests(5)).map((one) => saidIn(one).type.replace("alert.", ""));
  expect(said).toEqual(["firing", "resolved", "firing", "resolved", "firing"]);

  // The later of two mutes applies. An open alert keeps its own mute.
  const last = await newest();
  await mute(probeEnv, operator, first, Date.now() + 86_400_000, "For a day.");
  await mute(probeEnv, operator, last, Date.now() + 3_600_000, "For an hour.");
  expect((await alerts("muted_until IS NOT NULL")).map(({ id }) => id)).toEqual([last]);
  await mute(probeEnv, operator, first, Date.now() + 86_400_000, "For a day.");
  expect((await alerts("muted_until IS NOT NULL")).map(({ id }) => id).toSorted()).toEqual([first, last].toSorted());
});

it("a keeper round writes and sends no alert that an operator has muted during the round", async () => {
  const { requests } = await receiver();
  const [batch, prepare] = [probeEnv.DB.batch.bind(probeEnv.DB), probeEnv.DB.prepare.bind(probeEnv.DB)];
  await look(0);
  await look(3);
  await requests(1);
  await pass(5 * 3_600_000);
  let writes = 0;
  vi.spyOn(probeEnv.DB, "batch").mockImplementation(async (statements) => {
    if (statements.length > 1 && writes++ === 0) await prepare("UPDATE millrace_alerts SET version = version + 1").run();
    return batch(statements) as never;
  });
  expect(await look(3)).toEqual({ did: 0, more: false });
  vi.restoreAllMocks();
  expect((await requests()).length).toBe(1);
  expect((await look(3)).did).toBe(1);
});

it("an alert about failed notifications is logged and not sent, so that no alert causes another alert", async () => {
  const warned = vi.spyOn(console, "warn");
  const { requests } = await receiver();
  const id = await rowOf("errored", 0);
  const error = JSON.stringify({ step: "post", code: "not_retryable", message: "gone", attempts: 1 });
  await run("UPDATE millrace_instances SET workflow = 'send-alert', error = ?2 WHERE id = ?1", id, error);
  await round();
  expect(await alerts()).toMatchObject([{ rule: "instances_errored", state: "firing", examples: JSON.stringify([id]) }]);
  expect([await messages(), await requests()]).toEqual([[], []]);
  expect(warned.mock.calls.join("\n")).toContain('"workflow":"send-alert"');
});

it("an alert about a custom workflow that is started by alerts is not sent", async () => {
  const { requests } = await receiver();
  const pageSomebody = defineWorkflow({ name: "page-somebody", on: AlertChanged, run: async () => undefined });
  const own = catalog({ consumers: [defineConsumer({ queue: AlertChanged.queue, routes: [on(AlertChanged, start(pageSomebody))] })] });
  const failing = (workflow: string) => ({ name: INSTANCES_ERRORED, labels: { workflow, code: "not_retryable" }, value: 1, fresh: 1 });
  await raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: own, gauges: [failing("page-somebody"), failing("probe")] });
  expect(await alerts()).toHaveLength(2);
  expect((await requests(1)).map((one) => saidIn(one).data.labels)).toEqual([{ workflow: "probe", code: "not_retryable" }]);
});

it("an alert with a half-configured channel is sent to the other channels, and the log names the missing variable", async () => {
  const { requests } = await receiver();
  const failed = vi.spyOn(console, "error");
  vars.ALERTS_TELEGRAM_TOKEN = "1:a";
  await look(3).finally(() => delete vars.ALERTS_TELEGRAM_TOKEN);
  expect(await alerts()).toMatchObject([{ state: "firing" }]);
  await requests(1);
  expect(failed.mock.calls.join("\n")).toContain("ALERTS_TELEGRAM_CHAT is not set");
});

it("an alert is not sent without a binding of its queue or its workflow; the log names the missing line of wrangler.jsonc once, before the first alert", async () => {
  const failed = vi.spyOn(console, "error");
  vars.ALERTS_WEBHOOK_URL = "https://alerts.invalid/hook";
  const said = async (missing: object, known = app) => {
    failed.mockClear();
    const bare = { ...probeEnv, ...missing };
    for (let time = 0; time < 2; time++) await raiseAlerts(bare, { rules: ALERT_RULES, catalog: known, gauges: [] });
    return failed.mock.calls.map(([line]) => JSON.parse(String(line)).error);
  };
  try {
    expect(await said({ ALERTS: undefined })).toEqual([
      'Alerts are not sent: "alerts" is not bound. Add this line to "queues.producers" in wrangler.jsonc: {"binding": "ALERTS", "queue": "alerts"}',
    ]);
    expect(await said({ SEND_ALERT: undefined })).toEqual([expect.stringContaining('"name": "send-alert", "class_name": "SendAlert"')]);
    expect(await said({}, catalog({ consumers: [] }))).toEqual([expect.stringContaining("start(alertSender())")]);
  } finally {
    delete vars.ALERTS_WEBHOOK_URL;
  }
});

it("an alert is not sent to a channel with an invalid variable; the log names the variable once, before the first alert, without its value", async () => {
  const failed = vi.spyOn(console, "error");
  vars.ALERTS_SLACK_URL = "hooks.slack.invalid/services/secret";
  for (let time = 0; time < 3; time++) await look(0).finally(() => time === 2 && delete vars.ALERTS_SLACK_URL);
  const lines = failed.mock.calls.map(String).filter((line) => line.includes("ALERTS_SLACK_URL"));
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ log: "config_invalid", error: expect.stringContaining("https://") }]);
  expect(lines.join()).not.toContain("services");
});

it("a notification links to PUBLIC_URL; with an invalid PUBLIC_URL it has no link, and the log reports the variable once", async () => {
  const failed = vi.spyOn(console, "error");
  onTestFinished(() => void delete vars.PUBLIC_URL);
  const { requests } = await receiver();
  vars.PUBLIC_URL = "orders.example";
  await look(0);
  await look(0);
  const lines = failed.mock.calls.map(String).filter((line) => line.includes("PUBLIC_URL"));
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ log: "config_invalid", error: expect.stringContaining("https://") }]);
  vars.PUBLIC_URL = "https://orders.example";
  await look(3);
  const { data } = saidIn((await requests(1))[0] as never);
  expect(data.url).toMatch(/^https:\/\/orders\.example\/console\//);
});

it("an alert is sent for the default tenant when ALERTS_TENANT is invalid, and the log reports that once", async () => {
  const failed = vi.spyOn(console, "error");
  const { requests } = await receiver();
  vars.ALERTS_TENANT = "bad tenant/x";
  await look(0);
  const lines = failed.mock.calls.map(String).filter((line) => line.includes("ALERTS_TENANT"));
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ log: "config_invalid", error: expect.stringContaining("not a tenant") }]);
  await look(3);
  expect(saidIn((await requests(1))[0] as never)).toMatchObject({ type: "alert.firing" });
  const [own] = await rows(
    "SELECT tenant_id FROM millrace_instances WHERE workflow = 'send-alert' ORDER BY accepted_at DESC, rowid DESC LIMIT 1",
  );
  expect(own).toEqual({ tenant_id: "millrace" });
  expect(failed.mock.calls.map(String).filter((line) => line.includes("ALERTS_TENANT"))).toHaveLength(1);
});

it("a resolved alert is deleted 30 days after its end unless it is muted; an open alert is kept", async () => {
  const insert = (name: string, state: string, days: number, mutedUntil: number | null) =>
    run(
      `INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, examples, since, fired_at, last_at, updated_at, resolved_at, muted_until, mute_reason, version)
       VALUES (?1, 'keeper_late', json_object('queue', ?1), ?2, 'warning', 1, '[]', ?3, ?3, ?3, ?3, iif(?2 = 'resolved', ?3, NULL), ?4, iif(?4 IS NULL, NULL, 'r'), 1)`,
      name.padEnd(32, "0"),
      state,
      Date.now() - days * 86_400_000,
      mutedUntil,
    );
  await insert("old", "resolved", 31, null);
  await insert("young", "resolved", 29, null);
  await insert("muted", "resolved", 31, Date.now() + 60_000);
  await insert("open", "firing", 31, null);
  await retentionPass();
  const own = await alerts("rule = 'keeper_late' AND labels LIKE '%queue%'");
  expect(own.map(({ id }) => id.replace(/0+$/, "")).toSorted()).toEqual(["muted", "open", "young"]);
});

it("a notification contains only counts and texts from the code of the application", () => {
  const [rule] = ALERT_RULES;
  const known = { id: fresh("a"), rule: "x", labels: { queue: "q" }, state: "firing", severity: "warning", value: 2, count: 2 } as const;
  const times = { since: 0, criticalSince: null, milderSince: null, quietSince: null, firedAt: 0, told: null, lastAt: 0, updatedAt: 0 };
  const rest = { examples: ["i"], resolvedAt: null, mutedUntil: null, muteReason: "secret", version: 1 };
  const notice = noticeOf({ ...known, ...times, ...rest }, "firing", rule, ["slack"]);
  expect(JSON.stringify(notice)).not.toContain("secret");
  expect(notice).toMatchObject({ above: 0, channels: ["slack"], meaning: rule?.meaning });
});
