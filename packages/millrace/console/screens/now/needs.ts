import { type Answer, get, type Item, type Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";

/** What waits for a person: each part as it was answered, because one that is refused hides no other. */
export interface Needs {
  causes: Result<Answer<"/v1/instances/causes">>;
  doubts: Result<Answer<"/v1/effects">>;
  questions: Result<Answer<"/v1/approvals">>;
  letters: Result<Answer<"/v1/dead-letters/causes">>;
  lanes: Result<Answer<"/v1/lanes/causes">>;
  bulk: Result<Answer<"/v1/bulk-actions">>;
  /** Undefined for whoever may not see them. */
  alerts?: Result<Answer<"/v1/alerts">>;
}

export const MOST = 20;

/** A bulk action that stopped itself is told of for so long: then somebody has left it. */
const STOPPED_FOR_MS = 24 * 3_600_000;
/** Lanes that wait for what is under way need nobody. */
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
  // Without one answer there is nothing to show, and what is shown stays.
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

/** What the last hour brought. */
export interface Hour {
  /** The newest of it. */
  instances: Item<"/v1/instances">[];
  /** True where nothing was ever asked for. */
  isFirst: boolean;
}

/** Instances of the hour that are read. */
export const MOST_READ = 200;

export async function readHour(since: string): Promise<Result<Hour>> {
  const found = await get("/v1/instances", { query: { since, limit: String(MOST_READ) } });
  if (!found.ok) return found;
  const { items: instances } = found.data;
  if (instances.length > 0) return { ok: true, data: { instances, isFirst: false } };
  const older = await get("/v1/instances", { query: { limit: "1" } });
  return older.ok ? { ok: true, data: { instances, isFirst: older.data.items.length === 0 } } : older;
}
