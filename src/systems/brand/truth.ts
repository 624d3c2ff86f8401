import { query, sql } from "millrace";
import { instances, statuses } from "millrace/operate";
import { FRESH_MS } from "./decide.ts";
import type { ArticleState, KnownArticle } from "./state.ts";

/** Work that an agent has recorded as running: research, or an article. */
export interface OpenWork {
  instance_id: string;
  /** The job that the work belongs to; null if unknown. */
  correlation_id: string | null;
  /** The time when the work started, in milliseconds. */
  at: number;
}

/** Records of an agent that should exist in D1 too. */
export interface Beliefs {
  open: OpenWork[];
  articles: string[];
  research: string[];
}

/** The results of running work that no event will report. */
export interface Progress {
  /** The research that has led to an article in progress. */
  begun: { request: string; content_id: string; keyword: string }[];
  /** The failed work, and the status with which each instance ended. */
  ended: { instance_id: string; how: string }[];
}

/** The state of a brand in D1. */
export interface Truth extends Progress {
  articles: KnownArticle[];
  research: { research_id: string; keyword: string; at: number }[];
  /** Records of the agent that are missing in D1. The audit searches for them before it reads the other fields. */
  gone: { articles: string[]; research: string[] };
}

/** Maximum time from the completion of an instance until its message has started the next instance. */
const BETWEEN_MS = 3_600_000;

const STATE: Record<string, ArticleState> = { draft: "draft", published: "live", unpublished: "unpublished", rejected: "rejected" };

/**
 * Reads the whole state of a brand from D1. The agent's records must have been read before, so that newer work does not count as missing.
 */
export async function truthOf(db: D1Database, tenantId: string, brand: string, beliefs: Beliefs): Promise<Truth> {
  const articles = await query<KnownArticle & { status: string }>(
    db,
    sql`SELECT id AS content_id, keyword, revision, status FROM articles WHERE tenant_id = ${tenantId} AND brand = ${brand}`,
  );
  const research = await query<Truth["research"][number]>(
    db,
    sql`
      SELECT id AS research_id, keyword, researched_at AS at FROM research
      WHERE tenant_id = ${tenantId} AND brand = ${brand} AND researched_at > ${Date.now() - FRESH_MS}`,
  );
  const [article, found] = [new Set(articles.map((row) => row.content_id)), new Set(research.map((row) => row.research_id))];
  return {
    articles: articles.map(({ status, ...row }) => ({ ...row, state: STATE[status] ?? "draft" })),
    research,
    gone: { articles: beliefs.articles.filter((id) => !article.has(id)), research: beliefs.research.filter((id) => !found.has(id)) },
    ...(await progressOf(db, tenantId, beliefs.open)),
  };
}

/** Reads the results of running work from the rows of its instances. */
export async function progressOf(db: D1Database, tenantId: string, open: readonly OpenWork[]): Promise<Progress> {
  if (open.length === 0) return { begun: [], ended: [] };
  const causes = open.map(({ instance_id }) => instance_id);
  const jobs = [...new Set(open.flatMap(({ correlation_id }) => correlation_id ?? []))];
  const status = await instances.statuses(db, tenantId, causes);
  const followers = await instances.followers(db, tenantId, { type: "research.completed", causes, jobs, field: "keyword" });
  const begun = followers.map(({ cause, id, said }) => ({ request: cause, content_id: id, keyword: said }));
  const led = new Set(begun.map(({ request }) => request));
  const ended = open
    .filter(({ instance_id }) => !led.has(instance_id))
    .flatMap(({ instance_id, at }) => howItEnded(instance_id, status.get(instance_id), Date.now() - at));
  return { begun, ended };
}

/** Selects the failed instances that are in progress again or have just completed, because an event will report their result. */
export async function revivedAmong(
  db: D1Database,
  tenantId: string,
  failed: readonly { instance_id: string; at: number }[],
): Promise<string[]> {
  if (failed.length === 0) return [];
  const ids = failed.map(({ instance_id }) => instance_id);
  const status = await instances.statuses(db, tenantId, ids);
  const isBack = ({ instance_id, at }: (typeof failed)[number]) => {
    const is = status.get(instance_id);
    return is !== undefined && (statuses.underWay.has(is) || (is === "complete" && Date.now() - at < BETWEEN_MS));
  };
  return failed.filter(isBack).map(({ instance_id }) => instance_id);
}

/** Selects those of the given instances that have ended without a result. */
export async function endedAmong(
  db: D1Database,
  tenantId: string,
  open: readonly { instance_id: string; at: number }[],
): Promise<ReadonlySet<string>> {
  if (open.length === 0) return new Set();
  const ids = open.map(({ instance_id }) => instance_id);
  const status = await instances.statuses(db, tenantId, ids);
  const ended = open.flatMap(({ instance_id, at }) => howItEnded(instance_id, status.get(instance_id), Date.now() - at));
  return new Set(ended.map(({ instance_id }) => instance_id));
}

function howItEnded(instance_id: string, status: string | undefined, ageMs: number): Progress["ended"] {
  if (statuses.stopped.has(status)) return [{ instance_id, how: `its instance is ${status}` }];
  if (ageMs < BETWEEN_MS) return [];
  if (status === undefined) return [{ instance_id, how: "it has no instance" }];
  return status === "complete" ? [{ instance_id, how: "its instance is complete and nothing followed from it" }] : [];
}
