import { nameOfEnd } from "../callbacks/instance-ended.ts";
import { type EngineEnv, SEND_CALLBACK } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { instanceId, platformId } from "../contract/ids.ts";
import { sql } from "../contract/sql.ts";
import { readResult } from "../guard/result.ts";
import { askPlatform, type PlatformAnswer } from "../intake/platform.ts";
import type { Cost } from "../observe/cost/instance-cost.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { UNDER_WAY, UNSEEN } from "../store/instances/status.ts";
import type { Catalog } from "../topology/catalog.ts";
import { notStartable } from "../topology/missing.ts";
import { costOfInstance } from "./costs.ts";
import { type Delivery, type DeliveryRow, deliveryOf } from "./delivery.ts";
import { type Doubt, doubtsOf } from "./effects.ts";
import { historyOf } from "./history.ts";
import { asInstance, INSTANCE_COLUMNS, type Instance, unknownInstance } from "./instances.ts";
import { standingIn } from "./standing.ts";

interface InstanceContent {
  schemaVersion: number;
  /** The payload as it was sent; null for a payload in R2, and for a row without a payload. */
  payload: unknown;
  /** The location of a payload that is too large for a message: `r2://…`. */
  payloadRef: string | null;
  /** The result of a complete run; null for a run without a result, and if the platform has removed the result. */
  result: unknown;
  /** A sentence about the values of the result that the conversion to JSON changed; null if JSON changed nothing. */
  resultChanged: string | null;
}

interface CalledEnd {
  run: number;
  status: string;
}

export interface Callback {
  url: string;
  /** The latest end of the instance for which the callback address was called; null before the first call. */
  called: CalledEnd | null;
  /** The latest end of the instance for which the callback address accepted a call; null before the first accepted call. */
  told: CalledEnd | null;
  /** The last call of the callback address; null before the first call, and after retention has removed the call. */
  delivery: Delivery | null;
}

/** An instance with its message and its result. */
export interface InstanceDetail extends Instance, InstanceContent {
  /** The platform's status; `unknown` for an instance that the platform does not have. */
  platformStatus: string;
  /** The effects that an operator must resolve. */
  doubts: Doubt[];
  /** The callback of the instance's command; null if the command has no callback. */
  callback: Callback | null;
  cost: Cost;
}

/**
 * An instance with its payload and result. For an instance that cannot start in this deployment, `error` contains the reason. Errors:
 * `instance_not_found`, also for an instance of another tenant.
 */
export async function describeInstance(
  env: EngineEnv,
  by: Operator,
  id: string,
  catalog?: Pick<Catalog, "workflows" | "elsewhere">,
): Promise<InstanceDetail> {
  const [row] = await query(
    env.DB,
    sql`SELECT ${INSTANCE_COLUMNS}, envelope, callback FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
  );
  if (!row) throw unknownInstance(id);
  const instance = startable(env, asInstance(row), catalog);
  const envelope = JSON.parse(String(row.envelope ?? "{}")) as Partial<Envelope>;
  const [{ status: platformStatus, output }, cost, doubts, callback, standing] = await Promise.all([
    answerOf(env, instance),
    costOfInstance(env, id),
    instance.status === "complete" ? [] : doubtsOf(env, by, id),
    callbackOf(env, by, id, envelope.callback_url, row.callback),
    UNDER_WAY.has(instance.status) ? historyOf(env, instance).then(({ steps }) => standingIn(steps)) : undefined,
  ]);
  // Retention may have removed the instance's row between the two queries.
  if (!cost) throw unknownInstance(id);
  const returned = platformStatus === "complete" && instance.undo === null ? output : null;
  const sleeping = standing?.sleeping ?? null;
  // A pause of an instance extends the instance's sleep, and the new end of the sleep is unknown.
  if (sleeping && platformStatus === "paused" && (sleeping.until ?? 0) <= Date.now()) sleeping.until = null;
  return { ...instance, ...standing, ...contentOf(envelope, returned), platformStatus, doubts, callback, cost };
}

function startable(env: EngineEnv, instance: Instance, catalog: Pick<Catalog, "workflows" | "elsewhere"> | undefined): Instance {
  if (instance.error !== null || !UNSEEN.has(instance.status)) return instance;
  const message = notStartable(env, instance.workflow, catalog);
  return message === undefined ? instance : { ...instance, error: { step: "", code: "config_invalid", message, attempts: 0 } };
}

function contentOf(envelope: Partial<Envelope>, output: unknown): InstanceContent {
  const { schema_version: schemaVersion = 1, payload_inline = null, payload_ref = null } = envelope;
  const { result, changed } = readResult(output);
  return { schemaVersion, payload: payload_inline, payloadRef: payload_ref, result, resultChanged: changed };
}

/**
 * Maximum number of queries for a result. Several queries can be needed, because the platform stores the result moments after the row
 * records the instance's end.
 */
const MAX_LOOKS = 8;
const LOOK_PAUSE_MS = 30;

async function answerOf(env: EngineEnv, { id, workflow, status, undo }: Instance): Promise<PlatformAnswer> {
  for (let look = 1; ; look++) {
    const answer = await askPlatform(env, workflow, platformId(id, undo));
    if (status !== "complete" || !AT_WORK.has(answer.status) || look === MAX_LOOKS) return answer;
    await scheduler.wait(LOOK_PAUSE_MS);
  }
}

const AT_WORK: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** The callback's delivery is read by primary key, because its id is derived from the end of the instance. */
async function callbackOf(env: EngineEnv, by: Operator, id: string, url: string | undefined, column: unknown): Promise<Callback | null> {
  if (url === undefined) return null;
  const called = calledIn(column);
  if (called === null) return { url, called, told: null, delivery: null };
  const callId = instanceId(by.tenantId, SEND_CALLBACK, nameOfEnd({ id, ...called }));
  const [row] = await query<DeliveryRow>(
    env.DB,
    sql`SELECT id, status, error FROM millrace_instances WHERE id = ${callId} AND tenant_id = ${by.tenantId}`,
  );
  const delivery = row ? await deliveryOf(env, SEND_CALLBACK, row) : null;
  return { url, called, told: delivery?.status === "complete" ? called : null, delivery };
}

function calledIn(column: unknown): CalledEnd | null {
  const [, run, status] = /^(\d+):(\w+)$/.exec(String(column)) ?? [];
  return run && status ? { run: Number(run), status } : null;
}
