import type { Envelope, RowStatement } from "millrace";

/** The requests to the code behind the routes of `probe.routed`, and its answers: the tests read and write it. */
export const routing = {
  /** Names of events with a call that throws. */
  failing: new Set<string>(),
  /** The number of creations under a name by `once`, and of failures of the next ones. */
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

/** A row about an event, each once. */
export function routedRow(id: string, name: string): RowStatement {
  return {
    text: `INSERT INTO probe_rows (id, kind, name) SELECT value->>'id', 'project', value->>'name' FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
    row: { id, name },
  };
}
