import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import { placed } from "../contract/location.ts";
import { logLine } from "../contract/log-line.ts";
import type { Params } from "../contract/params.ts";
import { within } from "../contract/within.ts";
import { currentVersion } from "../contract/workflow-versions.ts";
import { REMEMBERED_DAYS, resultsKeptMs } from "../store/kept-days.ts";

/** An instance to create on the platform, with fields of its row. */
export interface Startable {
  readonly id: string;
  readonly workflow: string;
  readonly envelope: Envelope;
  /** The fields of the instance's row as JSON, if already serialized. */
  readonly row?: string;
  /** The version of the workflow to which the instance is bound; the present version for an instance that has not started. */
  readonly version?: number | undefined;
  /** The action id of the undo that is created instead of the instance itself. */
  readonly undo?: string | null;
}

/**
 * `first`: the instance was never created, so its first steps need no query of recorded results. `again`: the platform may have lost the
 * instance.
 */
type Occasion = "first" | "again";

/** The platform's limit of one `createBatch` call: 100 instances or 1 MiB. */
const MAX_INSTANCES = 100;
const MAX_BYTES = 900_000;

/** Time limit of one `createBatch` call, in milliseconds, so that a hanging call does not delay other instances. */
const CREATE_LIMIT_MS = 10_000;

/**
 * Pauses between a consumer's attempts to create instances, in milliseconds. The platform creates 100 instances of a workflow per second,
 * and refuses further instances. After the last pause, the keeper creates the remaining instances.
 */
const TURN_PAUSES_MS = [400, 800, 1600, 3200];
const RATE_LIMITED = /\b429\b|rate.?limit|too many|throttl|limit (was |has been )?(exceeded|reached)/i;

/** The results of a creation, by instance id. An instance that is in none of the fields was created by this call. */
interface Started {
  /** The platform's error for each instance that it did not create. */
  failed: Map<string, string>;
  existed: Set<string>;
}

/** Creates instances, many per call. An existing instance counts as success, because its name is its id. Never throws. */
export async function startInstances(env: EngineEnv, instances: readonly Startable[], occasion: Occasion): Promise<Started> {
  const started: Started = { failed: new Map(), existed: new Set() };
  const note = (id: string, message: string) =>
    void (/already.exists/i.test(message) ? started.existed.add(id) : started.failed.set(id, message));
  const startAll = async (workflow: string, group: readonly Startable[]) => {
    let hangs: unknown;
    for (const chunk of chunks(group)) {
      try {
        if (hangs) throw hangs;
        const creating = async () =>
          workflowBinding(env, workflow).createBatch({
            instances: chunk.map((instance) => ({
              id: platformId(instance.id, instance.undo ?? null),
              params: { ...paramsOf(instance, occasion), ...(env.CELL !== undefined && { cell: env.CELL }) },
              retention: { successRetention: resultsKeptMs(workflow), errorRetention: `${REMEMBERED_DAYS} days` },
              ...placed(env),
            })),
          });
        const { errors } = await within(creating(), CREATE_LIMIT_MS);
        for (const { index, message } of errors) {
          const id = chunk[index]?.id;
          if (id) note(id, message);
        }
      } catch (error) {
        if (codeOf(error) === "unavailable") hangs = error;
        for (const { id } of chunk) note(id, messageOf(error));
      }
    }
  };
  const groups = Map.groupBy(instances, (instance) => instance.workflow);
  await Promise.all([...groups].map(([workflow, group]) => startAll(workflow, group)));
  return started;
}

/**
 * Creates instances with committed rows. The keeper creates instances that cannot be created now, so the delivery does not fail and does
 * not count as a try. Never throws.
 */
export async function startInTurn(env: EngineEnv, instances: readonly Startable[]): Promise<Started> {
  const started = await startInstances(env, instances, "first");
  for (const pauseMs of TURN_PAUSES_MS) {
    const refused = instances.filter(({ id }) => RATE_LIMITED.test(started.failed.get(id) ?? ""));
    if (refused.length === 0) break;
    await scheduler.wait(pauseMs * (0.5 + Math.random()));
    const again = await startInstances(env, refused, "first");
    for (const { id } of refused) started.failed.delete(id);
    for (const [id, error] of again.failed) started.failed.set(id, error);
    // If an instance exists now, the previous call created the instance, although that call returned an error.
  }
  if (started.failed.size > 0) {
    logLine("warn", { log: "put_off", instances: started.failed.size, error: [...started.failed.values()][0] });
  }
  return started;
}

function paramsOf({ id, envelope, undo, workflow, version = currentVersion(workflow) }: Startable, occasion: Occasion): Params {
  return {
    ...envelope,
    workflow,
    ...(version > 1 && { version }),
    ...(occasion === "first" && { created_ms: Date.now() }),
    ...(undo && { undoes: id }),
  };
}

function chunks(instances: readonly Startable[]): Startable[][] {
  const all: Startable[][] = [[]];
  let bytes = 0;
  for (const instance of instances) {
    const size = byteLength(instance.row ?? JSON.stringify(instance.envelope));
    if (all.at(-1)?.length === MAX_INSTANCES || bytes + size > MAX_BYTES) {
      all.push([]);
      bytes = 0;
    }
    all.at(-1)?.push(instance);
    bytes += size;
  }
  return all.filter((chunk) => chunk.length > 0);
}
