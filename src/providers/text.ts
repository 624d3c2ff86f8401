import type { CallOptions } from "./upstream.ts";

export interface TextRequest {
  /** The system prompt of the request. */
  system?: string;
  /** The user prompt of the request. */
  prompt: string;
  /** Maximum tokens of the answer, including reasoning. */
  maxTokens: number;
  /** The JSON schema of the answer. Some providers enforce the schema, but the answer must be validated against the schema in any case. */
  json?: { name: string; schema: Record<string, unknown> };
}

/** The token counts that the provider reports. A missing count is null. */
interface TokenUsage {
  input: number | null;
  output: number | null;
  /** The number of input tokens that came from the provider's cache, at a lower price. These tokens are included in `input`. */
  cached: number | null;
  /** The number of output tokens for the model's reasoning. These tokens are included in `output`. */
  reasoning: number | null;
}

/**
 * A model's answer with the cost of the answer. An unusable answer is also paid for, so an unusable answer is a result and not an error.
 */
export interface TextAnswer {
  /** The text that the model has written. The text may be empty. */
  text: string;
  /**
   * How the answer ended: `whole`; `truncated` if the token limit or a failure ended the answer early; `refused` if the model or the
   * provider's filter refused to answer; `unreadable` for a response in an unknown format, which a cache would return again for this key.
   */
  ending: "whole" | "truncated" | "refused" | "unreadable";
  /** The text of the model's refusal; null without a refusal. */
  refusal: string | null;
  /** The finish reason that the provider reported, or null. */
  finish: string | null;
  /** The id that the provider gave to this answer, or null. */
  id: string | null;
  /** The model that wrote the text, by the provider's name. */
  model: string;
  usage: TokenUsage;
}

/** A provider of text generation. */
export interface Text {
  /**
   * Requests one text from the model.
   *
   * Errors: `retry_after`, `not_retryable`, `upstream_refused` and `answer_refused` (a filter stopped the request) if nothing was written
   * or charged; `unavailable` and `in_progress` if the outcome is unknown.
   */
  generate(request: TextRequest, options: CallOptions): Promise<TextAnswer>;
}
