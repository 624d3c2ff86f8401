import { queueBinding, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { laneIn } from "../contract/queue.ts";
import type { Catalog } from "./catalog.ts";

/** What a Worker lacks of the workflows and queues of its catalog: sentences with the line to add. */
export function missingIn(env: object, catalog: Pick<Catalog, "workflows" | "consumers">): string[] {
  const queues = catalog.consumers.map(({ queue }) => queue.name).filter((name) => laneIn(name) === undefined);
  return [
    ...catalog.workflows.flatMap(({ name }) => said(() => workflowBinding(env, name))),
    ...queues.flatMap((name) => said(() => queueBinding(env, name))),
  ];
}

/** Why a workflow's instances cannot start in this Worker; undefined where they can. */
export function startsNot(env: object, workflow: string, catalog?: Pick<Catalog, "workflows">): string | undefined {
  const [missing] = said(() => workflowBinding(env, workflow));
  if (missing !== undefined || catalog === undefined || catalog.workflows.some(({ name }) => name === workflow)) return missing;
  return `This deployment has no workflow "${workflow}": add it to the catalog, and deploy.`;
}

function said(find: () => unknown): string[] {
  try {
    find();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}
