import { setTimeout } from "node:timers/promises";
import type { ExtractSchema } from "hono/types";
import { ENGINE_HEADER } from "../src/contract/engine-header.ts";
import type { EngineApi } from "../src/http/engine-routes.ts";
import { Refusal } from "./command.ts";

// The types are derived from the routes, so that a changed route causes a type error in the commands.
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

/** The fields of the API's RFC 9457 problem documents that the commands read. */
export interface Problem {
  code: string;
  title: string;
  detail: string;
  retryable: boolean;
  issues?: { path: string; message: string }[];
  did_you_mean?: string;
}

export class ApiRefusal extends Refusal {
  /** The HTTP status. Undefined if the server did not answer. */
  readonly status: number | undefined;
  /** The problem in the answer. Undefined if there was no answer, or if the answer is not from an engine. */
  readonly problem: Problem | undefined;

  constructor(message: string, { status, problem, cause }: { status?: number; problem?: Problem | undefined; cause?: unknown } = {}) {
    super(message, { cause });
    this.status = status;
    this.problem = problem;
  }
}

/** Timeout of a request and its body. */
const ANSWER_MS = 60_000;
/** Maximum number of attempts at a request that is refused with status 429. A request that is refused with 429 had no effect. */
const TRIES = 10;
const PAGE = 200;

/**
 * Returns a function that sends a request to an engine's API and parses a JSON answer. A request that is refused with 429 is repeated after
 * the time in the answer's `Retry-After`. Errors: an `ApiRefusal` with the problem. An answer that `isWanted` does not accept is also an
 * error.
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
      const isJson = /json/.test(response.headers.get("content-type") ?? "json");
      if (isWanted(response)) return (text === "" ? undefined : isJson ? JSON.parse(text) : text) as Answer;
      const seconds = Number(response.headers.get("retry-after"));
      const isPutOff = response.status === 429 && seconds > 0 && nth < TRIES;
      if (!isPutOff) throw refusalOf(`${method} ${path}`, response, text);
      await setTimeout(seconds * 1000);
    }
  };
}

export function apiOf(url: string, token: string) {
  const ask = askerOf(url, token);
  return {
    enqueue: async (commands: Command[]) => (await ask<{ results: BatchResult[] }>("POST", "/v1/commands/batch", { commands })).results,
    instances: async (correlation: string) =>
      (await ask<InstancePage>("GET", `/v1/instances?${new URLSearchParams({ correlation, limit: String(PAGE) })}`)).items,
    retry: (id: string, reason: string) => ask<Retried>("POST", `/v1/instances/${id}/retry`, { reason }),
  };
}

/** True for a successful answer of an engine. The engine's header is required, because other servers also answer with status 200. */
export function isGood({ ok, headers }: Response): boolean {
  return ok && headers.has(ENGINE_HEADER);
}

/** Converts an answer to an error. `request` is the method and the path of the request. */
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
