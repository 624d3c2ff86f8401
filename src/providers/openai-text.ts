import { MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { ChatCompletion, EmptyCompletion, messagesOf, readCompletion, unreadable } from "./chat-completion.ts";
import { jsonOf } from "./json.ts";
import { askedPauseMs } from "./openai-pause.ts";
import { type Answer, comeBack, OVERLOADED, refusal } from "./refusal.ts";
import type { Text, TextRequest } from "./text.ts";
import { callUpstream, type Upstream, type UpstreamCall } from "./upstream.ts";

/** How JSON can be requested from a server of text models. */
export const JSON_FORMATS = ["json_schema", "json_object", "none"] as const;
/** The name of the field with the token limit. Reasoning models need OpenAI's newer name, and many other servers require the older name. */
export const LIMIT_FIELDS = ["max_completion_tokens", "max_tokens"] as const;

/** The differences between servers with the API of chat completions. */
export interface Dialect {
  json: (typeof JSON_FORMATS)[number];
  limit: (typeof LIMIT_FIELDS)[number];
}

/** How long AI Gateway caches an answer. The platform can keep a finished instance for the same time. */
export const GATEWAY_CACHE_TTL_SECONDS = 7 * 24 * 60 * 60;

/** If a model fails, OpenRouter returns 200 and reports the failure in the body or in the body's choice. */
const Failed = z.object({ error: z.union([z.string().min(1), z.looseObject({})]) });
const FailedChoice = z.object({ choices: z.tuple([Failed], z.unknown()) });

/** The body of a successful response: a completion, `cut` for an incomplete body that is not JSON, or `none` for any other JSON. */
const Answered = z.union([
  ChatCompletion,
  EmptyCompletion,
  z.undefined().transform(() => "cut" as const),
  z.unknown().transform(() => "none" as const),
]);

/**
 * OpenAI chat completions, and compatible servers. `upstream.url` is an origin (`https://api.openai.com`, to which `/v1` is added) or the
 * full base URL of an SDK (`https://gateway.ai.cloudflare.com/v1/…/openai`). Behind Cloudflare AI Gateway, the engine's idempotency key is
 * the cache key, so a repeated request is free even if the model's vendor ignores `Idempotency-Key`.
 */
export function openAiText(upstream: Upstream, model: string, dialect: Partial<Dialect> = {}): Text {
  const { json = "json_schema", limit = "max_completion_tokens" } = dialect;
  const root = new URL(upstream.url).pathname === "/" ? "/v1" : "";
  return {
    async generate(request, options) {
      let isCached = false;
      const noting = async (asked: Request) => {
        const response = await upstream.fetch(asked);
        isCached = response.headers.get("cf-aig-cache-status") === "HIT";
        return response;
      };
      const call: UpstreamCall = {
        method: "POST",
        path: `${root}/chat/completions`,
        headers: {
          authorization: `Bearer ${upstream.credential.value}`,
          "content-type": "application/json",
          "idempotency-key": options.key,
          "cf-aig-cache-key": options.key,
          "cf-aig-cache-ttl": String(GATEWAY_CACHE_TTL_SECONDS),
        },
        body: JSON.stringify({
          model,
          messages: messagesOf(request),
          [limit]: request.maxTokens,
          response_format: formatOf(request, json),
        }),
        meaning: (refused) => meaningOf(upstream, refused),
        // A gateway would return a cached error for days, so only another key causes a new request.
        readsErrors: (body, refusedAs) => (isCached ? undefined : refusedAs(failureIn(body))),
      };
      const ask = () => callUpstream({ ...upstream, fetch: noting }, call, Answered, options);
      // The answer to this key may be paid for already, so the same key is used once more before another key is used.
      const first = await ask();
      const answer = first === "cut" ? await ask() : first;
      return answer === "cut" || answer === "none" ? unreadable(model) : readCompletion(answer, model);
    },
  };
}

/** Finds the failure that a response body without any text reports. A body with text counts as an answer, because the text is paid for. */
function failureIn(body: unknown): unknown {
  const { data } = ChatCompletion.safeParse(body);
  if (data?.choices[0]?.message?.content) return undefined;
  return FailedChoice.safeParse(body).data?.choices[0] ?? (data ? undefined : body);
}

function formatOf({ json }: TextRequest, format: Dialect["json"]): object | undefined {
  if (json === undefined || format === "none") return undefined;
  return format === "json_object" ? { type: "json_object" } : { type: "json_schema", json_schema: { ...json, strict: true } };
}

const Word = z.string().nullish().catch(null);
const ErrorBody = z.object({ error: z.object({ code: Word, type: Word }) });

/** Handles OpenAI's error codes that are more precise than the HTTP status. */
function meaningOf(upstream: Upstream, answer: Answer): MillraceError | undefined {
  const { status } = answer;
  const { code, type } = ErrorBody.safeParse(jsonOf(answer.text)).data?.error ?? {};
  // OpenAI's 429 means either too many requests or an account without credit. OpenRouter reports an account without credit by 402. A retry
  // of the step does not fix an account without credit.
  if (status === 402 || (status === 429 && (code === "insufficient_quota" || type === "insufficient_quota"))) {
    return notRetryable(`text answered ${status}: the account has no credit left. Add credit, then retry.`, status);
  }
  if (status === 429 || status === 503 || status === OVERLOADED) {
    const pauseMs = askedPauseMs(answer.headers);
    if (pauseMs !== undefined || status === 429) return comeBack(pauseMs, refusal(upstream, answer).message, status);
  }
  const isFiltered = status === 400 && (code === "content_filter" || code === "content_policy_violation");
  // A 403 response with "flagged" is a refusal by OpenRouter's moderation. Other servers return 403 for a wrong key.
  if (isFiltered || (status === 403 && /\bflagged\b/i.test(answer.text))) {
    return new MillraceError(
      "answer_refused",
      "The provider's filter stopped the request, and nothing was written. Change the request, then retry.",
      {
        terminal: true,
        upstreamStatus: status,
      },
    );
  }
  return undefined;
}
