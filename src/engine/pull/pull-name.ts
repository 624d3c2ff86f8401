/** Which queue: each tenant's has an object of its own. */
export interface PullName {
  queue: string;
  tenant: string;
}

/** The name of a queue's object: different queues never share one. */
export function objectName({ queue, tenant }: PullName): string {
  return JSON.stringify([queue, tenant]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function pullNameOf(name: string | undefined): PullName | undefined {
  try {
    const [queue, tenant] = JSON.parse(name ?? "");
    return typeof queue === "string" && typeof tenant === "string" ? { queue, tenant } : undefined;
  } catch {
    return undefined;
  }
}
