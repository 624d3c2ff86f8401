import { env } from "cloudflare:workers";
import { inject, vi } from "vitest";
import type { CrashPoint } from "../../src/engine/contract/crash-points.ts";
import { type Accepted, type CommandRequest, enqueue, keeperOf, MillraceError } from "../../src/engine/index.ts";
import type { ProbeStep } from "../probe/messages.ts";
import { app } from "../probe/worker.ts";
import type { Behaviour, LedgerEntry } from "../upstream/server.ts";

/** The probe Worker's env. */
export interface ProbeEnv extends Cloudflare.Env {
  PROBE: Workflow;
  COUNT_DONE: Workflow;
  PROBE_COMMANDS: Queue;
  PROBE_EVENTS: Queue;
  LISTENER: DurableObjectNamespace;
  UPSTREAM_URL: string;
}

export const probeEnv = env as unknown as ProbeEnv;
probeEnv.UPSTREAM_URL = inject("upstreamUrl");

export const tenant = { tenantId: "acme", source: "test" };
export const operator = { tenantId: "acme", actor: "tess" };

let runs = 0;

/** A name no other test uses. */
export function fresh(what = "run"): string {
  return `${what}-${++runs}-${crypto.randomUUID().slice(0, 8)}`;
}

type Script = Partial<ProbeStep> & Pick<ProbeStep, "do" | "name">;

/** Accepts a probe that runs these steps. Throws what it is refused with. */
export async function start(name: string, steps: (Script | Script[])[], request: Partial<CommandRequest> = {}): Promise<Accepted> {
  const [answer] = await enqueue(probeEnv, app, tenant, [{ type: "probe.requested", payload: { name, steps }, ...request }]);
  if (answer instanceof MillraceError || answer === undefined) throw answer;
  return answer;
}

/** The outside world's own account: what happened to a subject. */
export async function happened(subject: string): Promise<LedgerEntry[]> {
  return (await fetch(`${probeEnv.UPSTREAM_URL}/ledger/${encodeURIComponent(subject)}`)).json();
}

export async function behave(...behaviours: Behaviour[]): Promise<void> {
  await fetch(`${probeEnv.UPSTREAM_URL}/behaviours`, { method: "POST", body: JSON.stringify(behaviours) });
}

export async function rows<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]> {
  return (await env.DB.prepare(sql).bind(...params).all<T>()).results;
}

export async function statusOf(id: string): Promise<string | undefined> {
  return (await rows<{ status: string }>("SELECT status FROM instances WHERE id = ?1", id))[0]?.status;
}

/** Waits until something is so; the last value if it never is. */
export async function until<T>(look: () => Promise<T>, is: (value: T) => boolean, timeout = 10_000): Promise<T> {
  let value = await look();
  await vi.waitUntil(async () => is((value = await look())), { timeout, interval: 20 }).catch(() => undefined);
  return value;
}

/** Waits for an instance to reach a status and answers the one it has. */
export function reaches(id: string, ...statuses: string[]): Promise<string | undefined> {
  return until(
    () => statusOf(id),
    (status) => status !== undefined && statuses.includes(status),
  );
}

/** Lets the code die at a crash point, the given number of times. Answers how often it did. */
export function dieAt(point: CrashPoint, times = 1): { deaths: () => number } {
  let deaths = 0;
  globalThis.millraceCrashPoint = (at) => {
    if (at !== point || deaths >= times) return;
    deaths++;
    const death = new Error(`Died at ${point}.`);
    death.name = "SimulatedDeath";
    throw death;
  };
  return { deaths: () => deaths };
}

/** Makes everything the keeper looks after due now, and lets it do a round. */
export async function keeperRound(): Promise<void> {
  await env.DB.batch([
    env.DB.prepare("UPDATE instances SET check_at = 0 WHERE check_at IS NOT NULL"),
    env.DB.prepare("UPDATE outbox SET due_at = 0"),
  ]);
  await keeperOf(probeEnv).round();
}

/** A claim that ran out, as after a killed process. */
export async function expireLeases(instanceId: string): Promise<void> {
  await env.DB.prepare("UPDATE inbox SET lease_until = 0 WHERE instance_id = ?1 AND state = 'claimed'").bind(instanceId).run();
}
