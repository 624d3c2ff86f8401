import type { TextRequest } from "../../providers/index.ts";
import { ANSWER_SCHEMA } from "./article-answer.ts";
import { filled } from "./prompt-file.ts";
import { promptOf } from "./prompts.ts";
import type { Research } from "./research.ts";

/** One request for an article: everything that decides its words, so that the same ask is the same request at every attempt. */
export interface ArticleAsk {
  research: Pick<Research, "brand" | "keyword" | "sources">;
  /** The prompt's id. */
  prompt: string;
  /** The most tokens the answer may have. */
  maxTokens: number;
  /** Why the answer before could not be used, if that is worth saying. */
  problem?: string;
}

/** What is sent to the model. */
export function articleRequest({ research, prompt: id, maxTokens, problem }: ArticleAsk): TextRequest {
  const prompt = promptOf(id);
  const { brand, keyword, sources } = research;
  const user = filled(prompt.user, {
    brand: line(brand),
    keyword: line(keyword),
    sources: sources.map(quoted).join("\n"),
    source_list: sources.map(({ title, url, description }) => `- ${line(title)} ${line(url)}\n  ${line(description)}`).join("\n"),
  });
  const again = problem === undefined ? "" : filled(prompt.again, { problem });
  return {
    system: prompt.system,
    prompt: [user, again].filter(Boolean).join("\n\n"),
    maxTokens,
    ...(prompt.answer === "json" && { json: { name: "article", schema: ANSWER_SCHEMA } }),
  };
}

/**
 * A source as one line of JSON: its words can neither begin a line of their own nor close the block they stand in, because line breaks
 * and angle brackets are escaped.
 */
function quoted({ title, url, description }: Research["sources"][number]): string {
  return JSON.stringify({ title, url, description })
    .replaceAll("<", "\\u003c")
    .replaceAll(">", "\\u003e")
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029");
}

/** A text on one line. */
function line(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
