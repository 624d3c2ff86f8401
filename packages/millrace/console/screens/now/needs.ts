import { type Answer, get, type Item, type Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";

/** Items that need an operator. If the API refuses to return one kind of item, the other kinds are still shown. */
export interface Needs {
  causes: Result<Answer<"/v1/instances/causes">>;
  doubts: Result<Answer<"/v1/effects">>;
  questions: Result<Answer<"/v1/approvals">>;
  letters: Result<Answer<"/v1/dead-letters/causes">>;
  lanes: Result<Answer<"/v1/lanes/causes">>;
  bulk: Result<Answer<"/v1/bulk-actions">>;
  /** The alerts. Undefined if the token lacks the scope for alerts. */
  alerts?: Result<Answer<"/v1/alerts">>;
}

export const MOST = 20;

/** How long a bulk action remains in the list after it has stopped itself. */
const STOPPED_FOR_MS = 24 * 3_600_000;
/** States of a lane that need an operator. A lane that waits for a running instance needs no operator. */
const STANDS = new Set(["held", "blocked", "paused", "retrying", "unknown"]);

export async function readNeeds(): Promise<Result<Needs>> {
  const limit = String(MOST);
  const [causes, doubts, questions, letters, lanes, bulk, alerts] = await Promise.all([
    get("/v1/instances/causes", { query: { limit } }),
    get("/v1/effects", { query: { limit } }),
    get("/v1/approvals", { query: { state: "pending", limit } }),
    get("/v1/dead-letters/causes", { query: { limit } }),
    get("/v1/lanes/causes"),
    get("/v1/bulk-actions", { query: { state: "stopped", limit } }),
    may("observe") ? get("/v1/alerts", { query: { state: "firing", limit } }) : undefined,
  ]);
  // If a request for one kind of item has no response, the screen keeps its data.
  const refused = [causes, doubts, questions, letters, lanes, bulk].find((one) => !one.ok && one.problem.status === 0);
  if (refused && !refused.ok) return refused;
  const since = Date.now() - STOPPED_FOR_MS;
  return {
    ok: true,
    data: {
      ...{ causes, doubts, questions, letters },
      lanes: those(lanes, ({ state }) => STANDS.has(state)),
      bulk: those(bulk, ({ ended_at, left }) => left > 0 && Date.parse(ended_at ?? "") > since),
      ...(alerts && { alerts: those(alerts, ({ muted }) => muted === null) }),
    },
  };
}

function those<Row, Page extends { items: Row[] }>(found: Result<Page & { items: Row[] }>, isMeant: (row: Row) => boolean): Result<Page> {
  return found.ok ? { ok: true, data: { ...found.data, items: found.data.items.filter(isMeant) } } : found;
}

export interface Hour {
  instances: Item<"/v1/instances">[];
  /** True if the tenant has never had an instance. */
  isFirst: boolean;
}

export const MOST_READ = 200;

export async function readHour(since: string): Promise<Result<Hour>> {
  const found = await get("/v1/instances", { query: { since, limit: String(MOST_READ) } });
  if (!found.ok) return found;
  const { items: instances } = found.data;
  if (instances.length > 0) return { ok: true, data: { instances, isFirst: false } };
  const older = await get("/v1/instances", { query: { limit: "1" } });
  return older.ok ? { ok: true, data: { instances, isFirst: older.data.items.length === 0 } } : older;
}
