import { type Envelope, errors, query, type Statement, sql } from "millrace";
import { instances, statuses } from "millrace/operate";
import type { WebhookDelivery } from "../../messages/webhooks.ts";

export type DeliveryState = "pending" | "sent" | "failed" | "gone" | "skipped";

/** One request to a receiver, and the result of the request. */
export interface Attempt {
  /** The number of the attempt, from 1. */
  attempt: number;
  /** ISO 8601. */
  at: string;
  /** The version of the endpoint that the attempt used, which was the newest version at that time. */
  version: number;
  /** The response's status; null without a response. */
  status: number | null;
  /** The first KB of the response's body, as text. */
  answer: string | null;
  error: string | null;
  ms: number;
}

/** A delivery, with the fields that the sending step needs. */
export type Delivery = WebhookDelivery & {
  id: string;
  /**
   * The id of the instance that sends the delivery. The first instance has the id of the delivery; each redelivery has a new instance id.
   */
  instance_id: string;
  tenant_id: string;
  /** The time at which the fact matched the endpoint, in ISO 8601. */
  matched_at: string;
};

/** A delivery in the log. */
export interface LoggedDelivery {
  id: string;
  /** The newest instance that has sent the delivery or is sending it. */
  instance_id: string;
  config_version: number;
  entity: string;
  fact_id: string;
  fact_type: string;
  /** `sent` from the first acceptance by the receiver on, regardless of later redeliveries. */
  state: DeliveryState;
  /** The state of the newest redelivery; null if the delivery was never sent again. */
  redelivery: DeliveryState | null;
  matched_at: number;
  tried: number;
  attempts: Attempt[];
}

/** Maximum number of attempts in a delivery's log. Only the newest attempts are kept, because an operator may retry without limit. */
const KEPT_ATTEMPTS = 30;

interface Sent {
  payload: WebhookDelivery;
  envelope: Envelope;
  instanceId: string;
}

/** Returns the delivery that a command requests. The delivery has the id of its first instance, so that one id identifies both. */
export function deliveryOf({ payload, envelope, instanceId }: Sent): Delivery {
  const { tenant_id, created_at } = envelope;
  return { ...payload, id: payload.delivery_id ?? instanceId, instance_id: instanceId, tenant_id, matched_at: created_at };
}

/**
 * Inserts the row of a new delivery. An existing row remains unchanged. A pruned row is not inserted again, because no instance would send
 * the delivery.
 */
export function deliveryRow(command: Sent) {
  return rowOf(deliveryOf(command));
}

/** Inserts the row of a test delivery, before the delivery's message is sent. */
export function testRow(tenantId: string, id: string, payload: WebhookDelivery) {
  return rowOf({ ...payload, id, instance_id: id, tenant_id: tenantId, matched_at: new Date().toISOString() });
}

/** Inserts the row of a delivery that a request sends later, with the id of the request. */
export function laterRow(tenantId: string, id: string, payload: WebhookDelivery, request: string) {
  const matched_at = new Date().toISOString();
  return rowOf({ ...payload, id, instance_id: id, tenant_id: tenantId, matched_at, redelivery: request });
}

function rowOf({ body: _, ...row }: Delivery & { redelivery?: string }) {
  return { text: INSERT, row };
}

const INSERT = `
  INSERT INTO webhook_deliveries (id, tenant_id, endpoint_id, config_version, entity, fact_id, fact_type, state, matched_at,
    redelivery)
  SELECT value->>'id', value->>'tenant_id', value->>'endpoint_id', value->>'config_version', value->>'entity', value->>'fact_id',
    value->>'fact_type', 'pending', CAST(unixepoch(value->>'matched_at', 'subsec') * 1000 AS INTEGER),
    value->>'redelivery'
  FROM json_each(?1) WHERE NOT ${instances.isPruned(sql.fragment("value->>'id'")).text} ON CONFLICT DO NOTHING`;

/**
 * Appends an attempt to the delivery's log. The write requires that the previous attempt is the last attempt in the log, so that a repeated
 * write has no effect.
 */
export function logAttempt(tenantId: string, id: string, attempt: Attempt): Statement {
  return sql`
    UPDATE webhook_deliveries SET tried = ${attempt.attempt},
      attempts = json_insert(iif(tried >= ${KEPT_ATTEMPTS}, json_remove(attempts, '$[0]'), attempts),
        '$[#]', json(${JSON.stringify(attempt)}))
    WHERE id = ${id} AND tenant_id = ${tenantId} AND tried = ${attempt.attempt - 1}`;
}

/**
 * The state of a delivery's newest instance. A pending delivery whose instance has ended counts as skipped. In this case an operator has
 * terminated the instance, or skipped the dead letter of the instance's command. After a retry of the instance the delivery is pending
 * again.
 */
const HAS_ENDED = instances.exists("d", { id: "coalesce(d.instance_id, d.id)", statuses: statuses.settled });
const STATE = sql.fragment(`iif(d.state = 'pending' AND ${HAS_ENDED.fragment}, 'skipped', d.state)`);

/** A delivery's state for display. The state remains `sent` even if a redelivery of the sent delivery fails. */
const SHOWN = sql.fragment(`iif(d.sent_at IS NOT NULL, 'sent', ${STATE.fragment})`);
/** The state of a delivery's newest redelivery. */
const REDELIVERY = sql.fragment(`iif(d.instance_id <> d.id, ${STATE.fragment}, NULL)`);

/**
 * The states from which a delivery can be sent again. For a failed delivery the instance is retried instead, and a pending delivery is
 * still being sent.
 */
export const REPEATABLE = ["skipped", "gone", "sent"] as const satisfies DeliveryState[];
type Repeatable = (typeof REPEATABLE)[number];

const IS_REPEATABLE = sql.fragment(`${STATE.fragment} IN (${REPEATABLE.map((state) => `'${state}'`).join(", ")})`);

/**
 * The deliveries of an endpoint that a request selects, by id or by state. `since` and `until` limit the time of the match, in
 * milliseconds.
 */
export type Repeated = { id: string } | { state: Repeatable; since?: number | undefined; until?: number | undefined };

/** Selects an endpoint's deliveries in one state, for a bulk action. */
export function selectRepeatable(tenantId: string, endpointId: string, which: Exclude<Repeated, { id: string }>): Statement {
  return sql`
    SELECT id, matched_at AS at FROM webhook_deliveries d
    WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND ${STATE} = ${which.state}
      AND matched_at >= ${which.since ?? 0} AND matched_at < ${which.until ?? Number.MAX_SAFE_INTEGER}`;
}

/** Selects the states and endpoints of the deliveries with these ids. */
export function selectStanding(tenantId: string, ids: readonly string[]): Statement {
  return sql`
    SELECT id, endpoint_id, ${STATE} AS state FROM webhook_deliveries d WHERE id IN ${sql.among(ids)} AND +tenant_id = ${tenantId}`;
}

/** The SQL condition for deliveries that were not accepted and can be sent again. */
const UNSENT = sql.fragment(`d.sent_at IS NULL AND ${STATE.fragment} IN ('skipped', 'gone')`);

/**
 * Selects facts of a period that match an endpoint's current types and were not accepted. Such a fact has no delivery, or its delivery was
 * skipped or answered with 410 Gone. The id is JSON text: endpoint, ledger, name and position.
 */
export function selectOwed(tenantId: string, endpointId: string, { since, until }: { since: number; until: number }): Statement {
  return sql`
    SELECT json_array(${endpointId}, entity, fact_id, sequence) || '' AS id, recorded_at AS at FROM facts
    WHERE tenant_id = ${tenantId} AND recorded_at >= ${since} AND recorded_at < ${until}
      AND type IN (SELECT t.value FROM webhook_versions v, json_each(v.fact_types) t
        WHERE v.tenant_id = ${tenantId} AND v.endpoint_id = ${endpointId} AND v.replaced_at IS NULL)
      AND (entity, fact_id) NOT IN (SELECT entity, fact_id FROM webhook_deliveries d
        WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND matched_at >= ${since - CLOCKS_DIFFER_MS} AND NOT (${UNSENT}))`;
}

/**
 * Maximum difference between the clocks of two machines. The stored time of a match may be earlier than the time of the fact by up to this
 * difference. Deliveries with an even earlier time are not read.
 */
const CLOCKS_DIFFER_MS = 3_600_000;

/**
 * Reads the state of a delivery that a request sends later. `own` is 1 if this request sends the delivery. `sent` is 1 if the receiver has
 * accepted the delivery.
 */
export async function laterOf(db: D1Database, tenantId: string, id: string, request: string) {
  const [row] = await query<{ own: number; sent: number; state: DeliveryState }>(
    db,
    sql`
      SELECT ${hasHad(request)} AS own, sent_at IS NOT NULL AS sent, ${STATE} AS state FROM webhook_deliveries d
      WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  return row && { isOwn: row.own === 1, isSent: row.sent === 1, state: row.state };
}

/** Updates the row of a delivery without a change, so that the audit row of an action is written only if the delivery exists. */
export function touchDelivery(tenantId: string, id: string): Statement {
  return sql`UPDATE webhook_deliveries SET tried = tried WHERE id = ${id} AND tenant_id = ${tenantId}`;
}

export interface Asking {
  tenantId: string;
  endpointId: string;
  /** The id of the request. A request sends each delivery again only once. */
  request: string;
}

/**
 * Selects the deliveries that a request requires and has not sent yet, oldest first. A delivery that the request selects by id is returned
 * even after the request has sent it.
 */
export function selectRepeated({ tenantId, endpointId, request }: Asking, which: Repeated, limit: number): Statement {
  const chosen =
    "id" in which
      ? sql`id = ${which.id} AND (${IS_REPEATABLE} OR ${hasHad(request)})`
      : sql`${STATE} = ${which.state} AND matched_at >= ${which.since ?? 0} AND matched_at < ${which.until ?? Number.MAX_SAFE_INTEGER}
          AND NOT ${hasHad(request)}`;
  return sql`
    SELECT ${LOGGED} FROM webhook_deliveries d WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND ${chosen}
    ORDER BY matched_at, id LIMIT ${limit}`;
}

/** Selects one of the requested deliveries that the request has already sent again. The result is empty if the request has sent none. */
export function selectHad({ tenantId, endpointId, request }: Asking, which: Repeated): Statement {
  const chosen =
    "id" in which
      ? sql`id = ${which.id}`
      : sql`matched_at >= ${which.since ?? 0} AND matched_at < ${which.until ?? Number.MAX_SAFE_INTEGER}`;
  return sql`
    SELECT 1 AS had FROM webhook_deliveries WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND ${chosen}
      AND ${hasHad(request)} LIMIT 1`;
}

/**
 * Sets deliveries to pending for this request, each with its new instance, in the same transaction as the other writes. The write fails if
 * another request has already set one of the deliveries to pending. Otherwise two instances would write the same log.
 */
export function repeatDeliveries({ tenantId, request }: Asking, instances: Readonly<Record<string, string>>): Statement {
  return sql`
    UPDATE webhook_deliveries AS d SET state = iif(${IS_REPEATABLE}, 'pending', NULL),
      sent_at = coalesce(sent_at, iif(d.state = 'sent', ${sql.now}, NULL)),
      redelivery = coalesce(redelivery || ' ', '') || ${request}, instance_id = again.value
    FROM json_each(${JSON.stringify(instances)}) again
    WHERE d.id = again.key AND d.tenant_id = ${tenantId} AND NOT ${hasHad(request)}`;
}

/** True for the error by which `repeatDeliveries` refuses a write. */
export function isUnderWay(error: unknown): boolean {
  return errors.messageOf(error).includes("NOT NULL constraint failed: webhook_deliveries.state");
}

/** The SQL condition that the request has already sent this delivery again. Another command of the request would start no instance. */
function hasHad(request: string): Statement {
  return sql`instr(coalesce(redelivery, ''), ${request}) > 0`;
}

/** Records the result of a delivery if the given instance is the delivery's newest instance. */
export function settleDelivery({ tenant_id, id, instance_id }: Delivery, state: Exclude<DeliveryState, "pending">): Statement {
  return sql`
    UPDATE webhook_deliveries SET state = ${state} ${state === "sent" ? sql`, sent_at = coalesce(sent_at, ${sql.now})` : sql``}
    WHERE id = ${id} AND tenant_id = ${tenant_id} AND coalesce(instance_id, ${instance_id}) = ${instance_id}`;
}

/** A delivery that waits for a disabled endpoint, with the delivery's command. */
export interface PutOff {
  id: string;
  endpoint_id: string;
  version: number;
  fact_id: string;
  envelope: string;
}

/**
 * Selects deliveries that wait for disabled endpoints. Only deliveries whose fact's name or command contains one of the given texts are
 * selected.
 */
export function selectPutOff(tenantId: string, mentions: readonly string[]): Statement {
  const { join, envelope } = instances.find("d", "d.id");
  return sql`
    SELECT d.id, d.endpoint_id, v.version, d.fact_id, coalesce(${envelope}, '') AS envelope
    FROM webhook_versions v
    CROSS JOIN webhook_deliveries d ON d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id
    ${join}
    WHERE v.tenant_id = ${tenantId} AND v.replaced_at IS NULL AND v.state = 'disabled' AND d.state = 'pending'
      AND EXISTS (SELECT 1 FROM json_each(${JSON.stringify(mentions)}) m
        WHERE instr(lower(d.fact_id || char(10) || coalesce(${envelope}, '')), m.value) > 0)`;
}

/** Skips deliveries that still wait for a disabled endpoint. The deliveries' instances end at their next check. */
export function skipPutOff(tenantId: string, ids: readonly string[]): Statement {
  return sql`
    UPDATE webhook_deliveries AS d SET state = 'skipped'
    WHERE id IN ${sql.among(ids)} AND +tenant_id = ${tenantId} AND state = 'pending'
      AND EXISTS (SELECT 1 FROM webhook_versions v
        WHERE v.tenant_id = d.tenant_id AND v.endpoint_id = d.endpoint_id AND v.replaced_at IS NULL AND v.state = 'disabled')`;
}

/** The current state of a delivery and of its endpoint. */
export interface Target {
  version: number;
  url: string;
  state: string;
  /** True if the delivery was skipped by `skipPutOff`, or a newer instance sends it. */
  isSkipped: boolean;
  /** Number of attempts that earlier instances have made. */
  tried: number;
  /** Generations of the endpoint's secret that sign requests, newest first. */
  generations: number[];
}

/** Reads a delivery's endpoint in its current version; undefined if retention has removed the endpoint or the delivery. */
export async function targetOf(db: D1Database, { tenant_id, endpoint_id, id, instance_id }: Delivery): Promise<Target | undefined> {
  const [row] = await query<Omit<Target, "generations" | "isSkipped"> & { generations: string; skipped: number }>(
    db,
    sql`
      SELECT version, url, state,
        EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = ${id} AND d.tenant_id = v.tenant_id
          AND (d.state = 'skipped' OR d.instance_id <> ${instance_id})) AS skipped,
        coalesce((SELECT tried FROM webhook_deliveries d WHERE d.id = ${id} AND d.tenant_id = v.tenant_id), 0) AS tried,
        (SELECT json_group_array(generation ORDER BY generation DESC) FROM webhook_secrets s
          WHERE s.tenant_id = v.tenant_id AND s.endpoint_id = v.endpoint_id
            AND (s.valid_until IS NULL OR s.valid_until > ${sql.now})) AS generations
      FROM webhook_versions v WHERE tenant_id = ${tenant_id} AND endpoint_id = ${endpoint_id} AND replaced_at IS NULL`,
  );
  if (!row) return undefined;
  const { skipped, generations, ...target } = row;
  return { ...target, isSkipped: skipped > 0, generations: JSON.parse(generations) as number[] };
}

const LOGGED = sql`id, coalesce(instance_id, id) AS instance_id, config_version, entity, fact_id,
  fact_type, ${SHOWN} AS state, ${REDELIVERY} AS redelivery, matched_at, tried`;

interface DeliveryFilter {
  state?: DeliveryState | undefined;
  redelivery?: DeliveryState | undefined;
}

/** Lists the deliveries of an endpoint before a position, newest first, without the attempts. */
export function listDeliveries(
  db: D1Database,
  tenantId: string,
  endpointId: string,
  { state, redelivery, before, limit }: DeliveryFilter & { before: { at: number; id: string }; limit: number },
): Promise<Omit<LoggedDelivery, "attempts">[]> {
  return query<Omit<LoggedDelivery, "attempts">>(
    db,
    sql`
      SELECT ${LOGGED} FROM webhook_deliveries d
      WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} ${andIs(SHOWN, state)} ${andIs(REDELIVERY, redelivery)}
        AND (matched_at, id) < (${before.at}, ${before.id})
      ORDER BY matched_at DESC, id DESC LIMIT ${limit}`,
  );
}

function andIs(column: ReturnType<typeof sql.fragment>, state: DeliveryState | undefined): Statement {
  return state === undefined ? sql`` : sql`AND ${column} = ${state}`;
}

export async function getDelivery(db: D1Database, tenantId: string, endpointId: string, id: string): Promise<LoggedDelivery | undefined> {
  const [row] = await query<Omit<LoggedDelivery, "attempts"> & { attempts: string }>(
    db,
    sql`SELECT ${LOGGED}, attempts FROM webhook_deliveries d WHERE id = ${id} AND tenant_id = ${tenantId} AND endpoint_id = ${endpointId}`,
  );
  return row && { ...row, attempts: JSON.parse(row.attempts) as Attempt[] };
}
