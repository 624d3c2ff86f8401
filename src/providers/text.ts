import type { CallOptions } from "./upstream.ts";

export interface TextRequest {
  /** How to write. */
  system?: string;
  /** What to write. */
  prompt: string;
  /** The most tokens the answer may have, those it thinks with included. */
  maxTokens: number;
  /** The shape of the answer, when it shall be JSON: what a provider can enforce, it does. The reader checks it all the same. */
  json?: { name: string; schema: Record<string, unknown> };
}

/** Tokens, as the provider counts them; null where it does not say. */
interface TokenUsage {
  input: number | null;
  output: number | null;
  /** Input tokens that were cheaper, because the provider remembered them. Part of `input`. */
  cached: number | null;
  /** Output tokens that the model thought with. Part of `output`. */
  reasoning: number | null;
}

/**
 * What a model answered, and what it cost: an answer is paid for whether it can be used or not, so one that cannot be used is
 * an answer too and no error.
 */
export interface TextAnswer {
  /** What was written; empty when nothing was. */
  text: string;
  /**
   * How it ended: `whole`, `truncated` at the most tokens it may have or by a failure, or `refused` by the model or the provider's filter.
   * `unreadable` is something else than the format's answer, which a cache would give for this key again and again.
   */
  ending: "whole" | "truncated" | "refused" | "unreadable";
  /** The model's own words for refusing; null when it gave none. */
  refusal: string | null;
  /** The provider's word for how it ended; null when it said none. */
  finish: string | null;
  /** What the provider calls this answer on its side; null when it has no name. */
  id: string | null;
  /** The model that wrote it, as the provider names it. */
  model: string;
  usage: TokenUsage;
}

/** Text generation. */
export interface Text {
  /**
   * Asks for one text.
   *
   * Errors: `retry_after`, `not_retryable`, `upstream_refused` and `answer_refused` (a filter stopped the request) when nothing was
   * written and nothing is to be paid; `unavailable` and `in_progress` when nobody can say.
   */
  generate(request: TextRequest, options: CallOptions): Promise<TextAnswer>;
}
