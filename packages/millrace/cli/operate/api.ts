import pRetry from "p-retry";
import { ApiRefusal, askerOf } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";

/** Repeats of a request without an answer, where a repeat is safe. */
const AGAIN = 2;
/** Time limit for all attempts. */
const WITHIN_MS = 60_000;

export interface AskedApi {
  readonly engine: AskedEngine;
  /** Sends a GET, which is repeated without an answer. */
  get<Answer>(path: string): Promise<Answer>;
  /** Sends a POST once: without an answer, its effect is unknown. */
  act<Answer>(path: string, body: object): Promise<Answer>;
  /** Sends a POST that is idempotent, and repeats it without an answer. */
  send<Answer>(path: string, body: object, headers?: Record<string, string>): Promise<Answer>;
}

/** The request may have reached the engine, but was not answered. */
class NotAnswered extends ApiRefusal {
  override readonly exitCode = 4;
}

/** Errors: an `ApiRefusal` with the problem; `NotReached`; `NotAnswered`. */
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

/** True if a repeat may succeed: there was no answer, or the engine is temporarily unavailable. */
function mayPass(error: ApiRefusal): boolean {
  if (error.status === undefined) return !wasNotHeard(error);
  return error.status === 503 && error.problem?.retryable === true;
}

/** True if the connection was refused: the request had no effect. */
function wasNotHeard({ cause }: ApiRefusal): boolean {
  const { code } = ((cause as Error | undefined)?.cause ?? {}) as { code?: string };
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN";
}
