import { type Answer, get, type Item, type Result } from "../../data/api.ts";

/** What waits for a person: each part as it was answered, because one that is refused hides no other. */
export interface Needs {
  causes: Result<Answer<"/v1/instances/causes">>;
  doubts: Result<Answer<"/v1/effects">>;
  questions: Result<Answer<"/v1/approvals">>;
  letters: Result<Answer<"/v1/dead-letters/causes">>;
  lanes: Result<Answer<"/v1/lanes">>;
}

export const MOST = 20;

export async function readNeeds(): Promise<Result<Needs>> {
  const limit = String(MOST);
  const [causes, doubts, questions, letters, lanes] = await Promise.all([
    get("/v1/instances/causes", { query: { limit } }),
    get("/v1/effects", { query: { limit } }),
    get("/v1/approvals", { query: { state: "pending", limit } }),
    get("/v1/dead-letters/causes", { query: { limit } }),
    get("/v1/lanes", { query: { limit } }),
  ]);
  // Without one answer there is nothing to show, and what is shown stays.
  const refused = [causes, doubts, questions, letters, lanes].find((one) => !one.ok && one.problem.status === 0);
  return refused && !refused.ok ? refused : { ok: true, data: { causes, doubts, questions, letters, lanes } };
}

/** The newest instances of the last hour. */
export async function readHour(since: string): Promise<Result<Item<"/v1/instances">[]>> {
  const found = await get("/v1/instances", { query: { since, limit: "200" } });
  return found.ok ? { ok: true, data: found.data.items } : found;
}
