/**
 * The names that a catalog leaves to other Workers with the same database. The keeper, schedules and alerts of the catalog's Worker ignore
 * these names.
 */
export type Elsewhere = Readonly<Record<"workflows" | "queues" | "commands", ReadonlySet<string>>>;

export const NOWHERE: Elsewhere = { workflows: new Set(), queues: new Set(), commands: new Set() };

const left = new Set<string>();
const own = new Set<string>();

/**
 * Registers the workflows of a catalog with `elsewhere`, for functions that get an env and no catalog. An isolate may have several catalogs
 * that leave workflows to other Workers. If one of these catalogs runs a workflow, the workflow does not belong to another Worker.
 */
export function noteElsewhere(others: Iterable<string>, its: Iterable<string>): void {
  for (const name of others) left.add(name);
  for (const name of its) own.add(name);
}

/**
 * The workflows that a catalog leaves to other Workers; without `by`, the workflows that the catalogs of this isolate leave to other
 * Workers.
 */
export function leftBy(by: Elsewhere | undefined): ReadonlySet<string> {
  return by?.workflows ?? left.difference(own);
}
