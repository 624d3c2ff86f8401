import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { MillraceError } from "millrace";
import { keeperOf } from "millrace/worker";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../../src/catalog.ts";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { type Caller, type Json, until } from "../../api/client.ts";

/** Requests a cycle, and returns the instance that plans it. */
export async function cycle(
  caller: Pick<Caller, "tenantId">,
  payload: { brand: string; cycle: string; keywords: string[] },
  correlationId = `${payload.brand}/${payload.cycle}`,
): Promise<string> {
  const [answer] = await acceptCommands(env, app, { tenantId: caller.tenantId, source: "test" }, [
    { type: "brand.cycle", payload, correlationId },
  ]);
  if (!answer || answer instanceof MillraceError) throw answer;
  return answer.instanceId;
}

export async function counts(caller: Caller, brand: string): Promise<Json> {
  return (await caller.get(`/v1/brands/${brand}`)).body.counts;
}

/** Waits until a brand has these counts. */
export function stands(caller: Caller, brand: string, expected: object): Promise<Json> {
  const wanted = Object.entries(expected);
  return until(
    () => counts(caller, brand),
    (found) => wanted.every(([name, value]) => found?.[name] === value),
  );
}

/** A brand's decisions, oldest first. */
export async function decisions(caller: Caller, brand: string, query = ""): Promise<Json[]> {
  return (await caller.get(`/v1/brands/${brand}/decisions?limit=200${query}`)).body.items.reverse();
}

/** The decisions as text: `keyword verdict`. */
export async function verdicts(caller: Caller, brand: string, query = ""): Promise<string[]> {
  return (await decisions(caller, brand, query)).map(({ keyword, verdict }) => `${keyword} ${verdict}`);
}

/** Waits until a cycle is decided. */
export async function decided(caller: Caller, instanceId: string): Promise<void> {
  await until(
    () => caller.get(`/v1/instances/${instanceId}`),
    ({ body }) => body.status === "complete",
  );
}

/** Runs a function inside a brand's agent. */
export function inside<T>(caller: Caller, brand: string, act: (storage: DurableObjectStorage) => T | Promise<T>): Promise<T> {
  return runInDurableObject(brandAgentOf(env, caller.tenantId, brand), (_, { storage }) => act(storage));
}

export function ring(caller: Caller, brand: string): Promise<boolean> {
  return runDurableObjectAlarm(brandAgentOf(env, caller.tenantId, brand));
}

/** The upstreams' record of payments for these keywords: searches, and texts, each a synthesis or an article. */
export async function paidFor(match: string): Promise<{ search: number; text: number }> {
  const answer = await env.UPSTREAMS.fetch(`https://control.embedded/ledger?match=${encodeURIComponent(match)}`);
  const { totals } = (await answer.json()) as { totals: Record<"search" | "text", { charged?: number }> };
  return { search: totals.search.charged ?? 0, text: totals.text.charged ?? 0 };
}

/** Makes embedded upstreams fail. */
export function fail(...faults: { upstream: string; match: string; status: number; remaining: number | null }[]): Promise<Response> {
  return env.UPSTREAMS.fetch("https://control.embedded/faults", { method: "PUT", body: JSON.stringify(faults) });
}

/** Simulates that the keeper's waiting time for a tenant's messages is over: unsent messages of a dead process are sent. */
export async function heal(tenantId: string): Promise<void> {
  await env.DB.batch([
    env.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE tenant_id = ?1 AND check_at IS NOT NULL").bind(tenantId),
    env.DB.prepare("UPDATE millrace_outbox SET due_at = 0 WHERE body->>'tenant_id' = ?1").bind(tenantId),
  ]);
  await keeperOf(env).round();
}
