import * as z from "zod";
import type { TextAnswer } from "../../providers/index.ts";
import { behindReasoning, jsonIn } from "./json-in-text.ts";
import { promptOf } from "./prompts.ts";
import { line } from "./quoted.ts";
import { type Unusable, unusable } from "./usable.ts";

/** The parts of an article that a model writes. */
export interface WrittenArticle {
  title: string;
  /** The description in one or two sentences; empty if the prompt asks for none. */
  description: string;
  /** The body of the article in Markdown, without the title. */
  body: string;
}

/** The result of reading a model's answer: an article, or a description of the problem that a person and the model can understand. */
export type ReadArticle = { good: WrittenArticle } | Unusable;

/** Maximum lengths of an article's texts, in characters, and the maximum number of key points. */
export const ARTICLE_LIMITS = { title: 200, description: 500, body: 100_000, keyPoint: 300, keyPoints: 12 } as const;

const text = (max: number) => z.string().trim().min(1, "is empty").max(max, `is longer than ${max} characters`);

const Answer = z.object({
  title: text(ARTICLE_LIMITS.title),
  description: text(ARTICLE_LIMITS.description),
  body_markdown: text(ARTICLE_LIMITS.body),
});

/**
 * The JSON schema of an answer for the model, in the subset that OpenAI enforces: all fields are required, other fields are forbidden, and
 * lengths are not limited.
 */
export const ANSWER_SCHEMA = {
  type: "object",
  properties: { title: { type: "string" }, description: { type: "string" }, body_markdown: { type: "string" } },
  required: ["title", "description", "body_markdown"],
  additionalProperties: false,
};

/** Reads a model's answer in the format that the prompt requires. */
export function readArticle(promptId: string, answer: TextAnswer): ReadArticle {
  const problem = unusable(answer);
  if (problem) return problem;
  return promptOf(promptId).answer === "json" ? readJson(answer.text) : readMarkdown(answer.text);
}

function readJson(answer: string): ReadArticle {
  const found = jsonIn(answer, articleIn);
  if (found === undefined) return { bad: "malformed", problem: "It was not JSON." };
  return "value" in found ? { good: found.value } : { bad: "malformed", problem: found.problem };
}

function articleIn(json: unknown): { value: WrittenArticle } | { problem: string } {
  const parsed = Answer.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { problem: `Its JSON does not match the schema: ${issue?.path.join(".") || "the whole"}: ${issue?.message}.` };
  }
  const { title, description, body_markdown: body } = parsed.data;
  return { value: { title: line(title), description: line(description), body } };
}

function readMarkdown(answer: string): ReadArticle {
  const article = markdownIn(answer) ?? markdownIn(behindReasoning(answer));
  return article ? { good: article } : { bad: "malformed", problem: "It did not have a # title followed by a body." };
}

function markdownIn(answer: string): WrittenArticle | undefined {
  const end = answer.indexOf("\n");
  const [title, body] = [answer.slice(1, end).trim(), answer.slice(end).trim()];
  return /^#\s/.test(answer) && end > 0 && title && body ? { title, description: "", body } : undefined;
}
