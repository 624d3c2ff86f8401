import { beginning } from "millrace";
import * as z from "zod";
import type { TextAnswer } from "../../providers/index.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { behindReasoning, jsonIn } from "./json-in-text.ts";
import { promptOf } from "./prompts.ts";

/** The parts of an article that a model writes. */
export interface WrittenArticle {
  title: string;
  /** One or two sentences; empty if the prompt asks for none. */
  description: string;
  /** Markdown, without the title. */
  body: string;
}

/** The result of reading an answer: an article, or the problem, worded for a person and for the model. */
export type ReadArticle = { article: WrittenArticle } | { bad: BadAnswer; problem: string };

const text = (max: number) => z.string().trim().min(1, "is empty").max(max, `is longer than ${max} characters`);

const Answer = z.object({ title: text(200), description: text(500), body_markdown: text(100_000) });

/** The schema for the model, in the subset that OpenAI enforces: all fields required, no others, no lengths. */
export const ANSWER_SCHEMA = {
  type: "object",
  properties: { title: { type: "string" }, description: { type: "string" }, body_markdown: { type: "string" } },
  required: ["title", "description", "body_markdown"],
  additionalProperties: false,
};

const MAX_REFUSAL_CHARACTERS = 300;

const UNREADABLE = "It was no chat completion: check that TEXT_URL points at the right service, and that TEXT_MODEL names a chat model.";

/** Reads a model's answer by the prompt it was asked with. */
export function readArticle(promptId: string, answer: TextAnswer): ReadArticle {
  if (answer.ending === "refused") {
    const words = answer.refusal && beginning(answer.refusal.replaceAll(/\s+/g, " ").trim(), MAX_REFUSAL_CHARACTERS);
    return { bad: "refused", problem: words ? `The model refused: "${words}"` : "The model, or its provider's filter, refused." };
  }
  // A reasoning model can use up its tokens before the first word. That is truncated too, and more tokens help.
  if (answer.ending === "truncated") return { bad: "truncated", problem: "It was truncated." };
  if (answer.ending === "unreadable") return { bad: "empty", problem: UNREADABLE };
  if (answer.text === "") return { bad: "empty", problem: "It was empty." };
  return promptOf(promptId).answer === "json" ? readJson(answer.text) : readMarkdown(answer.text);
}

function readJson(answer: string): ReadArticle {
  const found = jsonIn(answer, articleIn);
  if (found === undefined) return { bad: "malformed", problem: "It was not JSON." };
  return "value" in found ? { article: found.value } : { bad: "malformed", problem: found.problem };
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

function line(text: string): string {
  return text.replaceAll(/\s+/g, " ");
}

function readMarkdown(answer: string): ReadArticle {
  const article = markdownIn(answer) ?? markdownIn(behindReasoning(answer));
  return article ? { article } : { bad: "malformed", problem: "It did not have a # title followed by a body." };
}

function markdownIn(answer: string): WrittenArticle | undefined {
  const end = answer.indexOf("\n");
  const [title, body] = [answer.slice(1, end).trim(), answer.slice(end).trim()];
  return /^#\s/.test(answer) && end > 0 && title && body ? { title, description: "", body } : undefined;
}
