import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { cellsOf, readCells } from "../contract/cells.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { gauge, type Seen, unavailableCell } from "../observe/metrics/vitals.ts";
import type { Keeper } from "./keeper.ts";

/** Interval at which an isolate checks that the keeper's alarm is set, in milliseconds. */
const BELIEVED_MS = 60_000;

const armedAt = new WeakMap<object, number>();

export function keeperOf(env: EngineEnv): DurableObjectStub<Keeper> {
  return keeperObject(env) as unknown as DurableObjectStub<Keeper>;
}

/** Calls a method of the keepers of all cells, the keeper of the first cell first. */
export function ofEveryKeeper<T>(env: EngineEnv, call: (keeper: DurableObjectStub<Keeper>) => Promise<T>): Promise<T[]> {
  return Promise.all(cellsOf(env).map((cell) => call(keeperOf(cell))));
}

/**
 * Checks in the background that the alarms of all keepers are set, at most once per minute and isolate. The platform drops an alarm that
 * fails repeatedly.
 */
export function armKeeper(env: EngineEnv, ctx: Pick<ExecutionContext, "waitUntil">): void {
  // A missing KEEPER binding is reported elsewhere.
  const objects = objectsIn(env, "KEEPER");
  if (objects === undefined) return;
  if (Math.abs(Date.now() - (armedAt.get(objects) ?? 0)) < BELIEVED_MS) return;
  armedAt.set(objects, Date.now());
  ctx.waitUntil(ofEveryKeeper(env, async (keeper) => keeper.arm()).catch(() => armedAt.delete(objects)));
}

/**
 * Milliseconds since the keeper's last round started; null when the keeper's alarm was lost, or when the keeper does not answer within a
 * second. With several cells, the result is the age of the keeper with the oldest round.
 */
export async function keeperAge(env: EngineEnv): Promise<number | null> {
  return Promise.race([
    ofEveryKeeper(env, async (keeper) => keeper.age()).then(
      (ages) => ages.reduce((oldest, age) => (oldest === null || age === null ? null : Math.max(oldest, age)), 0),
      () => null,
    ),
    scheduler.wait(1000).then(() => null),
  ]);
}

/** All counters and gauges of the deployment, including the keeper's age. */
export async function metricsOf(env: EngineEnv): Promise<Pick<Seen, "ever" | "samples">> {
  const read = async (cell: EngineEnv) => (await keeperOf(cell).metrics()) as unknown as Pick<Seen, "ever" | "samples" | "at">;
  const { ever, samples, at } = together(await readCells(env, read));
  return { ever, samples: [...samples, gauge("keeper_age_seconds", {}, Math.max(0, Date.now() - at) / 1000)] };
}

/** The counters and gauges of `metricsOf`, the counts per minute of the last minutes, and the cells that did not answer. */
export async function vitalsOf(env: EngineEnv): Promise<Seen & { failed: readonly number[] }> {
  const read = async (cell: EngineEnv) => (await keeperOf(cell).vitals()) as unknown as Seen;
  return together(await readCells(env, read));
}

/**
 * The readings of all keepers as one reading. Each keeper has the counts of all cells. Equal gauges of several cells are added, except
 * ages, of which the highest is shown.
 */
function together<T extends Pick<Seen, "samples">>({ found, failed }: { found: readonly T[]; failed: readonly number[] }) {
  const [first] = found as readonly [T];
  if (found.length + failed.length === 1) return { ...first, failed };
  const all = [...found.flatMap(({ samples }) => samples), ...failed.map(unavailableCell)];
  const groups = Map.groupBy(all, ({ name, labels }) => JSON.stringify([name, labels]));
  const samples = [...groups.values()].flatMap((same) => {
    const values = same.map(({ value }) => value);
    const value = same[0]?.name.endsWith("_seconds") ? Math.max(...values) : values.reduce((sum, one) => sum + one, 0);
    return same[0] === undefined ? [] : [{ ...same[0], value }];
  });
  return { ...first, samples, failed };
}
