import type { EngineEnv } from "./bindings.ts";

/**
 * How many recorders there are when `RECORDER_SHARDS` does not say: few, because the fewer there are the more steps share one batch of the
 * database (docs/performance.md).
 */
const DEFAULT_SHARDS = 2;
const MAX_SHARDS = 256;

/**
 * One recorder for each share of the instances. Which one serves an instance matters to nobody: the fence is in the database, so the number
 * may change under open instances. An instance's id is a hash.
 */
export function recorderName(instanceId: string, shards: number): string {
  return `recorder-${Number.parseInt(instanceId.slice(0, 8), 16) % shards}`;
}

/** A setting that is no number must not stop open instances: it counts as not set. */
export function shardsOf({ RECORDER_SHARDS }: EngineEnv): number {
  const shards = Number(RECORDER_SHARDS ?? DEFAULT_SHARDS);
  return Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS ? shards : DEFAULT_SHARDS;
}

/** The names of all recorders. */
export function recorderNames(env: EngineEnv): string[] {
  return Array.from({ length: shardsOf(env) }, (_, shard) => `recorder-${shard}`);
}
