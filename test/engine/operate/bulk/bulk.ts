import { createExecutionContext } from "cloudflare:test";
import { type Accepted, type Envelope, ids, MillraceError } from "millrace";
import { type Scope, tokens } from "millrace/operate";
import { onTestFinished } from "vitest";
import { acceptCommands } from "../../../../packages/millrace/src/intake/accept/enqueue.ts";
import { howMany } from "../../../full-size.ts";
import { type LabCall, labs } from "../../../probe/lab.ts";
import { routing } from "../../../probe/routing.ts";
import worker, { app } from "../../../probe/worker.ts";
import { deliver, event, fresh, probeEnv, rows, until } from "../../harness.ts";
import { platformReaches } from "../../lab.ts";

export interface Bulk {
  id: string;
  state: string;
  why: string | null;
  matched: number;
  done: number;
  skipped: number;
  failed: number;
  remaining: number;
  instance_id: string;
  replayed?: boolean;
}

type Answer<Body> = { status: number; body: Body };

/** A tenant for this test, with the API calls of its operator. */
export async function theOperator(scopes: readonly Scope[] = ["read", "operate"], tenantId = fresh("tenant")) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  const ask = async <Body = Bulk>(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer<Body>> => {
    const request = new Request(`http://localhost${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { ...headers, authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const response = await worker.fetch(request as never, probeEnv as never, createExecutionContext());
    return { status: response.status, body: (await response.json()) as Body };
  };
  const start = (body: object, headers?: Record<string, string>) =>
    ask("/v1/bulk-actions", { reason: "the cause is fixed", rate_per_second: 100, ...body }, headers);
  const show = async (id: string) => (await ask(`/v1/bulk-actions/${id}`)).body;
  /** Waits until a bulk action is no longer running, and checks its invariants at every poll. */
  const over = (id: string) =>
    until(
      async () => balanced(await show(id)),
      ({ state }) => state !== "running",
      howMany(60_000, 600_000),
    );
  const items = async (id: string, result?: string) =>
    (await ask<{ items: Item[] }>(`/v1/bulk-actions/${id}/items?limit=200${result ? `&result=${result}` : ""}`)).body.items;
  /** The id of the bulk action with this key. A test uses the id to set a crash point before the action starts. */
  const idOf = (key: string) => ids.digest("bulk", tenantId, key);
  const as = { tenantId, actor: "tess" };
  return { tenantId, as, ask, start, show, over, items, idOf };
}

export type TheOperator = Awaited<ReturnType<typeof theOperator>>;

export interface Item {
  n: number;
  target: string;
  result: string;
  code: string | null;
  why: string | null;
  action_id: string;
}

export function balanced(bulk: Bulk): Bulk {
  const { matched, done, skipped, failed, remaining: left } = bulk;
  if (matched !== done + skipped + failed + left) throw new Error(`Out of balance: ${JSON.stringify(bulk)}`);
  return bulk;
}

/** Dead letters of a tenant: events with a call that fails until it is fixed, invalid events, and events of a future version. */
export async function lettersOfThreeCauses(tenantId: string, [down, invalid, newer]: [down: number, invalid: number, newer: number]) {
  const name = fresh("routed");
  routing.failing.add(name);
  onTestFinished(() => void routing.failing.delete(name));
  const many = (count: number, more: Partial<Envelope>) =>
    Array.from({ length: count }, () => ({ ...event("probe.routed", name, { name, parts: [] }), tenant_id: tenantId, ...more }));
  await captured(many(down, {}), 3);
  await captured(many(invalid, { payload_inline: { name: 7 } }), 1);
  await captured(many(newer, { schema_version: 99 }), 1);
  return { name, mend: () => routing.failing.delete(name) };
}

async function captured(messages: readonly Envelope[], attempts: number): Promise<void> {
  for (let at = 0; at < messages.length; at += 100) await deliver("probe-events", messages.slice(at, at + 100), attempts);
}

/** Failed runs of a tenant, each with a unique name; every replay executes `code`. */
export async function failedRuns(tenantId: string, count: number, code: (call: LabCall) => Promise<unknown>): Promise<string[]> {
  const names = Array.from({ length: count }, () => fresh("lab"));
  for (const name of names) labs.set(name, code);
  const accepted: Accepted[] = [];
  for (let at = 0; at < count; at += 100) {
    const requests = names.slice(at, at + 100).map((name) => ({ type: "lab.requested", payload: { name } }));
    for (const answer of await acceptCommands(probeEnv, app, { tenantId, source: "test" }, requests)) {
      if (answer instanceof MillraceError) throw answer;
      accepted.push(answer);
    }
  }
  await until(
    () => countOf(tenantId, "errored"),
    (failed) => failed === count,
    howMany(60_000, 300_000),
  );
  // A retry is deferred to the keeper while the platform has not ended the run.
  for (const { instanceId } of accepted) await platformReaches(instanceId, "errored");
  return accepted.map(({ instanceId }) => instanceId);
}

/** The number of a tenant's lab runs with this status. */
export async function countOf(tenantId: string, status: string): Promise<number> {
  const [row] = await rows<{ count: number }>(
    "SELECT count(*) AS count FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'lab' AND status = ?2",
    tenantId,
    status,
  );
  return row?.count ?? 0;
}

/** The audit records of the items that a bulk action changed. */
export const auditOf = (bulkId: string) =>
  rows<{ target: string; result: string; verb: string }>(
    "SELECT target, result, verb FROM millrace_actions WHERE detail->>'bulk' = ?1",
    bulkId,
  );
