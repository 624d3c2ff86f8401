import pRetry from "p-retry";
import { ApiRefusal, askerOf } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";

/** Times that a request is made again which got no answer, where that is safe. */
const AGAIN = 2;
/** No longer than this in all. */
const WITHIN_MS = 60_000;

/** An engine's API, as the verbs ask it. */
export interface AskedApi {
  readonly engine: AskedEngine;
  /** Reads. Without an answer it asks again by itself. */
  get<Answer>(path: string): Promise<Answer>;
  /** Acts, once: without an answer nobody knows whether it was done. */
  act<Answer>(path: string, body: object): Promise<Answer>;
  /** Sends what is the same however often it is sent. Without an answer it is sent again by itself. */
  send<Answer>(path: string, body: object, headers?: Record<string, string>): Promise<Answer>;
}

/** A request that may have been heard, and was not answered. */
class NotAnswered extends ApiRefusal {
  override readonly exitCode = 4;
}

/** Asks an engine. Errors: an `ApiRefusal` with the problem's own words; `NotReached`, `NotAnswered`. */
export function askedApi(engine: AskedEngine, stop: AbortSignal): AskedApi {
  const ask = askerOf(engine.url, engine.token);
  const failed = (error: unknown) => {
    throw orNotReached(engine, error);
  };
  const again = <Answer>(request: () => Promise<Answer>) =>
    pRetry(request, {
      retries: AGAIN,
      minTimeout: 500,
      maxRetryTime: WITHIN_MS,
      signal: stop,
      shouldRetry: ({ error }) => error instanceof ApiRefusal && mayPass(error),
    }).catch(failed);
  return {
    engine,
    get: (path) => again(() => ask("GET", path)),
    send: (path, body, headers) => again(() => ask("POST", path, body, headers)),
    act: (path, body) =>
      ask<never>("POST", path, body).catch((error: unknown) => {
        if (!(error instanceof ApiRefusal) || error.status !== undefined || wasNotHeard(error)) return failed(error);
        throw new NotAnswered(`${error.message} The result is unknown: check before you repeat the command.`, { cause: error });
      }),
  };
}

/** True for what the same request may do without: no answer, or an engine in trouble for the moment. */
function mayPass(error: ApiRefusal): boolean {
  if (error.status === undefined) return !wasNotHeard(error);
  return error.status === 503 && error.problem?.retryable === true;
}

/** True where nothing took the connection: no engine has heard of the request, and none will in a moment. */
function wasNotHeard({ cause }: ApiRefusal): boolean {
  const { code } = ((cause as Error | undefined)?.cause ?? {}) as { code?: string };
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN";
}
