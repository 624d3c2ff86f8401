import type { ArticleState, BrandState } from "./state.ts";
import type { Progress, Truth } from "./truth.ts";

/**
 * Maximum number of stored findings of one audit. The limit exists because a brand's first audit has very many findings, and a row of a
 * Durable Object is limited to 2 MB.
 */
const KEPT_FINDINGS = 1000;

const WORDS: Record<ArticleState, string> = {
  writing: "being written",
  failed: "given up",
  draft: "a draft",
  live: "live",
  unpublished: "taken down",
  rejected: "rejected",
};

/**
 * Corrects the agent's state, and returns each correction as a sentence. Records in D1 that are older than the agent's state are ignored.
 */
export function reconcile(state: BrandState, truth: Truth, at: number): string[] {
  const findings: string[] = [];
  for (const { research_id, keyword, at: researchedAt } of truth.research) {
    if (state.researched(research_id, keyword, researchedAt)) findings.push(`“${keyword}”: its research ${research_id} was not known.`);
  }
  for (const article of truth.articles) {
    const before = state.article(article.content_id);
    const { content_id, keyword, revision, state: now } = article;
    const changed = state.became(article, at) || state.correct(content_id, revision, now);
    // An operator's edit of a draft changes only its revision, and causes no event.
    if (!changed || before?.state === now) continue;
    const believed = before ? `it was recorded as ${WORDS[before.state]}` : "it was not known";
    findings.push(`“${keyword}”: the article ${content_id} is ${WORDS[now]} at revision ${revision}; ${believed}.`);
  }
  for (const id of truth.gone.articles) {
    if (state.forgetArticle(id)) findings.push(`The article ${id} does not exist: it is forgotten.`);
  }
  for (const id of truth.gone.research) {
    if (state.forgetResearch(id)) findings.push(`The research ${id} does not exist, or is no longer fresh: it is forgotten.`);
  }
  return [...findings, ...progressed(state, truth, at)];
}

/** Corrects the agent's state by the results of running work, and returns each correction as a sentence. */
export function progressed(state: BrandState, { begun, ended }: Progress, at: number): string[] {
  const findings: string[] = [];
  for (const { request, content_id, keyword } of begun) {
    if (state.begun(request, content_id, keyword, at)) findings.push(`“${keyword}”: its research has led on to the article ${content_id}.`);
  }
  for (const { instance_id, how } of ended) {
    const keyword = state.failed(instance_id);
    if (keyword !== undefined) findings.push(`“${keyword}” no longer counts as on its way: ${how} (${instance_id}).`);
  }
  return findings;
}

/** Returns all findings up to the limit; above the limit, the last line is the number of omitted findings. */
export function bounded(findings: string[]): string[] {
  const more = findings.length - KEPT_FINDINGS;
  return more > 0 ? [...findings.slice(0, KEPT_FINDINGS), `And ${more} more.`] : findings;
}
