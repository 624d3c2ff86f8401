import * as z from "zod";
import type { TextAnswer, TextRequest } from "../../providers/index.ts";
import { jsonIn } from "./json-in-text.ts";
import { filled } from "./prompt-file.ts";
import { promptOf } from "./prompts.ts";
import { line, quoted } from "./quoted.ts";
import type { Research, Synthesis } from "./research.ts";
import { type Unusable, unusable } from "./usable.ts";

/** A request for a synthesis. The request determines the whole prompt, so each attempt sends the same request. */
export interface SynthesisAsk {
  research: Pick<Research, "brand" | "keyword" | "sources">;
  /** The prompt's id. */
  prompt: string;
  maxTokens: number;
  /** The reason why the previous answer could not be used; undefined if the reason does not help the model. */
  problem?: string;
}

const text = (max: number) => z.string().trim().min(1, "is empty").max(max, `is longer than ${max} characters`);

const Answer = z.object({
  title: text(200),
  summary: text(4000),
  key_points: z.array(text(300)).min(1).max(12),
  tags: z.array(text(60)).max(12),
});

/**
 * The schema for the model, in the subset that OpenAI enforces: all fields are required, other fields are forbidden, and lengths are not
 * limited.
 */
const SCHEMA = {
  type: "object",
  properties: {
    title: { type: "string" },
    summary: { type: "string" },
    key_points: { type: "array", items: { type: "string" } },
    tags: { type: "array", items: { type: "string" } },
  },
  required: ["title", "summary", "key_points", "tags"],
  additionalProperties: false,
};

/** Builds the request to the model for a synthesis. */
export function synthesisRequest({ research: { brand, keyword, sources }, prompt: id, maxTokens, problem }: SynthesisAsk): TextRequest {
  const { system, user, again } = promptOf(id);
  const asked = filled(user, { brand: line(brand), keyword: line(keyword), sources: sources.map(quoted).join("\n") });
  return {
    system,
    prompt: [asked, problem === undefined ? "" : filled(again, { problem })].filter(Boolean).join("\n\n"),
    maxTokens,
    json: { name: "synthesis", schema: SCHEMA },
  };
}

/** Reads a model's answer. */
export function readSynthesis(answer: TextAnswer): { good: Synthesis } | Unusable {
  const problem = unusable(answer);
  if (problem) return problem;
  const found = jsonIn(answer.text, synthesisIn);
  if (found === undefined) return { bad: "malformed", problem: "It was not JSON." };
  return "value" in found ? { good: found.value } : { bad: "malformed", problem: found.problem };
}

function synthesisIn(json: unknown): { value: Synthesis } | { problem: string } {
  const parsed = Answer.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { problem: `Its JSON does not match the schema: ${issue?.path.join(".") || "the whole"}: ${issue?.message}.` };
  }
  const { title, summary, key_points, tags } = parsed.data;
  const topics = tags.map((tag) => line(tag).toLowerCase());
  return { value: { title: line(title), summary, key_points: key_points.map(line), tags: [...new Set(topics)] } };
}
