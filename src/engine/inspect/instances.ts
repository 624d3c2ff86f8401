import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { readResult } from "../guard/result.ts";
import { askPlatform } from "../intake/platform.ts";
import type { Cost } from "../observe/cost/instance-cost.ts";
import type { Failure } from "../pass/failure.ts";
import type { Operator } from "../store/actions.ts";
import { GOING_ON, type InstanceStatus, IS_INDEXED_AS_STOPPED } from "../store/instances/status.ts";
import { keysetPage, type Page, type PageRequest, type Position } from "../store/paging.ts";
import { query } from "../store/retry.ts";
import { costOfInstance } from "./costs.ts";
import { type AwaitedByInstance, WAITING_FOR, waitingFor } from "./waiting.ts";

/** One instance, as people read it. */
export interface Instance {
  id: string;
  workflow: string;
  status: InstanceStatus;
  messageType: string;
  idempotencyKey: string;
  correlationId: string;
  causationId: string;
  subject: string;
  /** How often its message was delivered: more than once is a duplicate that changed nothing. */
  deliveries: number;
  /** The guarded step that wrote last; what it waits for since stands in `waitingFor`. */
  step: string | null;
  /** Events and answers that it waits for, at most 20 of them; none for one that is over. A sleep is the platform's alone. */
  waitingFor: AwaitedByInstance[];
  error: Failure | null;
  /** The undo that works on it, or has: its action's id. Null again when it is retried. */
  undo: string | null;
  /** Which run it is in: 1, and one more with each retry or undo. */
  run: number;
  acceptedAt: number;
  updatedAt: number;
}

export interface InstanceFilter extends PageRequest {
  status?: string | undefined;
  workflow?: string | undefined;
  subject?: string | undefined;
  correlation?: string | undefined;
  /** Milliseconds since the epoch; only instances accepted then or later. */
  since?: number | undefined;
}

const COLUMNS = fragment(`id, workflow, status, message_type, idempotency_key,
    correlation_id, causation_id, subject, deliveries, error, undo, run, accepted_at, updated_at,
    (SELECT step FROM inbox WHERE instance_id = instances.id ORDER BY updated_at DESC LIMIT 1) AS step, ${WAITING_FOR.fragment}`);

/**
 * Instances that one page looks at for a workflow or a subject, which no index serves: it would be a written row for each instance. What
 * is rare makes short pages, but never reads all that a tenant has ever had.
 */
const LOOKED_AT = 50_000;

/** The tenant's instances, newest first. By workflow or subject a page may be short, or empty, and still have a next one. */
export function listInstances(env: EngineEnv, by: Operator, filter: InstanceFilter): Promise<Page<Instance>> {
  return keysetPage(
    filter,
    ({ acceptedAt, id }) => ({ at: acceptedAt, id }),
    async (before, limit) => {
      const end = isLookedFor(filter) ? await endOfLook(env, by, filter, before) : undefined;
      const rows = await query(
        env.DB,
        sql`
        SELECT ${COLUMNS} FROM instances ${whereTheyAre(filter)} AND tenant_id = ${by.tenantId}
          ${andEquals(fragment("status"), filter.status)} ${andEquals(fragment("workflow"), filter.workflow)}
          ${andEquals(fragment("subject"), filter.subject)}
          AND accepted_at >= ${end?.at ?? filter.since ?? 0} AND (accepted_at, id) < (${before.at}, ${before.id})
          AND (accepted_at, id) >= (${end?.at ?? 0}, ${end?.id ?? ""})
        ORDER BY accepted_at DESC, id DESC LIMIT ${limit}`,
      );
      return { found: rows.map(asInstance), end };
    },
  );
}

/** True where rows are picked from the index by time. Most are complete, so that status is found soon. */
function isLookedFor({ correlation, status, workflow, subject }: InstanceFilter): boolean {
  const fromAll = correlation === undefined && (status === undefined || status === "complete");
  return fromAll && (workflow !== undefined || subject !== undefined);
}

/** The last row that this page looks at, from the index alone; undefined where there are fewer. */
async function endOfLook({ DB }: EngineEnv, by: Operator, { since = 0 }: InstanceFilter, before: Position): Promise<Position | undefined> {
  const [end] = await query<Position>(
    DB,
    sql`
      SELECT accepted_at AS at, id FROM instances INDEXED BY instances_by_time
      WHERE tenant_id = ${by.tenantId} AND accepted_at >= ${since} AND (accepted_at, id) < (${before.at}, ${before.id})
      ORDER BY accepted_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
  );
  return end;
}

/**
 * The index with the fewest rows: a job's own; of what stopped or waits for a person; of what is open, among all tenants'; or else the
 * tenant's by time. Conditions stand in it as text: a partial index serves none that is bound. The last one has its index's very words,
 * with a status that no row has.
 */
function whereTheyAre({ correlation, status }: InstanceFilter): Statement {
  if (correlation !== undefined) return sql`INDEXED BY instances_by_correlation WHERE correlation_id = ${correlation}`;
  if (status === undefined || status === "complete") return sql`INDEXED BY instances_by_time WHERE true`;
  if (GOING_ON.has(status)) return sql`INDEXED BY instances_to_check WHERE check_at IS NOT NULL`;
  return sql`INDEXED BY instances_stopped WHERE ${IS_INDEXED_AS_STOPPED} AND status = ${status}`;
}

/** One instance. Errors: `instance_not_found`, also for another tenant's. */
export async function getInstance(env: EngineEnv, by: Operator, id: string): Promise<Instance> {
  const rows = await query(env.DB, sql`SELECT ${COLUMNS} FROM instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`);
  const row = rows[0];
  if (!row) throw unknownInstance(id);
  return asInstance(row);
}

function unknownInstance(id: string): MillraceError {
  return new MillraceError("instance_not_found", `There is no instance ${beginning(id, 64)}. List them with GET /v1/instances.`);
}

/** An instance whole: what was asked for, and what came of it. */
export interface InstanceDetail extends Instance {
  /** As it was sent; null where it travels by reference, and where the row has none. */
  payload: unknown;
  /** Where a payload is kept that is too large to travel: `r2://…`. */
  payloadRef: string | null;
  /** What the platform itself says; `unknown` when it has no such instance. */
  platformStatus: string;
  /** What a complete run returned; null for one that returned nothing, and when the platform has forgotten it. */
  result: unknown;
  /** What JSON changed of the result, in a sentence; null where it is as it was returned. */
  resultChanged: string | null;
  /** What it has cost so far, by list prices. */
  cost: Cost;
}

/** One instance with its payload and its result. Errors: `instance_not_found`, also for another tenant's. */
export async function describeInstance(env: EngineEnv, by: Operator, id: string): Promise<InstanceDetail> {
  const [row] = await query(env.DB, sql`SELECT ${COLUMNS}, envelope FROM instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`);
  if (!row) throw unknownInstance(id);
  const instance = asInstance(row);
  const { payload_inline = null, payload_ref = null } = JSON.parse(String(row.envelope ?? "{}")) as Partial<Envelope>;
  const [{ status, output = null }, cost] = await Promise.all([
    askPlatform(env, instance.workflow, platformId(id, instance.undo)),
    costOfInstance(env, id),
  ]);
  // Retention may have come between.
  if (!cost) throw unknownInstance(id);
  const { result, changed } = readResult(status === "complete" && instance.undo === null ? output : null);
  return { ...instance, payload: payload_inline, payloadRef: payload_ref, platformStatus: status, result, resultChanged: changed, cost };
}

/**
 * What an instance was asked to do, read by the definition of its message. Undefined where the tenant has no such instance, and where its
 * row has no payload any more. Errors: `payload_missing`, `invalid_payload`.
 */
export async function payloadOf<Payload>(
  env: EngineEnv,
  { tenantId }: Pick<Operator, "tenantId">,
  definition: MessageDefinition<Payload>,
  id: string,
): Promise<Payload | undefined> {
  const [row] = await query<{ envelope: string | null }>(
    env.DB,
    sql`SELECT envelope FROM instances WHERE id = ${id} AND tenant_id = ${tenantId} AND message_type = ${definition.type}`,
  );
  if (!row?.envelope) return undefined;
  return unpackPayload(env.PAYLOADS, definition, JSON.parse(row.envelope) as Envelope);
}

function asInstance(row: Record<string, unknown>): Instance {
  return {
    id: String(row.id),
    workflow: String(row.workflow),
    status: row.status as InstanceStatus,
    messageType: String(row.message_type),
    idempotencyKey: String(row.idempotency_key),
    correlationId: String(row.correlation_id),
    causationId: String(row.causation_id),
    subject: String(row.subject),
    deliveries: Number(row.deliveries),
    step: row.step === null ? null : String(row.step),
    waitingFor: waitingFor(row.waiting_for),
    error: row.error ? (JSON.parse(String(row.error)) as Failure) : null,
    undo: row.undo as string | null,
    run: Number(row.run),
    acceptedAt: Number(row.accepted_at),
    updatedAt: Number(row.updated_at),
  };
}
