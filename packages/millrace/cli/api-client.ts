import { setTimeout } from "node:timers/promises";
import type { ExtractSchema } from "hono/types";
import { ENGINE_HEADER } from "../src/contract/engine-header.ts";
import type { EngineApi } from "../src/http/engine-api.ts";
import { Refusal } from "./command.ts";

// What a route answers is said by the route itself: where one changes, this does not compile.
export type Output<
  Routes,
  Path extends keyof ExtractSchema<Routes>,
  Method extends keyof ExtractSchema<Routes>[Path],
> = ExtractSchema<Routes>[Path][Method] extends {
  output: infer Answer;
}
  ? Answer
  : never;
type Listed<Answer> = Answer extends { items: (infer Item)[] } ? Item : never;

export type Costs = Output<EngineApi, "/v1/costs", "$get">;
type InstancePage = Output<EngineApi, "/v1/instances", "$get">;
export type Instance = Listed<InstancePage>;
type BatchResult = Output<EngineApi, "/v1/commands/batch", "$post">["results"][number];
type Retried = Extract<Output<EngineApi, "/v1/instances/:id/retry", "$post">, { action_id: string }>;

interface Command {
  type: string;
  payload: unknown;
  correlation_id?: string;
}

/** What an answer says that is none, as far as it is the API's (RFC 9457). */
export interface Problem {
  code: string;
  title: string;
  detail: string;
  retryable: boolean;
  issues?: { path: string; message: string }[];
  did_you_mean?: string;
}

/** What came of a request that did not succeed. */
export class ApiRefusal extends Refusal {
  /** The answer's; undefined where there was none. */
  readonly status: number | undefined;
  /** What the API says of it; undefined where something else answered, or nothing. */
  readonly problem: Problem | undefined;

  constructor(message: string, { status, problem, cause }: { status?: number; problem?: Problem | undefined; cause?: unknown } = {}) {
    super(message, { cause });
    this.status = status;
    this.problem = problem;
  }
}

/** Longest that an answer may take with its body: a thousand asks at once are slow on a busy machine. */
const ANSWER_MS = 60_000;
/** Tries of a request that a limit turns away: it says when there is room, and that nothing was done. */
const TRIES = 10;
/** The API's largest page. */
const PAGE = 200;

/**
 * Returns a function that sends a request to an engine's API and reads the answer as JSON. A request that a limit refuses is repeated after
 * its `Retry-After`. Errors: an `ApiRefusal` with the problem's own words, also for an answer that `isWanted` does not accept.
 */
export function askerOf(url: string, token: string, isWanted: (response: Response) => boolean = isGood) {
  return async function ask<Answer>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const gone = (cause: unknown) => {
      throw new ApiRefusal(`${url} gave no answer to ${method} ${path}.`, { cause });
    };
    for (let nth = 1; ; nth++) {
      const response = await fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
        signal: AbortSignal.timeout(ANSWER_MS),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }).catch(gone);
      const text = await response.text().catch(gone);
      if (isWanted(response)) return (text === "" ? undefined : JSON.parse(text)) as Answer;
      const seconds = Number(response.headers.get("retry-after"));
      const isPutOff = response.status === 429 && seconds > 0 && nth < TRIES;
      if (!isPutOff) throw refusalOf(`${method} ${path}`, response, text);
      await setTimeout(seconds * 1000);
    }
  };
}

/** Three calls of an engine's API. Errors: a `Refusal` with the problem's own words. */
export function apiOf(url: string, token: string) {
  const ask = askerOf(url, token);
  return {
    enqueue: async (commands: Command[]) => (await ask<{ results: BatchResult[] }>("POST", "/v1/commands/batch", { commands })).results,
    instances: async (correlation: string) =>
      (await ask<InstancePage>("GET", `/v1/instances?${new URLSearchParams({ correlation, limit: String(PAGE) })}`)).items,
    retry: (id: string, reason: string) => ask<Retried>("POST", `/v1/instances/${id}/retry`, { reason }),
  };
}

/** True for an engine's answer that is a success. Whatever else took the request says 200 as well, and nothing was done. */
export function isGood({ ok, headers }: Response): boolean {
  return ok && headers.has(ENGINE_HEADER);
}

/** What an answer that is no success, or no engine's, says, with the request that it answers. */
export function refusalOf(request: string, { status, headers }: Response, text: string): ApiRefusal {
  const said = saidIn(text);
  const isProblem = headers.has(ENGINE_HEADER) && said.code !== undefined && said.detail !== undefined;
  const problem = isProblem ? (said as Problem) : undefined;
  return new ApiRefusal(`${request} answered ${status}: ${said.detail ?? text.slice(0, 300)}`, { status, problem });
}

function saidIn(text: string): Partial<Problem> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
