import { isElsewhere, queueBinding, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { laneIn } from "../contract/queue.ts";
import type { Catalog } from "./catalog.ts";
import { ownOf } from "./consumer.ts";

/** Lists the catalog's workflows and queues without a binding in this Worker. Each sentence contains the line to add. */
export function missingIn(env: object, catalog: Pick<Catalog, "workflows" | "consumers" | "elsewhere">): string[] {
  const queues = ownOf(catalog.consumers)
    .map(({ queue }) => queue.name)
    .filter((name) => laneIn(name) === undefined);
  return [
    ...catalog.workflows.flatMap(({ name }) =>
      isElsewhere(env, name, catalog.elsewhere) ? [] : refusalOf(() => workflowBinding(env, name, catalog.elsewhere)),
    ),
    ...queues.flatMap((name) => refusalOf(() => queueBinding(env, name))),
  ];
}

/** Returns the reason why a workflow's instances cannot start in this Worker; undefined if the instances can start. */
export function notStartable(env: object, workflow: string, catalog?: Pick<Catalog, "workflows" | "elsewhere">): string | undefined {
  if (isElsewhere(env, workflow, catalog?.elsewhere)) return undefined;
  const [missing] = refusalOf(() => workflowBinding(env, workflow, catalog?.elsewhere));
  if (missing !== undefined || catalog === undefined || catalog.workflows.some(({ name }) => name === workflow)) return missing;
  return `This deployment has no workflow "${workflow}": add it to the catalog, and deploy.`;
}

function refusalOf(find: () => unknown): string[] {
  try {
    find();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}
