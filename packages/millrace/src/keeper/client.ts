import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { gauge } from "../observe/metrics/gauges.ts";
import type { Seen } from "../observe/metrics/vitals.ts";
import type { Keeper } from "./keeper.ts";

/** Interval at which an isolate checks that the keeper's alarm is set, in milliseconds. */
const BELIEVED_MS = 60_000;

const armedAt = new WeakMap<object, number>();

export function keeperOf(env: EngineEnv): DurableObjectStub<Keeper> {
  return keeperObject(env) as unknown as DurableObjectStub<Keeper>;
}

/**
 * Checks in the background that the keeper's alarm is set, at most once per minute and isolate. The platform drops an alarm that fails
 * repeatedly.
 */
export function armKeeper(env: EngineEnv, ctx: Pick<ExecutionContext, "waitUntil">): void {
  // A missing KEEPER binding is reported elsewhere.
  const objects = objectsIn(env, "KEEPER");
  if (objects === undefined) return;
  if (Math.abs(Date.now() - (armedAt.get(objects) ?? 0)) < BELIEVED_MS) return;
  armedAt.set(objects, Date.now());
  ctx.waitUntil(
    keeperOf(env)
      .arm()
      .catch(() => armedAt.delete(objects)),
  );
}

/**
 * Milliseconds since the keeper's last round started; null when the keeper's alarm was lost, or when the keeper does not answer within a
 * second.
 */
export async function keeperAge(env: EngineEnv): Promise<number | null> {
  return Promise.race([
    keeperOf(env)
      .age()
      .catch(() => null),
    scheduler.wait(1000).then(() => null),
  ]);
}

/** All counters and gauges of the deployment, including the keeper's age. */
export async function metricsOf(env: EngineEnv): Promise<Pick<Seen, "ever" | "samples">> {
  const { ever, samples, at } = (await keeperOf(env).metrics()) as unknown as Pick<Seen, "ever" | "samples" | "at">;
  return { ever, samples: [...samples, gauge("keeper_age_seconds", {}, Math.max(0, Date.now() - at) / 1000)] };
}

/** The counters and gauges of `metricsOf`, and also the counts per minute of the last minutes. */
export async function vitalsOf(env: EngineEnv): Promise<Seen> {
  return (await keeperOf(env).vitals()) as unknown as Seen;
}
