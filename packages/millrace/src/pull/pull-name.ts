import { objectNameOf, partsOf } from "../contract/object-name.ts";

/** Identifies one tenant's queue. Each queue of a tenant has a separate Durable Object. */
export interface PullName {
  queue: string;
  tenant: string;
}

export function objectName({ queue, tenant }: PullName): string {
  return objectNameOf([queue, tenant]);
}

/** Parses a name that `objectName` returned; undefined for a name in any other format. */
export function pullNameOf(name: string | undefined): PullName | undefined {
  const [queue, tenant] = partsOf(name, 2) ?? [];
  return typeof queue === "string" && typeof tenant === "string" ? { queue, tenant } : undefined;
}
