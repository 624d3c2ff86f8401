import type { EngineEnv } from "../contract/bindings.ts";
import type { Failure } from "../pass/failure.ts";
import { type InstanceStatus, UNDER_WAY } from "../store/instances/status.ts";
import { historyOf } from "./history.ts";

/** What came of a notice to somebody outside: how the instance does that sends it. */
export interface Delivery {
  instanceId: string;
  status: InstanceStatus;
  /** Attempts at the step that failed, or that is tried; null where only the platform knows. */
  attempts: number | null;
  /** What the last attempt failed of; null where none has, or only the platform knows. */
  lastError: string | null;
}

/** What a row says of the instance that sends a notice. */
export interface DeliveryRow {
  readonly id: string;
  readonly status: InstanceStatus;
  /** JSON. */
  readonly error: string | null;
}

/** What the database alone says: a step of the class `keyed`, as these are, leaves no row of an attempt that failed and is repeated. */
export function deliveryInDatabase({ id, status, error }: DeliveryRow): Delivery {
  const failure = error === null ? null : (JSON.parse(error) as Failure);
  return { instanceId: id, status, attempts: failure?.attempts ?? null, lastError: failure?.message ?? null };
}

/** The same with what the platform knows of one that is under way. */
export async function deliveryOf(env: EngineEnv, workflow: string, row: DeliveryRow): Promise<Delivery> {
  const known = deliveryInDatabase(row);
  if (!UNDER_WAY.has(row.status)) return known;
  const { steps } = await historyOf(env, { id: row.id, workflow });
  const tried = steps.filter(({ type, state, attempts }) => type === "do" && state !== "complete" && attempts.length > 0);
  const last = tried.flatMap(({ attempts }) => attempts.findLast(({ error }) => error !== null)?.error ?? []).at(-1);
  return {
    ...known,
    attempts: tried.length > 0 ? Math.max(...tried.map(({ attempts }) => attempts.length)) : null,
    lastError: last?.message ?? null,
  };
}
