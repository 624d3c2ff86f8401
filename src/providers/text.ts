import type { CallOptions } from "./upstream.ts";

export interface TextRequest {
  /** The system prompt of the request. */
  system?: string;
  /** The user prompt of the request. */
  prompt: string;
  /** Maximum tokens of the answer, including reasoning. */
  maxTokens: number;
  /** The JSON schema of the answer: providers enforce it if they can. The answer is validated against the schema in any case. */
  json?: { name: string; schema: Record<string, unknown> };
}

/** The token counts that the provider reports; null for a missing count. */
interface TokenUsage {
  input: number | null;
  output: number | null;
  /** The number of cheaper input tokens from the provider's cache. These tokens are included in `input`. */
  cached: number | null;
  /** The number of output tokens for the model's reasoning. These tokens are included in `output`. */
  reasoning: number | null;
}

/** A model's answer with its cost. An unusable answer is paid for too, so it is a result and not an error. */
export interface TextAnswer {
  /** The text that the model has written; may be empty. */
  text: string;
  /**
   * How the answer ended: `whole`; `truncated` if it was cut by the token limit or a failure; `refused` if the model or the provider's
   * filter refused; `unreadable` for a response in another format, which a cache would return for this key again.
   */
  ending: "whole" | "truncated" | "refused" | "unreadable";
  /** The text of the model's refusal; null without a refusal. */
  refusal: string | null;
  /** The finish reason that the provider reported, or null. */
  finish: string | null;
  /** The provider's id of this answer, or null. */
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
