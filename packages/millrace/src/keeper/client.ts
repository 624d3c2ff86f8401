import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { gauge } from "../observe/metrics/gauges.ts";
import type { Seen } from "../observe/metrics/vitals.ts";
import type { Keeper } from "./keeper.ts";

/** How long an isolate believes that the clock runs which it has made sure of. */
const BELIEVED_MS = 60_000;

const armedAt = new WeakMap<object, number>();

/** The one keeper. */
export function keeperOf(env: EngineEnv): DurableObjectStub<Keeper> {
  return keeperObject(env) as unknown as DurableObjectStub<Keeper>;
}

/**
 * Makes sure the keeper's clock runs, in the background of whatever came by: asked once a minute by each isolate, because the platform
 * gives up an alarm that keeps failing.
 */
export function armKeeper(env: EngineEnv, ctx: Pick<ExecutionContext, "waitUntil">): void {
  // Whoever has come by is told what is missing where it is answered.
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

/** Milliseconds since the keeper's last round began; null when its clock was lost, or it does not answer within a second. */
export async function keeperAge(env: EngineEnv): Promise<number | null> {
  return Promise.race([
    keeperOf(env)
      .age()
      .catch(() => null),
    scheduler.wait(1000).then(() => null),
  ]);
}

/** What was counted until now, and what every gauge shows, with the keeper's own age. */
export async function metricsOf(env: EngineEnv): Promise<Pick<Seen, "ever" | "samples">> {
  const { ever, samples, at } = (await keeperOf(env).metrics()) as unknown as Pick<Seen, "ever" | "samples" | "at">;
  return { ever, samples: [...samples, gauge("keeper_age_seconds", {}, Math.max(0, Date.now() - at) / 1000)] };
}

/** The same with each of the last minutes. */
export async function vitalsOf(env: EngineEnv): Promise<Seen> {
  return (await keeperOf(env).vitals()) as unknown as Seen;
}
