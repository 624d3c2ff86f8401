import type { Catalog } from "./catalog.ts";
import { routesOf } from "./consumer.ts";

/** What a deployment's workflows are called, and the types of events that it takes: keys are hashed with these names. */
export function namesOf(catalog: Pick<Catalog, "workflows" | "consumers">): { workflows: string[]; events: string[] } {
  return {
    workflows: catalog.workflows.map(({ name }) => name),
    events: [...new Set(routesOf(catalog.consumers).map(({ event }) => event.type))],
  };
}
