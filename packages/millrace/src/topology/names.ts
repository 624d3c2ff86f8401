import type { Catalog } from "./catalog.ts";
import { routesOf } from "./consumer.ts";

/** Returns the names of a deployment's workflows and event types. The hashes in keys are computed from these names. */
export function namesOf(catalog: Pick<Catalog, "workflows" | "consumers">): { workflows: string[]; events: string[] } {
  return {
    workflows: catalog.workflows.map(({ name }) => name),
    events: [...new Set(routesOf(catalog.consumers).map(({ event }) => event.type))],
  };
}
