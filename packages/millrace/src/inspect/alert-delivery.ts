import type { AlertVars } from "../alerts/channels.ts";
import { alertsTenant, SEND_ALERT } from "../alerts/notice.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Statement, sql } from "../contract/sql.ts";
import type { Alert } from "../store/alerts.ts";
import { query } from "../store/d1/retry.ts";
import { UNDER_WAY } from "../store/instances/status.ts";
import { type Delivery, type DeliveryRow, deliveryInDatabase, deliveryOf } from "./delivery.ts";

export interface AlertDelivery extends Delivery {
  /** When every channel had accepted it, in milliseconds since 1970; null until then. */
  readonly toldAt: number | null;
}

/** Most running deliveries of a page for which the platform is queried. The others show the state in the database. */
const MAX_ASKED = 10;

interface Row extends DeliveryRow {
  readonly alert: string;
  readonly changedAt: string | null;
  readonly channels: number | null;
  readonly updatedAt: number;
}

/**
 * The last delivery of each alert, by alert id. Reads the sending instances, which belong to the alerts' tenant. Absent for an alert
 * without a channel, and before the instance has started.
 */
export async function deliveriesOf(env: EngineEnv, alerts: readonly Alert[]): Promise<ReadonlyMap<string, AlertDelivery>> {
  const noticed = new Map(alerts.flatMap(({ id, told }) => (told === null ? [] : [[id, new Date(told.at).toISOString()] as const])));
  if (noticed.size === 0) return new Map();
  const tenantId = alertsTenant(env as EngineEnv & AlertVars);
  const found = await query<Row>(env.DB, lastSent([...noticed.keys()], tenantId));
  const sent = found.filter(({ alert, changedAt, channels }) => changedAt === noticed.get(alert) && channels !== null && channels > 0);
  const asked = new Set(sent.filter(({ status }) => UNDER_WAY.has(status)).slice(0, MAX_ASKED));
  const known = await Promise.all(
    sent.map(async (row) => {
      const delivery = asked.has(row) ? await deliveryOf(env, SEND_ALERT, row) : deliveryInDatabase(row);
      return [row.alert, { ...delivery, toldAt: row.status === "complete" ? row.updatedAt : null }] as const;
    }),
  );
  return new Map(known);
}

function lastSent(alerts: readonly string[], tenantId: string): Statement {
  return sql`
    SELECT a.value AS alert, i.id, i.status, i.error, i.updated_at AS updatedAt,
      i.envelope->>'$.payload_inline.changed_at' AS changedAt, json_array_length(i.envelope, '$.payload_inline.channels') AS channels
    FROM json_each(${JSON.stringify(alerts)}) a CROSS JOIN millrace_instances i ON i.tenant_id = ${tenantId} AND i.id = (
      SELECT s.id FROM millrace_instances s INDEXED BY millrace_instances_by_correlation
      WHERE s.tenant_id = ${tenantId} AND s.correlation_id = a.value AND s.workflow = ${SEND_ALERT}
      ORDER BY s.accepted_at DESC, s.id DESC LIMIT 1)`;
}
