import { nameOfEnd, SEND_CALLBACK } from "../callbacks/instance-ended.ts";
import type { EngineEnv } from "../contract/bindings.ts";
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

/** What an instance was asked, and what it answered. */
interface InstanceContent {
  /** The version that its payload was written in. */
  schemaVersion: number;
  /** As it was sent; null where it travels by reference, and where the row has none. */
  payload: unknown;
  /** Where a payload is kept that is too large to travel: `r2://…`. */
  payloadRef: string | null;
  /** What a complete run returned; null for one that returned nothing, and when the platform has forgotten it. */
  result: unknown;
  /** What JSON changed of the result, in a sentence; null where it is as it was returned. */
  resultChanged: string | null;
}

/** An end of a run that an address is to hear of. */
interface CalledEnd {
  run: number;
  status: string;
}

/** The address that hears of an instance's ends, and what came of the last call. */
export interface Callback {
  url: string;
  /** The end that the last call is about; null before there is one. */
  called: CalledEnd | null;
  /** The same, once the address has accepted that call; null until then. */
  told: CalledEnd | null;
  /** The call itself; null before there is one, and where retention has removed it. */
  delivery: Delivery | null;
}

/** An instance whole: what was asked for, and what came of it. */
export interface InstanceDetail extends Instance, InstanceContent {
  /** What the platform itself says; `unknown` when it has no such instance. */
  platformStatus: string;
  /** The effects of which a person has to say whether they happened. */
  doubts: Doubt[];
  /** The address that hears of its ends; null where its command named none. */
  callback: Callback | null;
  /** What it has cost so far, by list prices. */
  cost: Cost;
}

/**
 * One instance with its payload and its result. An instance that cannot start in this deployment has the reason as its `error`. Errors:
 * `instance_not_found`, also for another tenant's.
 */
export async function describeInstance(
  env: EngineEnv,
  by: Operator,
  id: string,
  catalog?: Pick<Catalog, "workflows">,
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
  // Retention may have come between.
  if (!cost) throw unknownInstance(id);
  const returned = platformStatus === "complete" && instance.undo === null ? output : null;
  const sleeping = standing?.sleeping ?? null;
  // The platform's own pause keeps the rest of a sleep: its end moves, and is not known.
  if (sleeping && platformStatus === "paused" && (sleeping.until ?? 0) <= Date.now()) sleeping.until = null;
  return { ...instance, ...standing, ...contentOf(envelope, returned), platformStatus, doubts, callback, cost };
}

function startable(env: EngineEnv, instance: Instance, catalog: Pick<Catalog, "workflows"> | undefined): Instance {
  if (instance.error !== null || !UNSEEN.has(instance.status)) return instance;
  const message = notStartable(env, instance.workflow, catalog);
  return message === undefined ? instance : { ...instance, error: { step: "", code: "config_invalid", message, attempts: 0 } };
}

/** What a reader is shown of what an instance was asked, and of what it answered. */
function contentOf(envelope: Partial<Envelope>, output: unknown): InstanceContent {
  const { schema_version: schemaVersion = 1, payload_inline = null, payload_ref = null } = envelope;
  const { result, changed } = readResult(output);
  return { schemaVersion, payload: payload_inline, payloadRef: payload_ref, result, resultChanged: changed };
}

/** Looks at the platform for an end that the row has and the platform not yet: it writes the result a moment behind it. */
const MAX_LOOKS = 8;
const LOOK_PAUSE_MS = 30;

async function answerOf(env: EngineEnv, { id, workflow, status, undo }: Instance): Promise<PlatformAnswer> {
  for (let look = 1; ; look++) {
    const answer = await askPlatform(env, workflow, platformId(id, undo));
    if (status !== "complete" || !AT_WORK.has(answer.status) || look === MAX_LOOKS) return answer;
    await scheduler.wait(LOOK_PAUSE_MS);
  }
}

/** What the platform says of an instance whose code has not returned, as far as it knows. */
const AT_WORK: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** The call has its place by the name of its end, so that it costs no more than a row by its id. */
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

/** What the column `callback` says of the end whose call is kept. */
function calledIn(column: unknown): CalledEnd | null {
  const [, run, status] = /^(\d+):(\w+)$/.exec(String(column)) ?? [];
  return run && status ? { run: Number(run), status } : null;
}
