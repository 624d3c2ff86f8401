import type { EngineEnv } from "./bindings.ts";
import { objectOfCell } from "./cells.ts";

/** The default number of recorders is small, because fewer recorders combine more steps in one database batch (docs/performance.md). */
const DEFAULT_SHARDS = 2;
const MAX_SHARDS = 256;

/**
 * The recorder of an instance, chosen by the instance's id, which is a hash. Every recorder gives correct results, because the fence is in
 * the database. Therefore the number of recorders may change while instances are in progress.
 */
export function recorderName(env: EngineEnv, instanceId: string): string {
  return objectOfCell(env, `recorder-${Number.parseInt(instanceId.slice(0, 8), 16) % shardsOf(env)}`);
}

/** Number of recorders for each gatherer, because fewer gatherers combine more commands in one database batch. */
const SHARDS_OF_GATHERER = 8;

/** The object that gathers commands, chosen by the id of a command's instance. Every gatherer gives correct results. */
export function gathererName(env: EngineEnv, instanceId: string): string {
  return objectOfCell(env, `gatherer-${Number.parseInt(instanceId.slice(0, 8), 16) % Math.ceil(shardsOf(env) / SHARDS_OF_GATHERER)}`);
}

/** An invalid `RECORDER_SHARDS` counts as not set, so that instances in progress continue. */
export function shardsOf({ RECORDER_SHARDS }: EngineEnv): number {
  const shards = Number(RECORDER_SHARDS ?? DEFAULT_SHARDS);
  return Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS ? shards : DEFAULT_SHARDS;
}

export function recorderNames(env: EngineEnv): string[] {
  return Array.from({ length: shardsOf(env) }, (_, shard) => objectOfCell(env, `recorder-${shard}`));
}
