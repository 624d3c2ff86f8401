import { setTimeout } from "node:timers/promises";
import type { ExtractSchema } from "hono/types";
import type { batches } from "../../../src/api/batches.ts";
import type { contacts } from "../../../src/api/contacts.ts";
import type { facts } from "../../../src/api/facts.ts";
import type { ledgers } from "../../../src/api/ledgers.ts";
import type { projections } from "../../../src/api/projections.ts";
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
export type Letter = Output<EngineApi, "/v1/dead-letters/:id", "$get">;
export type Step = Listed<Output<EngineApi, "/v1/instances/:id/steps", "$get">>;
export type EmittedMessage = Listed<Output<EngineApi, "/v1/instances/:id/events", "$get">>;
type BatchResult = Output<EngineApi, "/v1/commands/batch", "$post">["results"][number];
type RetryAnswer = Output<EngineApi, "/v1/instances/:id/retry", "$post">;
type RetryPlan = Extract<RetryAnswer, { effects: unknown }>;
type Retried = Extract<RetryAnswer, { action_id: string }>;

export type AppendResult = Output<ReturnType<typeof facts>, "/v1/facts", "$post">["results"][number];
type FactPage = Output<ReturnType<typeof facts>, "/v1/facts", "$get">;
export type Fact = Listed<FactPage>;
type Ledger = Output<ReturnType<typeof ledgers>, "/v1/ledgers/:entity", "$get">;
type ProjectionList = Output<ReturnType<typeof projections>, "/v1/projections", "$get">;
type RebuildAccepted = Output<ReturnType<typeof projections>, "/v1/projections/facts/rebuild", "$post">;

/** A fact as it is stated. */
export interface FactStatement {
  fact_id: string;
  entity: string;
  type: string;
  occurred_at: string;
  payload: unknown;
}
export type Batch = Output<ReturnType<typeof batches>, "/v1/batches/:id", "$get">;
type ContactPage = Output<ReturnType<typeof contacts>, "/v1/contacts", "$get">;

interface Command {
  type: string;
  payload: unknown;
  correlation_id?: string;
}

/** A rule by which the embedded upstreams fail; `remaining: null` for as long as it stands. */
interface Fault {
  upstream: string;
  match: string;
  status: number;
  remaining: number | null;
}

/** How often each embedded upstream did what. */
export type LedgerTotals = Record<string, Record<string, number>>;

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
 * Sends a body as it is, and answers the text. What a limit turns away is sent again when that says. Errors: an `ApiRefusal` with the
 * problem's own words, also of an answer that is not as `isWanted`: by default one of an engine.
 */
function readerOf(url: string, token: string, isWanted: (response: Response) => boolean = isGood) {
  return async function read(
    method: string,
    path: string,
    body?: { type: string; text: string },
    headers: Record<string, string> = {},
  ): Promise<string> {
    const gone = (cause: unknown) => {
      throw new ApiRefusal(`${url} gave no answer to ${method} ${path}.`, { cause });
    };
    for (let nth = 1; ; nth++) {
      const response = await fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": body.type }), ...headers },
        signal: AbortSignal.timeout(ANSWER_MS),
        ...(body && { body: body.text }),
      }).catch(gone);
      const text = await response.text().catch(gone);
      if (isWanted(response)) return text;
      const seconds = Number(response.headers.get("retry-after"));
      const isPutOff = response.status === 429 && seconds > 0 && nth < TRIES;
      if (!isPutOff) throw refusalOf(`${method} ${path}`, response, text);
      await setTimeout(seconds * 1000);
    }
  };
}

/** Asks an engine's API one thing, as JSON; by `isWanted` another's. Errors: a `Refusal` with the problem's own words. */
export function askerOf(url: string, token: string, isWanted?: (response: Response) => boolean) {
  const read = readerOf(url, token, isWanted);
  return async function ask<Answer>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const text = await read(
      method,
      path,
      body === undefined ? undefined : { type: "application/json", text: JSON.stringify(body) },
      headers,
    );
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  };
}

/** An engine's API, as far as the demos use it. Errors: a `Refusal` with the problem's own words. */
export function apiOf(url: string, token: string) {
  const ask = askerOf(url, token);
  const read = readerOf(url, token);
  return {
    enqueue: async (commands: Command[]) => (await ask<{ results: BatchResult[] }>("POST", "/v1/commands/batch", { commands })).results,
    instances: async (correlation: string) =>
      (await ask<InstancePage>("GET", `/v1/instances?${new URLSearchParams({ correlation, limit: String(PAGE) })}`)).items,
    instance: (id: string) => ask<Instance>("GET", `/v1/instances/${id}`),
    steps: async (id: string) => (await ask<{ items: Step[] }>("GET", `/v1/instances/${id}/steps`)).items,
    events: async (id: string) => (await ask<{ items: EmittedMessage[] }>("GET", `/v1/instances/${id}/events?payload=true`)).items,
    planRetry: (id: string, reason: string) => ask<RetryPlan>("POST", `/v1/instances/${id}/retry`, { reason, dry_run: true }),
    retry: (id: string, reason: string) => ask<Retried>("POST", `/v1/instances/${id}/retry`, { reason }),
    letter: (id: string) => ask<Letter>("GET", `/v1/dead-letters/${id}`),
    replay: (id: string, body: object, reason: string) => ask<unknown>("POST", `/v1/dead-letters/${id}/replay`, { body, reason }),
    appendFacts: async (facts: readonly FactStatement[]) =>
      (await ask<{ results: AppendResult[] }>("POST", "/v1/facts", { facts })).results,
    facts: async () => (await ask<FactPage>("GET", `/v1/facts?limit=${PAGE}`)).items,
    ledger: (entity: string) => ask<Ledger>("GET", `/v1/ledgers/${encodeURIComponent(entity)}`),
    factsProjection: async () => (await ask<ProjectionList>("GET", "/v1/projections")).items[0] as ProjectionList["items"][number],
    rebuild: (request: string) => ask<RebuildAccepted>("POST", "/v1/projections/facts/rebuild", { request }),
    importCsv: (id: string, dataset: string, text: string) =>
      read("POST", `/v1/batches?${new URLSearchParams({ operation: "import", dataset, batch_id: id })}`, { type: "text/csv", text }),
    batch: (id: string) => ask<Batch>("GET", `/v1/batches/${id}`),
    /** What a batch did not take, as JSON Lines. */
    batchErrors: (id: string) => read("GET", `/v1/batches/${id}/errors?format=jsonl`),
    contacts: (cursor?: string) =>
      ask<ContactPage>("GET", `/v1/contacts?${new URLSearchParams({ ...(cursor !== undefined && { cursor }), limit: "1000" })}`),
    setFaults: (faults: Fault[]) => ask<void>("PUT", "/embedded/faults", faults),
    clearFaults: () => ask<void>("DELETE", "/embedded/faults"),
    ledgerTotals: async () => (await ask<{ totals: LedgerTotals }>("GET", "/embedded/ledger")).totals,
  };
}

export type Api = ReturnType<typeof apiOf>;

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
