import { notRetryable, query, type Statement, sql } from "millrace";
import { keysetPage, type Page, type PageRequest } from "millrace/operate";
import type { SearchResult } from "../../providers/index.ts";
import { keywordKey } from "../brand/keyword.ts";
import type { Paid } from "./text-calls.ts";

/** A model's summary of a keyword's sources. */
export interface Synthesis {
  title: string;
  summary: string;
  key_points: string[];
  tags: string[];
}

/** The research of a keyword. */
export interface Research {
  id: string;
  tenantId: string;
  brand: string;
  keyword: string;
  sources: SearchResult[];
  /** Undefined if the search had no results, and for research from before syntheses existed. */
  synthesis?: Synthesis;
}

/** The prompt of a synthesis, and all paid answers for the synthesis. */
export interface SynthesizedBy {
  prompt: string;
  paid: readonly Paid[];
}

/** Stores research with its synthesis, and with the known tokens of all paid answers for the synthesis. */
export function insertResearch({ id, tenantId, brand, keyword, sources, synthesis }: Research, by?: SynthesizedBy): Statement {
  const { title = null, summary = null, key_points = [], tags = [] } = synthesis ?? {};
  const { prompt = null, paid = [] } = by ?? {};
  const tokens = (kind: "input" | "output") => paid.reduce((sum, { usage }) => sum + (usage[kind] ?? 0), 0);
  return sql`
    INSERT INTO research (id, tenant_id, brand, keyword, sources, title, summary, key_points, tags, prompt, model, input_tokens,
      output_tokens, researched_at)
    VALUES (${id}, ${tenantId}, ${brand}, ${keyword}, ${JSON.stringify(sources)}, ${title}, ${summary}, ${JSON.stringify(key_points)},
      ${JSON.stringify(tags)}, ${prompt}, ${paid.at(-1)?.model ?? null}, ${tokens("input")}, ${tokens("output")}, ${sql.now})`;
}

interface Row {
  id: string;
  brand: string;
  keyword: string;
  sources: string;
  title: string | null;
  summary: string | null;
  key_points: string;
  tags: string;
  prompt: string | null;
  model: string | null;
  input_tokens: number;
  output_tokens: number;
  /** In milliseconds. */
  researched_at: number;
}

export interface ResearchView extends Omit<Row, "sources" | "key_points" | "tags"> {
  sources: SearchResult[];
  key_points: string[];
  tags: string[];
}

interface ResearchFilter {
  brand?: string | undefined;
  keyword?: string | undefined;
  topic?: string | undefined;
}

/** A tenant's research; undefined if the tenant has none with this id. */
export async function findResearch(db: D1Database, tenantId: string, id: string): Promise<ResearchView | undefined> {
  const [row] = await query<Row>(
    db,
    sql`
      SELECT id, brand, keyword, sources, title, summary, key_points, tags, prompt, model, input_tokens, output_tokens, researched_at
      FROM research WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  return row && parsed(row);
}

/**
 * Lists the research of a tenant, newest first, optionally filtered by brand, keyword or topic. The topic must equal the research's keyword
 * or one of its tags. Keyword and topic match regardless of upper and lower case.
 */
export function listResearch(
  db: D1Database,
  tenantId: string,
  { brand, keyword, topic, ...request }: PageRequest & ResearchFilter,
): Promise<Page<ResearchView>> {
  const only = sql`
    ${brand === undefined ? sql`` : sql`AND brand = ${brand}`}
    ${keyword === undefined ? sql`` : sql`AND keyword = ${keyword} COLLATE NOCASE`}
    ${topic === undefined ? sql`` : withTopic(topic)}`;
  return keysetPage<ResearchView>(
    request,
    ({ researched_at, id }) => ({ at: researched_at, id }),
    async (before, limit) => {
      const rows = await query<Row>(
        db,
        sql`
          SELECT id, brand, keyword, sources, title, summary, key_points, tags, prompt, model, input_tokens, output_tokens, researched_at
          FROM research
          WHERE tenant_id = ${tenantId} ${only}
            AND (researched_at, id) < (${before.at}, ${before.id})
          ORDER BY researched_at DESC, id DESC LIMIT ${limit}`,
      );
      return rows.map(parsed);
    },
  );
}

function withTopic(topic: string): Statement {
  const tag = sql`EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ${topic.toLowerCase()})`;
  return sql`AND (keyword = ${topic} COLLATE NOCASE OR ${tag})`;
}

function parsed({ sources, key_points, tags, ...row }: Row): ResearchView {
  return { ...row, sources: JSON.parse(sources), key_points: JSON.parse(key_points), tags: JSON.parse(tags) };
}

/** A tenant's research. Throws if the research is missing: it is always stored before its event is published. */
export async function loadResearch(db: D1Database, tenantId: string, id: string): Promise<Research> {
  const row = await findResearch(db, tenantId, id);
  if (!row) throw new Error(`There is no research ${id}.`);
  const { brand, keyword, sources, title, summary, key_points, tags } = row;
  const synthesis = title !== null && summary !== null ? { title, summary, key_points, tags } : undefined;
  return { id, tenantId, brand, keyword, sources, ...(synthesis && { synthesis }) };
}

/** Checks that research to reuse exists, and is about this brand and keyword. Errors: `not_retryable`. */
export async function assertReusable(
  db: D1Database,
  { id, tenantId, brand, keyword }: Pick<Research, "id" | "tenantId" | "brand" | "keyword">,
): Promise<void> {
  const [found] = await query<{ brand: string; keyword: string }>(
    db,
    sql`SELECT brand, keyword FROM research WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  if (found?.brand === brand && keywordKey(found.keyword) === keywordKey(keyword)) return;
  const what = found ? `is about “${found.keyword}” of ${found.brand}` : "does not exist";
  throw notRetryable(`The research ${id} ${what}: leave \`reuse\` out to have “${keyword}” of ${brand} researched.`);
}
