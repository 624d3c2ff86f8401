import type { ExtractSchema } from "hono/types";
import type { batches } from "../api/batches.ts";
import type { commands } from "../api/commands.ts";
import type { contacts } from "../api/contacts.ts";
import type { effects } from "../api/effects.ts";
import type { events } from "../api/events.ts";
import type { instances } from "../api/instances.ts";
import type { retry } from "../api/retry.ts";
import type { steps } from "../api/steps.ts";
import { Refusal } from "./command.ts";

// What a route answers is said by the route itself: where one changes, this does not compile.
type Output<
  Routes,
  Path extends keyof ExtractSchema<Routes>,
  Method extends keyof ExtractSchema<Routes>[Path],
> = ExtractSchema<Routes>[Path][Method] extends {
  output: infer Answer;
}
  ? Answer
  : never;
type Listed<Answer> = Answer extends { items: (infer Item)[] } ? Item : never;

type InstancePage = Output<ReturnType<typeof instances>, "/v1/instances", "$get">;
export type Instance = Listed<InstancePage>;
export type Step = Listed<Output<ReturnType<typeof steps>, "/v1/instances/:id/steps", "$get">>;
type Effect = Listed<Output<ReturnType<typeof effects>, "/v1/instances/:id/effects", "$get">>;
export type EmittedMessage = Listed<Output<ReturnType<typeof events>, "/v1/instances/:id/events", "$get">>;
type BatchResult = Output<ReturnType<typeof commands>, "/v1/commands/batch", "$post">["results"][number];
type RetryAnswer = Output<ReturnType<typeof retry>, "/v1/instances/:id/retry", "$post">;
type RetryPlan = Extract<RetryAnswer, { effects: unknown }>;
type Retried = Extract<RetryAnswer, { action_id: string }>;

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

const ANSWER_MS = 15_000;
/** The API's largest page. */
const PAGE = 200;

/** An engine's API, as far as commands use it. Errors: a `Refusal` with the problem's own words. */
export function apiOf(url: string, token: string) {
  async function ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const text = await read(method, path, body === undefined ? undefined : { type: "application/json", text: JSON.stringify(body) });
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  }

  async function read(method: string, path: string, body?: { type: string; text: string }): Promise<string> {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": body.type }) },
      signal: AbortSignal.timeout(ANSWER_MS),
      ...(body && { body: body.text }),
    }).catch(() => {
      throw new Refusal(`${url} gave no answer to ${method} ${path}.`);
    });
    const text = await response.text();
    if (!response.ok) throw new Refusal(`${method} ${path} answered ${response.status}: ${detailOf(text)}`);
    return text;
  }

  return {
    enqueue: async (commands: Command[]) => (await ask<{ results: BatchResult[] }>("POST", "/v1/commands/batch", { commands })).results,
    instances: async (correlation: string) =>
      (await ask<InstancePage>("GET", `/v1/instances?${new URLSearchParams({ correlation, limit: String(PAGE) })}`)).items,
    steps: async (id: string) => (await ask<{ items: Step[] }>("GET", `/v1/instances/${id}/steps`)).items,
    effects: async (id: string) => (await ask<{ items: Effect[] }>("GET", `/v1/instances/${id}/effects`)).items,
    events: async (id: string) => (await ask<{ items: EmittedMessage[] }>("GET", `/v1/instances/${id}/events?payload=true`)).items,
    planRetry: (id: string, reason: string) => ask<RetryPlan>("POST", `/v1/instances/${id}/retry`, { reason, dry_run: true }),
    retry: (id: string, reason: string) => ask<Retried>("POST", `/v1/instances/${id}/retry`, { reason }),
    importCsv: (id: string, dataset: string, text: string) =>
      read("POST", `/v1/batches?${new URLSearchParams({ operation: "import", dataset, batch_id: id })}`, { type: "text/csv", text }),
    batch: (id: string) => ask<Batch>("GET", `/v1/batches/${id}`),
    /** What a batch did not take, as JSON Lines. */
    batchErrors: (id: string) => read("GET", `/v1/batches/${id}/errors?format=jsonl`),
    contacts: (cursor: string) => ask<ContactPage>("GET", `/v1/contacts?${new URLSearchParams({ cursor, limit: "1000" })}`),
    setFaults: (faults: Fault[]) => ask<void>("PUT", "/embedded/faults", faults),
    clearFaults: () => ask<void>("DELETE", "/embedded/faults"),
    ledgerTotals: async () => (await ask<{ totals: LedgerTotals }>("GET", "/embedded/ledger")).totals,
  };
}

export type Api = ReturnType<typeof apiOf>;

function detailOf(text: string): string {
  try {
    const { detail } = JSON.parse(text) as { detail?: string };
    return detail ?? text.slice(0, 300);
  } catch {
    return text.slice(0, 300);
  }
}
