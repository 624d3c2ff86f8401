import type { TextRequest } from "../../providers/index.ts";
import { DEFAULT_STYLE, type Style } from "../brand/templates.ts";
import { ANSWER_SCHEMA } from "./article-answer.ts";
import { filled } from "./prompt-file.ts";
import { promptOf } from "./prompts.ts";
import { line, quoted, quotedJson } from "./quoted.ts";
import type { Research } from "./research.ts";

/** The research from which an article is written; older research has no synthesis. */
export type ArticleResearch = Pick<Research, "brand" | "keyword" | "sources"> & Partial<Pick<Research, "synthesis">>;

/** A request to a model for an article. The request determines the whole prompt, so each attempt sends the same request. */
export interface ArticleAsk {
  research: ArticleResearch;
  /** The brand's settings for the text. The settings are undefined in instances that are older than templates. */
  style?: Style;
  /** The id of the prompt, such as "article.v3". */
  prompt: string;
  /** The maximum number of tokens of the model's answer. */
  maxTokens: number;
  /** The reason why the previous answer could not be used; undefined if the reason does not help the model. */
  problem?: string;
}

/** Builds the request to the model for an article. */
export function articleRequest({ research, style = DEFAULT_STYLE, prompt: id, maxTokens, problem }: ArticleAsk): TextRequest {
  const prompt = promptOf(id);
  const { brand, keyword, sources, synthesis } = research;
  const user = filled(prompt.user, {
    brand: line(brand),
    keyword: line(keyword),
    template: prompt.templates[style.template] ?? "",
    instructions: style.instructions ? quotedJson(style.instructions) : "",
    synthesis: synthesis ? quotedJson({ summary: synthesis.summary, key_points: synthesis.key_points }) : "",
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
