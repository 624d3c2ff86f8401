import pRetry from "p-retry";
import type { EngineApi } from "../../src/http/engine-routes.ts";
import { ApiRefusal, askerOf, type Output } from "../api-client.ts";
import { type AskedEngine, orNotReached } from "../asked-engine.ts";

/** Repeats of a request without an answer, if a repeat is safe. */
const AGAIN = 2;
/** Time limit for all attempts of a request. */
const WITHIN_MS = 60_000;

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: object | undefined;
  readonly headers?: Record<string, string>;
  /** True if a repeated request has no second effect. Only such a request is repeated if it gets no answer. */
  readonly isSafe: boolean;
}

export type AskedApi = ReturnType<typeof askedApi>;

/** The error for a request that may have reached the engine, but was not answered. */
class NotAnswered extends ApiRefusal {
  override readonly exitCode = 4;
}

/** Sends requests to an engine. Errors: an `ApiRefusal` with the engine's problem, `NotReached`, or `NotAnswered`. */
export function askedApi(engine: AskedEngine, stop: AbortSignal) {
  const ask = askerOf(engine.url, engine.token);
  const send = <Answer>({ method, path, body, headers, isSafe }: Request): Promise<Answer> =>
    pRetry(() => ask<Answer>(method, path, body, headers), {
      retries: isSafe ? AGAIN : 0,
      minTimeout: 500,
      maxRetryTime: WITHIN_MS,
      signal: stop,
      shouldRetry: ({ error }) => error instanceof ApiRefusal && mayRecover(error),
    }).catch((error: unknown) => {
      if (isSafe || !(error instanceof ApiRefusal) || error.status !== undefined || neverConnected(error))
        throw orNotReached(engine, error);
      throw new NotAnswered(`${error.message} The result is unknown: check before you repeat the command.`, { cause: error });
    });
  return { engine, send, get: <Answer>(path: string) => send<Answer>({ method: "GET", path, isSafe: true }) };
}

/** True if a repeat may succeed: the request got no answer, or the engine is temporarily unavailable. */
function mayRecover(error: ApiRefusal): boolean {
  if (error.status === undefined) return !neverConnected(error);
  return error.status === 503 && error.problem?.retryable === true;
}

/** True if no connection to the engine was possible, so that the request had no effect. */
function neverConnected({ cause }: ApiRefusal): boolean {
  const { code } = ((cause as Error | undefined)?.cause ?? {}) as { code?: string };
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN";
}

export type Accepted = Output<EngineApi, "/v1/commands", "$post">;
export type Checked = Output<EngineApi, "/v1/catalog/check", "$post">;
export type { Instance } from "../api-client.ts";
export type InstanceDetail = Output<EngineApi, "/v1/instances/:id", "$get">;
export type StepList = Output<EngineApi, "/v1/instances/:id/steps", "$get">;
export type RetryAnswer = Output<EngineApi, "/v1/instances/:id/retry", "$post">;
export type Letter = Output<EngineApi, "/v1/dead-letters/:id", "$get">;
export type ReplayAnswer = Output<EngineApi, "/v1/dead-letters/:id/replay", "$post">;
