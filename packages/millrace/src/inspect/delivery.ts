import type { EngineEnv } from "../contract/bindings.ts";
import type { Failure } from "../pass/failure.ts";
import { type InstanceStatus, UNDER_WAY } from "../store/instances/status.ts";
import { historyOf } from "./history.ts";

/** Delivery of a notice to an external address: the state of the sending instance. */
export interface Delivery {
  instanceId: string;
  status: InstanceStatus;
  /** Attempts of the current or failed step; null if only the platform knows. */
  attempts: number | null;
  /** The error of the last attempt; null without a failure, or if only the platform knows. */
  lastError: string | null;
}

export interface DeliveryRow {
  readonly id: string;
  readonly status: InstanceStatus;
  /** JSON. */
  readonly error: string | null;
}

/** The state in the database alone. The sending step has the class `keyed`, which records no row for a failed attempt that is retried. */
export function deliveryInDatabase({ id, status, error }: DeliveryRow): Delivery {
  const failure = error === null ? null : (JSON.parse(error) as Failure);
  return { instanceId: id, status, attempts: failure?.attempts ?? null, lastError: failure?.message ?? null };
}

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
