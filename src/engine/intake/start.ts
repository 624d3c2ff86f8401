import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { platformId } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import type { Params } from "../contract/params.ts";

/** An instance to be created on the platform. */
export interface Startable {
  readonly id: string;
  readonly workflow: string;
  readonly envelope: Envelope;
  /** The undo (its action's id) that is to be created instead of the instance itself. */
  readonly undo?: string | null;
}

/** `first`: the platform has never had them, so that their first moments need no look at what is recorded. `again`: it may have forgotten them. */
type Occasion = "first" | "again";

/** One `createBatch` takes at most 100 instances or 1 MiB. */
const MAX_INSTANCES = 100;
const MAX_BYTES = 900_000;

/** What became of instances that were to be created, by their ids; those in neither were created now. */
interface Started {
  /** The platform's word on why. */
  failed: Map<string, string>;
  existed: Set<string>;
}

/** Creates instances, many in one call. That one exists already is success: its name is its key. Never throws. */
export async function startInstances(env: EngineEnv, instances: readonly Startable[], occasion: Occasion): Promise<Started> {
  const failed = new Map<string, string>();
  const existed = new Set<string>();
  const note = (id: string, message: string) => void (/already.exists/i.test(message) ? existed.add(id) : failed.set(id, message));
  const unique = [...new Map(instances.map((instance) => [instance.id, instance])).values()];
  for (const [workflow, group] of Map.groupBy(unique, (instance) => instance.workflow)) {
    for (const chunk of chunks(group)) {
      try {
        const { errors } = await workflowBinding(env, workflow).createBatch({
          instances: chunk.map((instance) => ({
            id: platformId(instance.id, instance.undo ?? null),
            params: paramsOf(instance, occasion),
          })),
        });
        for (const { index, message } of errors) {
          const id = chunk[index]?.id;
          if (id) note(id, message);
        }
      } catch (error) {
        for (const { id } of chunk) note(id, String(error));
      }
    }
  }
  return { failed, existed };
}

function paramsOf({ id, envelope, undo }: Startable, occasion: Occasion): Params {
  return { ...envelope, ...(occasion === "first" && { created_ms: Date.now() }), ...(undo && { undoes: id }) };
}

function chunks(instances: readonly Startable[]): Startable[][] {
  const all: Startable[][] = [[]];
  let bytes = 0;
  for (const instance of instances) {
    const size = byteLength(JSON.stringify(instance.envelope));
    if (all.at(-1)?.length === MAX_INSTANCES || bytes + size > MAX_BYTES) {
      all.push([]);
      bytes = 0;
    }
    all.at(-1)?.push(instance);
    bytes += size;
  }
  return all.filter((chunk) => chunk.length > 0);
}
