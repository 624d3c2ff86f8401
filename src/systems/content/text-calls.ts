import { query, type Statement, sql } from "millrace";
import type { TextAnswer } from "../../providers/index.ts";
import type { BadAnswer } from "./bad-answer.ts";

/** The record of a model's paid answer, without the text of the answer. */
export type Paid = Pick<TextAnswer, "id" | "model" | "finish" | "usage">;

/** One paid answer of the text model. */
export interface TextCall {
  tenantId: string;
  /** The article that the answer is for. This is also the instance's id. */
  contentId: string;
  /** The number of the answer for this article, from 1. */
  attempt: number;
  brand: string;
  /** The prompt's id. */
  prompt: string;
  maxTokens: number;
  outcome: "written" | BadAnswer;
  paid: Paid;
}

export function insertTextCall({ tenantId, contentId, attempt, brand, prompt, maxTokens, outcome, paid }: TextCall): Statement {
  const { input, output, cached, reasoning } = paid.usage;
  return sql`
    INSERT INTO text_calls (tenant_id, content_id, attempt, brand, prompt, model, answer_id, max_tokens,
      input_tokens, output_tokens, cached_tokens, reasoning_tokens, finish, outcome, paid_at)
    VALUES (${tenantId}, ${contentId}, ${attempt}, ${brand}, ${prompt}, ${paid.model}, ${paid.id}, ${maxTokens},
      ${input}, ${output}, ${cached}, ${reasoning}, ${paid.finish}, ${outcome}, ${sql.now})`;
}

/**
 * Returns the time at which an answer was recorded, in milliseconds by the database's clock. The function throws an error if the record is
 * missing, because the record is always written together with the step's outcome.
 */
export async function paidAt(db: D1Database, tenantId: string, contentId: string, attempt: number): Promise<number> {
  const [row] = await query<{ paid_at: number }>(
    db,
    sql`SELECT paid_at FROM text_calls WHERE tenant_id = ${tenantId} AND content_id = ${contentId} AND attempt = ${attempt}`,
  );
  if (!row) throw new Error(`Answer ${attempt} for ${contentId} is not recorded.`);
  return row.paid_at;
}

export interface TextCallRow {
  content_id: string;
  attempt: number;
  brand: string;
  prompt: string;
  model: string;
  answer_id: string | null;
  max_tokens: number;
  input_tokens: number | null;
  output_tokens: number | null;
  cached_tokens: number | null;
  reasoning_tokens: number | null;
  finish: string | null;
  outcome: TextCall["outcome"];
  paid_at: number;
}

/** The paid answers of an article, in order. */
export function textCallsOf(db: D1Database, tenantId: string, contentId: string): Promise<TextCallRow[]> {
  return query<TextCallRow>(
    db,
    sql`
      SELECT content_id, attempt, brand, prompt, model, answer_id, max_tokens, input_tokens, output_tokens, cached_tokens,
        reasoning_tokens, finish, outcome, paid_at
      FROM text_calls WHERE tenant_id = ${tenantId} AND content_id = ${contentId} ORDER BY attempt LIMIT 1000`,
  );
}

/** The usage of one model for one brand on one day. */
export interface TextUsage {
  /** A day in UTC, such as `2026-10-01`. */
  day: string;
  brand: string;
  model: string;
  answers: number;
  /** Unusable answers. */
  bad: number;
  /** Number of answers without usage data; the token counts do not include the tokens of these answers. */
  unknown: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  reasoning_tokens: number;
}

/** Returns a tenant's usage from a start time (inclusive) to an end time (exclusive), newest day first. */
export function textUsage(
  db: D1Database,
  tenantId: string,
  { brand, from, to }: { brand?: string | undefined; from: number; to: number },
): Promise<TextUsage[]> {
  return query<TextUsage>(
    db,
    sql`
      SELECT date(paid_at / 1000, 'unixepoch') AS day, brand, model, count(*) AS answers, sum(outcome <> 'written') AS bad,
        sum(input_tokens IS NULL OR output_tokens IS NULL) AS unknown,
        coalesce(sum(input_tokens), 0) AS input_tokens, coalesce(sum(output_tokens), 0) AS output_tokens,
        coalesce(sum(cached_tokens), 0) AS cached_tokens, coalesce(sum(reasoning_tokens), 0) AS reasoning_tokens
      FROM text_calls
      WHERE tenant_id = ${tenantId} AND paid_at >= ${from} AND paid_at < ${to} AND (${brand ?? null} IS NULL OR brand = ${brand ?? null})
      GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3`,
  );
}
