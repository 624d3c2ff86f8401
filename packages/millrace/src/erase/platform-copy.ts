import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { within } from "../contract/within.ts";

export interface PlatformInstance {
  id: string;
  workflow: string;
  undo: string | null;
}

/** The run of an instance's row. */
export function runOf({ id, workflow, undo }: Readonly<Record<string, unknown>>): PlatformInstance {
  return { id: String(id), workflow: String(workflow), undo: typeof undo === "string" ? undo : null };
}

/** Deletes a run on the platform, with its parameters and the results of its steps. A run that no longer exists is ignored. */
export async function deleteOnPlatform(env: EngineEnv, { id, workflow, undo }: PlatformInstance): Promise<void> {
  for (const name of [id, ...(undo === null ? [] : [platformId(id, undo)])]) {
    try {
      const instance = await within(workflowBinding(env, workflow).get(name));
      await within(instance.delete());
    } catch (error) {
      if (!/not.?found|does not exist/i.test(messageOf(error))) throw error;
    }
  }
}
