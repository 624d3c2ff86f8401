import { MillraceError, type TraceContext, traces } from "millrace";
import type * as z from "zod";
import { jsonOf } from "./json.ts";
import { type Answer, type Counterpart, refusal, refusalIn } from "./refusal.ts";

/** The options of every external call. */
export interface CallOptions {
  /**
   * The idempotency key of the logical effect. Every attempt uses the same key, so an upstream that supports idempotency keys acts once.
   */
  key: string;
  /** Aborts the call, after which the call's outcome is unknown. By default a call is aborted after 60 seconds. */
  signal?: AbortSignal;
  /** The trace of the calling job, from an envelope or a step's arguments. Each external call has its own span in this trace. */
  trace?: TraceContext;
}

/** An external program: its URL, the app's credential, and the transport. */
export interface Upstream extends Counterpart {
  /** The base URL of the upstream. The path of a call is appended to this URL. */
  url: string;
  fetch(request: Request): Promise<Response>;
}

export interface UpstreamCall {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /**
   * Returns the error for a response that has a special meaning for this upstream. If the function returns undefined, the HTTP status has
   * its usual meaning.
   */
  meaning?(answer: Answer): MillraceError | undefined;
  /**
   * Finds the error in the body of a 2xx response. `refusedAs` converts a body with the field `error` to an error. By default `refusedAs`
   * reads the whole body.
   */
  readsErrors?(body: unknown, refusedAs: (body: unknown) => MillraceError | undefined): MillraceError | undefined;
}

/**
 * Time limit of a call. The limit is long enough for a model to write an article, and short enough that a call ends before the step's
 * lease.
 */
const CALL_TIMEOUT_MS = 60_000;

/**
 * Calls an upstream once and reads its response.
 *
 * @throws `retry_after`, `not_retryable`, `upstream_refused` if the upstream reports that it did nothing (see `refusal.ts`), also by an
 * `error` in the body of a 2xx; `in_progress` while the upstream still processes the same key; `unavailable` if the outcome is unknown: a
 * network failure, a 5xx, a timeout, or a response that does not match `schema`.
 */
export async function callUpstream<T>(upstream: Upstream, call: UpstreamCall, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
  const answer = await exchange(upstream, call, options);
  if (answer.status < 200 || answer.status > 299) {
    throw call.meaning?.(answer) ?? refusal(upstream, answer);
  }
  const json = jsonOf(answer.text);
  const refusedAs = (body: unknown) => refusalIn(upstream, answer, body, call.meaning);
  const refused = call.readsErrors ? call.readsErrors(json, refusedAs) : refusedAs(json);
  if (refused) throw refused;
  return readAnswer(upstream, answer.status, json, schema);
}

async function exchange(upstream: Upstream, call: UpstreamCall, options: CallOptions): Promise<Answer> {
  const request = new Request(upstream.url.replace(/\/+$/, "") + call.path, {
    method: call.method,
    headers: { ...call.headers },
    body: call.body,
    // Redirects are not followed, because a redirect would send the credential to another host.
    redirect: "manual",
    signal: options.signal ?? AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  try {
    const response = await traces.call(request, options.trace, (own) => upstream.fetch(own));
    return { status: response.status, headers: response.headers, text: await response.text() };
  } catch (cause) {
    throw new MillraceError("unavailable", `${upstream.name} did not respond. The outcome is unknown.`, { cause });
  }
}

function readAnswer<T>(upstream: Upstream, status: number, json: unknown, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;

  // An invalid response is not a refusal. A 2xx means that the upstream acted, so a `once` effect must not run again because of an invalid
  // response.
  const issues = parsed.error.issues.map(({ path, message }) => ({ path: path.join(".") || "(the whole answer)", message }));
  const [first] = issues;
  throw new MillraceError(
    "unavailable",
    `${upstream.name} answered ${status}, but not in the expected format: ${first?.path}: ${first?.message}. ` +
      "Check that its URL points at the right service.",
    { issues, upstreamStatus: status },
  );
}
