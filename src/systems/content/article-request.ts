import type { TextRequest } from "../../providers/index.ts";
import { ANSWER_SCHEMA } from "./article-answer.ts";
import { filled } from "./prompt-file.ts";
import { promptOf } from "./prompts.ts";
import type { Research } from "./research.ts";

/** A request for an article. It determines the whole prompt, so each attempt sends the same request. */
export interface ArticleAsk {
  research: Pick<Research, "brand" | "keyword" | "sources">;
  /** The prompt's id. */
  prompt: string;
  /** The most tokens the answer may have. */
  maxTokens: number;
  /** Why the previous answer could not be used, if it helps the model. */
  problem?: string;
}

/** The request to the model. */
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
 * A source as one line of JSON. Line breaks and angle brackets are escaped, so its text cannot start a new line or close the surrounding
 * block.
 */
function quoted({ title, url, description }: Research["sources"][number]): string {
  return JSON.stringify({ title, url, description })
    .replaceAll("<", "\\u003c")
    .replaceAll(">", "\\u003e")
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029");
}

function line(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
