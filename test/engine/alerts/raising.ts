import { introspectWorkflow, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { afterAll, beforeEach, inject, onTestFinished } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { app } from "../../probe/worker.ts";
import type { Received, Treatment } from "../../systems/webhooks/receiver.ts";
import { until } from "../../until.ts";
import { fresh, keeperRests, probeEnv, rows } from "../harness.ts";

const receiverUrl = inject("receiverUrl");
export const vars = env as unknown as Record<string, string | undefined>;

export interface Row {
  id: string;
  rule: string;
  labels: string;
  state: string;
  severity: string;
  count: number | null;
  examples: string;
  muted_until: number | null;
  version: number;
}

export const run = (sql: string, ...params: unknown[]) =>
  env.DB.prepare(sql)
    .bind(...params)
    .run();

/** Resets alerts before each test of a file: rows of other tests are aged. The keeper polls only on request. */
export function calmly(): void {
  beforeEach(async () => {
    vars.KEEPER_PERIOD_MS = "3600000";
    // A running poll would raise alerts in the middle of the test.
    await keeperRests();
    await env.DB.batch(
      [
        "UPDATE millrace_instances SET updated_at = 1 WHERE status = 'errored'",
        "UPDATE millrace_dead_letters SET state = 'skipped', settled_at = 1 WHERE state = 'open'",
        "DELETE FROM millrace_outbox WHERE queue = 'alerts'",
        "DELETE FROM millrace_alerts",
      ].map((sql) => env.DB.prepare(sql)),
    );
  });
  afterAll(async () => {
    delete vars.KEEPER_PERIOD_MS;
    await runInDurableObject(keeperOf(probeEnv), (_, { storage }) => storage.setAlarm(Date.now() + 1000));
  });
}

/** Moves alerts and their subjects into the past by this duration, as if keepers had polled meanwhile. */
export async function pass(ms: number): Promise<void> {
  const times = ["since", "critical_since", "milder_since", "quiet_since", "fired_at", "notice_at", "last_at", "resolved_at"];
  await run(`UPDATE millrace_alerts SET ${times.map((column) => `${column} = ${column} - ?1`).join(", ")}`, ms);
  await run("UPDATE millrace_dead_letters SET captured_at = captured_at - ?1 WHERE state = 'open'", ms);
  await run("UPDATE millrace_instances SET updated_at = updated_at - ?1 WHERE status = 'errored'", ms);
}

export const alerts = (where = "true") => rows<Row>(`SELECT * FROM millrace_alerts WHERE ${where} ORDER BY rule, labels`);

/** One alert evaluation over all events, but over the dead letters of one queue only, so that rows of other tests are ignored. */
export async function round(): Promise<void> {
  await keeperOf(probeEnv).readVitals();
  const { samples } = await keeperOf(probeEnv).vitals();
  const gauges = samples.filter(({ name, labels }) => name === "dead_letters_open" && labels.queue === "probe-events");
  await raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges });
}

const SECRET = `whsec_${btoa("a secret of thirty-two bytes....")}`;

/** Returns an address for this test. Its receiver answers with `answer`. */
export async function addressThat(treatments: Treatment[]) {
  const hook = fresh("alerts");
  await fetch(`${receiverUrl}/tell/${hook}`, { method: "PUT", body: JSON.stringify({ secrets: [SECRET], treatments }) });
  return {
    hook,
    url: `${receiverUrl}/hook/${hook}`,
    requests: (count = 0): Promise<Received[]> =>
      until(
        async () => (await fetch(`${receiverUrl}/ledger/${hook}`)).json<Received[]>(),
        (found) => found.length >= count,
      ),
  };
}

/** Receives signed webhooks and stands in for Slack and Telegram until the end of the test. */
export async function receiver({ treatments = [] }: { treatments?: Treatment[] } = {}) {
  const address = await addressThat(treatments);
  const introspector = await introspectWorkflow((probeEnv as unknown as { SEND_ALERT: Workflow }).SEND_ALERT);
  await introspector.modifyAll(async (instance) => instance.disableRetryDelays());
  Object.assign(vars, { ALERTS_WEBHOOK_URL: address.url, ALERTS_WEBHOOK_SECRET: SECRET });
  onTestFinished(async () => {
    for (const name of Object.keys(vars).filter((one) => one.startsWith("ALERTS_"))) delete vars[name];
    await nothingUnderWay().finally(introspector.dispose);
  });
  return address;
}

/** Waits for running notifications, because a notification reads its address when it is sent and would reach the next test. */
async function nothingUnderWay(): Promise<void> {
  const left = await until(
    () =>
      rows(
        `SELECT 'message' AS what, id FROM millrace_outbox WHERE queue = 'alerts'
         UNION ALL
         SELECT status, id FROM millrace_instances WHERE workflow = 'send-alert' AND status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`,
      ),
    (found) => found.length === 0,
    30_000,
  );
  if (left.length > 0) throw new Error(`Notifications are still running: ${JSON.stringify(left)}`);
}

export function saidIn({ body }: Received): {
  type: string;
  data: { alert_id: string; rule: string; labels: object; count: number; examples: string[]; note?: object; url: string | null };
} {
  return JSON.parse(body);
}
