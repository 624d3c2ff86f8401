import type { Envelope } from "millrace";

/** Behaviour and records of the routes of `probe.routed`, which the tests write and read. */
export const routing = {
  /** Names of events for which the route's call throws. */
  failing: new Set<string>(),
  /** `made` counts the creations of each value of `once`, by its name; `failFirst` is the number of first creations that fail. */
  made: new Map<string, number>(),
  failFirst: new Map<string, number>(),
  confirmed: [] as Envelope[],
  confirmFails: false,
};

export async function make(name: string): Promise<number> {
  const times = (routing.made.get(name) ?? 0) + 1;
  routing.made.set(name, times);
  if (times <= (routing.failFirst.get(name) ?? 0)) throw new Error(`${name} failed.`);
  return times;
}

/** A row for an event; a second row with the same id is ignored. */
export function routedRow(id: string, name: string) {
  return {
    text: `INSERT INTO probe_rows (id, kind, name) SELECT value->>'id', 'project', value->>'name' FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
    row: { id, name },
  };
}
