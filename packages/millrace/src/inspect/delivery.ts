import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Failure } from "../pass/failure.ts";
import { INSTANCE_STATUSES, type InstanceStatus, UNDER_WAY } from "../store/instances/status.ts";
import { historyOf } from "./history.ts";

/** The delivery of a notice to an external address. The state of a delivery is the state of the instance that sends the notice. */
export const Delivery = z
  .object({
    instance_id: z.string(),
    status: z.enum(INSTANCE_STATUSES).meta({
      description: "The status of the sending instance: `complete` after acceptance, `errored` after the last failed attempt.",
    }),
    attempts: z.int().nullable().meta({ description: "Failed attempts so far; null if only the platform has the number." }),
    last_error: z.string().nullable().meta({ description: "The answer to the last failed attempt; null if unknown." }),
  })
  .meta({ id: "NoticeDelivery" });
export type Delivery = z.infer<typeof Delivery>;

export interface DeliveryRow {
  readonly id: string;
  readonly status: InstanceStatus;
  /** JSON. */
  readonly error: string | null;
}

/**
 * The state of a delivery, read from the database alone. The sending step has the class `keyed`, which records no row for a failed attempt
 * that is retried.
 */
export function deliveryInDatabase({ id, status, error }: DeliveryRow): Delivery {
  const failure = error === null ? null : (JSON.parse(error) as Failure);
  return { instance_id: id, status, attempts: failure?.attempts ?? null, last_error: failure?.message ?? null };
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
    last_error: last?.message ?? null,
  };
}
