import { objectNameOf, partsOf } from "../contract/object-name.ts";

/** Identifies one tenant's queue. Each queue of a tenant has its own object. */
export interface PullName {
  queue: string;
  tenant: string;
}

export function objectName({ queue, tenant }: PullName): string {
  return objectNameOf([queue, tenant]);
}

/** Parses the name that `objectName` made; undefined for a name in another format. */
export function pullNameOf(name: string | undefined): PullName | undefined {
  const [queue, tenant] = partsOf(name, 2) ?? [];
  return typeof queue === "string" && typeof tenant === "string" ? { queue, tenant } : undefined;
}
