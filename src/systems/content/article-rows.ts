import { query, type Statement, sql } from "millrace";
import { keysetPage, type Page, type PageRequest } from "millrace/operate";
import type { Article } from "./articles.ts";

/** An article, with the fields that a list of the tenant's articles shows. */
export interface ArticleRow extends Omit<Article, "tenantId" | "body" | "store" | "edits"> {
  /** The brand's template, and the research from which the article was written; null for older articles. */
  template: string | null;
  researchId: string | null;
  /** The post that announced the article; null before the announcement. */
  postUri: string | null;
  /** The model that wrote the article, and the number of tokens that the model used. */
  model: string;
  inputTokens: number;
  outputTokens: number;
  /** The time of the draft in milliseconds. */
  createdAt: number;
}

export interface ArticleFilter extends PageRequest {
  brand?: string | undefined;
  status?: Article["status"] | undefined;
}

const COLUMNS = sql.fragment(`id, brand, keyword, slug, title, description, key_points AS keyPoints, word_count AS wordCount, template,
    research_id AS researchId, status, revision, url, post_uri AS postUri, model, input_tokens AS inputTokens,
    output_tokens AS outputTokens, created_at AS createdAt, published_at AS publishedAt`);

/** Lists a tenant's articles, newest first. */
export function listArticles(db: D1Database, tenantId: string, { brand, status, ...request }: ArticleFilter): Promise<Page<ArticleRow>> {
  return keysetPage<ArticleRow>(
    request,
    ({ createdAt, id }) => ({ at: createdAt, id }),
    async (before, limit) => {
      const rows = await query<Stored<ArticleRow>>(
        db,
        sql`
          SELECT ${COLUMNS} FROM articles
          WHERE tenant_id = ${tenantId} ${brand === undefined ? sql`` : sql`AND brand = ${brand}`} ${hasStatus(status)}
            AND (created_at, id) < (${before.at}, ${before.id})
          ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
      );
      return rows.map(parsed);
    },
  );
}

/** Reads one article with its Markdown; undefined if the tenant has none with this id. */
export async function findArticle(db: D1Database, tenantId: string, id: string): Promise<(ArticleRow & { body: string }) | undefined> {
  const [row] = await query<Stored<ArticleRow & { body: string }>>(
    db,
    sql`SELECT ${COLUMNS}, body FROM articles WHERE id = ${id} AND tenant_id = ${tenantId}`,
  );
  return row && parsed(row);
}

/** An article's row as it is stored: lists are stored as JSON. */
type Stored<Row extends ArticleRow> = Omit<Row, "keyPoints"> & { keyPoints: string };

function parsed<Row extends ArticleRow>(row: Stored<Row>): Row {
  return { ...row, keyPoints: JSON.parse(row.keyPoints) } as Row;
}

function hasStatus(status: string | undefined): Statement {
  return status === undefined ? sql`` : sql`AND status = ${status}`;
}
