import type { CallOptions } from "./upstream.ts";

export interface TextRequest {
  /** The system prompt. */
  system?: string;
  /** The user prompt. */
  prompt: string;
  /** Most tokens of the answer, including reasoning. */
  maxTokens: number;
  /** The JSON schema of the answer: providers enforce it if they can. The answer is validated in any case. */
  json?: { name: string; schema: Record<string, unknown> };
}

/** Tokens by the provider's count; null if it reports none. */
interface TokenUsage {
  input: number | null;
  output: number | null;
  /** Cheaper input tokens from the provider's cache. They are included in `input`. */
  cached: number | null;
  /** Output tokens of the model's reasoning. They are included in `output`. */
  reasoning: number | null;
}

/** A model's answer with its cost. An unusable answer is paid for too, so it is a result and not an error. */
export interface TextAnswer {
  /** The written text; may be empty. */
  text: string;
  /**
   * How it ended: `whole`; `truncated` by the token limit or a failure; `refused` by the model or the provider's filter. `unreadable`: a
   * response in another format, which a cache would return for this key again.
   */
  ending: "whole" | "truncated" | "refused" | "unreadable";
  /** The model's refusal; null for none. */
  refusal: string | null;
  /** The provider's finish reason; null for none. */
  finish: string | null;
  /** The provider's id of this answer; null for none. */
  id: string | null;
  /** The model that wrote the text, by the provider's name. */
  model: string;
  usage: TokenUsage;
}

/** Text generation. */
export interface Text {
  /**
   * Requests one text.
   *
   * Errors: `retry_after`, `not_retryable`, `upstream_refused` and `answer_refused` (a filter stopped the request) if nothing was written
   * or charged; `unavailable` and `in_progress` if the outcome is unknown.
   */
  generate(request: TextRequest, options: CallOptions): Promise<TextAnswer>;
}
