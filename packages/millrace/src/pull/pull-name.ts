import { objectNameOf, partsOf } from "../contract/object-name.ts";

/** Which queue: each tenant's has an object of its own. */
export interface PullName {
  queue: string;
  tenant: string;
}

/** The name of a queue's object. */
export function objectName({ queue, tenant }: PullName): string {
  return objectNameOf([queue, tenant]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function pullNameOf(name: string | undefined): PullName | undefined {
  const [queue, tenant] = partsOf(name, 2) ?? [];
  return typeof queue === "string" && typeof tenant === "string" ? { queue, tenant } : undefined;
}
