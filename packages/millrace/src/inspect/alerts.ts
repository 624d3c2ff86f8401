import * as z from "zod";
import type { AlertVars } from "../alerts/channels.ts";
import { alertsTenant, SEND_ALERT } from "../alerts/notice.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { inCell } from "../contract/cells.ts";
import { component, iso, timestamp } from "../contract/row.ts";
import { andEquals, fragment, now, type Statement, sql } from "../contract/sql.ts";
import type { Failure } from "../replay/failure.ts";
import { ALERT_STATES, SEVERITIES } from "../store/alerts.ts";
import { cellOf } from "../store/cells.ts";
import { positionBy, rowPage } from "../store/d1/named.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import { INSTANCE_STATUSES, type InstanceStatus, UNDER_WAY } from "../store/instances/status.ts";
import { historyOf } from "./history.ts";

/** The delivery of a notice to an external address, by the instance that sends the notice. */
export const Delivery = component("NoticeDelivery", {
  instance_id: z.string(),
  status: z
    .enum(INSTANCE_STATUSES)
    .describe("The status of the sending instance: `complete` after acceptance, `errored` after the last failed attempt."),
  attempts: z.int().nullable().describe("Failed attempts so far; null if only the platform has the number."),
  last_error: z.string().nullable().describe("The answer to the last failed attempt; null if unknown."),
});
export type Delivery = z.infer<typeof Delivery>;

export interface DeliveryRow {
  readonly id: string;
  readonly status: InstanceStatus;
  /** JSON. */
  readonly error: string | null;
}

/**
 * Asks the platform about a running delivery: the sending step has the class `keyed`, which records no row for a failed attempt that is
 * retried.
 */
export async function deliveryOf(env: EngineEnv, workflow: string, { id, status, error }: DeliveryRow, asks = true): Promise<Delivery> {
  const failure = JSON.parse(error ?? "null") as Failure | null;
  const known = { instance_id: id, status, attempts: failure?.attempts ?? null, last_error: failure?.message ?? null };
  if (!asks || !UNDER_WAY.has(status)) return known;
  const { steps } = await historyOf(env, { id, workflow });
  const tried = steps.filter(({ type, state, attempts }) => type === "do" && state !== "complete" && attempts.length > 0);
  const last = tried.flatMap(({ attempts }) => attempts.findLast(({ error }) => error !== null)?.error ?? []).at(-1);
  return {
    ...known,
    attempts: tried.length > 0 ? Math.max(...tried.map(({ attempts }) => attempts.length)) : null,
    last_error: last?.message ?? null,
  };
}

export const AlertRow = component("Alert", {
  id: z.string(),
  rule: z.string(),
  state: z.enum(ALERT_STATES).describe("`pending`: observed, but not yet for the duration of its rule."),
  severity: z.enum(SEVERITIES),
  labels: z.record(z.string(), z.string()).describe("The labels of the group, such as a queue."),
  value: z.number().describe("The last observed value, updated once a minute."),
  count: z.int().nullable().describe("The number of occurrences; null for a rule about a current value."),
  examples: z.array(z.string()).describe("Up to three ids of instances or dead letters."),
  since: timestamp,
  last_at: timestamp.describe("When the alert's value was last observed."),
  fired_at: timestamp.nullable(),
  notice_at: timestamp.nullable().describe("When the alert's last notification was created, even if no channel is set."),
  notified_at: timestamp.nullable().describe("When all channels had accepted the last notification; null until then."),
  delivery: Delivery.nullable().describe(
    "The delivery of the last notification; null if no channel is set, and before the delivery starts.",
  ),
  resolved_at: timestamp.nullable(),
  muted: z.object({ until: timestamp, reason: z.string() }).nullable(),
});
export type AlertRow = z.infer<typeof AlertRow>;

export const AlertFilter = z.object({ state: z.enum(ALERT_STATES).optional(), rule: z.string().min(1).max(64).optional() });

/** Invalid JSON, after a manual `UPDATE`, is read as empty. */
const COLUMNS = fragment(`id, rule, state, severity, iif(json_valid(labels), labels, '{}') AS labels, value, count,
  iif(json_valid(examples), examples, '[]') AS examples, since, last_at, fired_at, notice_at, resolved_at,
  iif(muted_until > ${now.fragment}, json_object('until', muted_until, 'reason', coalesce(mute_reason, '')), NULL) AS muted`);

/** The deployment's alerts, newest first. The first cell has the alerts of all cells. */
export async function listAlerts(given: EngineEnv, filter: z.infer<typeof AlertFilter> & PageRequest): Promise<Page<AlertRow>> {
  const env = inCell(given);
  const { items, next } = await rowPage(AlertRow, filter, positionBy("since", "id"), (before, limit) =>
    query(
      env.DB,
      sql`
        SELECT ${COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_by_time
        WHERE (since, id) < (${before.at}, ${before.id}) ${andEquals(fragment("state"), filter.state)}
          ${andEquals(fragment("rule"), filter.rule)}
        ORDER BY since DESC, id DESC LIMIT ${limit}`,
    ),
  );
  const sent = await deliveriesOf(env, items);
  return { items: items.map((alert) => ({ ...alert, ...(sent.get(alert.id) ?? { notified_at: null, delivery: null }) })), next };
}

/** Maximum number of running deliveries per page for which the platform is queried. */
const MAX_ASKED = 10;

type Sent = DeliveryRow & { alert: string; changed_at: string | null; channels: number | null; updated_at: number };

/**
 * The last delivery of each alert's notification, by alert id, from the instances of the alerts' tenant that send them. An alert has none
 * without a channel, and before that instance starts.
 */
async function deliveriesOf(env: EngineEnv, alerts: readonly AlertRow[]) {
  const noticed = new Map(alerts.flatMap(({ id, notice_at }) => (notice_at === null ? [] : [[id, notice_at] as const])));
  if (noticed.size === 0) return new Map<string, Pick<AlertRow, "notified_at" | "delivery">>();
  const tenant = alertsTenant(env as EngineEnv & AlertVars);
  const { DB } = await cellOf(env, tenant);
  const found = await query<Sent>(DB, lastSent([...noticed.keys()], tenant));
  const sent = found.filter(({ alert, changed_at, channels }) => changed_at === noticed.get(alert) && channels !== null && channels > 0);
  const asked = new Set(sent.filter(({ status }) => UNDER_WAY.has(status)).slice(0, MAX_ASKED));
  const known = await Promise.all(
    sent.map(async (row) => {
      const delivery = await deliveryOf(env, SEND_ALERT, row, asked.has(row));
      return [row.alert, { notified_at: row.status === "complete" ? iso(row.updated_at) : null, delivery }] as const;
    }),
  );
  return new Map(known);
}

function lastSent(alerts: readonly string[], tenantId: string): Statement {
  return sql`
    SELECT a.value AS alert, i.id, i.status, i.error, i.updated_at,
      i.envelope->>'$.payload_inline.changed_at' AS changed_at, json_array_length(i.envelope, '$.payload_inline.channels') AS channels
    FROM json_each(${JSON.stringify(alerts)}) a CROSS JOIN millrace_instances i ON i.tenant_id = ${tenantId} AND i.id = (
      SELECT s.id FROM millrace_instances s INDEXED BY millrace_instances_by_correlation
      WHERE s.tenant_id = ${tenantId} AND s.correlation_id = a.value AND s.workflow = ${SEND_ALERT}
      ORDER BY s.accepted_at DESC, s.id DESC LIMIT 1)`;
}
