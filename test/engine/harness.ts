import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Accepted, type Envelope, ids, MillraceError } from "millrace";
import type { CrashPoint } from "millrace/testing";
import * as testing from "millrace/testing";
import { keeperOf } from "millrace/worker";
import { inject, onTestFinished } from "vitest";
import { acceptCommands, type UntypedRequest } from "../../packages/millrace/src/intake/accept/enqueue.ts";
import type { Settled } from "../../packages/millrace/src/testing/deliveries.ts";
import type { ProbeStep } from "../probe/messages.ts";
import worker, { app, type Keeper } from "../probe/worker.ts";
import { passes } from "../probe/workflows.ts";
import { until } from "../until.ts";
import type { Behaviour, LedgerEntry } from "../upstream/server.ts";

export { until } from "../until.ts";
export { event } from "./event.ts";

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

const tenant = { tenantId: "acme", source: "test" };
export const operator = { tenantId: "acme", actor: "tess" };

let runs = 0;

/** A name that no other test uses. */
export function fresh(what = "run"): string {
  return `${what}-${++runs}-${crypto.randomUUID().slice(0, 8)}`;
}

type Script = Partial<ProbeStep> & Pick<ProbeStep, "do" | "name">;

/** Accepts a command of the workflow `probe` with these steps. Throws when the command is refused. */
export async function start(name: string, steps: (Script | Script[])[], request: Partial<UntypedRequest> = {}): Promise<Accepted> {
  const [answer] = await acceptCommands(probeEnv, app, tenant, [{ type: "probe.requested", payload: { name, steps }, ...request }]);
  if (answer instanceof MillraceError || answer === undefined) throw answer;
  return answer;
}

/** The effects that the upstream of the tests has recorded for a subject. */
export async function happened(subject: string): Promise<LedgerEntry[]> {
  return (await fetch(`${probeEnv.UPSTREAM_URL}/ledger/${encodeURIComponent(subject)}`)).json();
}

export async function behave(...behaviours: Behaviour[]): Promise<void> {
  await fetch(`${probeEnv.UPSTREAM_URL}/behaviours`, { method: "POST", body: JSON.stringify(behaviours) });
}

export async function rows<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]> {
  return (
    await env.DB.prepare(sql)
      .bind(...params)
      .all<T>()
  ).results;
}

export async function statusOf(id: string): Promise<string | undefined> {
  return (await rows<{ status: string }>("SELECT status FROM millrace_instances WHERE id = ?1", id))[0]?.status;
}

/** Waits until an instance has one of these statuses. Returns the status that it has at the end of the wait. */
export function reaches(id: string, ...statuses: string[]): Promise<string | undefined> {
  return until(
    () => statusOf(id),
    (status) => status !== undefined && statuses.includes(status),
  );
}

/** The result of a probe run. Waits for the platform's status `complete`, which follows the status of the row. */
export async function probeOutput(instanceId: string): Promise<unknown> {
  const instance = await probeEnv.PROBE.get(instanceId);
  const ended = await until(
    () => instance.status(),
    ({ status }) => status === "complete",
  );
  return ended.output;
}

/** Restarts an ended probe run on the platform. Returns its status after one more replay of its code. */
export async function restarted(instanceId: string): Promise<string> {
  const instance = await probeEnv.PROBE.get(instanceId);
  const ended = () =>
    until(
      async () => (await instance.status()).status,
      (status) => status === "complete" || status === "errored",
    );
  await ended();
  const before = passes.get(instanceId) ?? 0;
  await instance.restart();
  const after = await until(
    async () => passes.get(instanceId) ?? 0,
    (count) => count > before,
  );
  if (after === before) throw new Error("The restarted instance never ran again.");
  return ended();
}

/** Arms a crash point once. For a crash point in the code of a run, `run` is the name or id of that run. */
export const dieAt = (point: CrashPoint, whose?: string) => testing.dieAt(point, idsOf(whose));

/** Throws at a crash point, once. */
export const failAt = (point: CrashPoint, error: Error, whose?: string) => testing.failAt(point, error, idsOf(whose));

/** Holds the code at a crash point, once, until it is released. */
export const pauseAt = (point: CrashPoint, whose?: string) => testing.pauseAt(point, idsOf(whose));

function idsOf(whose: string | undefined): string[] | undefined {
  return whose === undefined ? undefined : [whose, ...["probe", "lab"].map((workflow) => ids.instance(tenant.tenantId, workflow, whose))];
}

/** Makes all of the keeper's work due now, and runs a round. */
export const keeperRound = () => testing.keeperRound(probeEnv);

/** Sets the keeper's alarm to one hour from now, and waits until no round is running. */
export async function keeperRests(of = probeEnv): Promise<void> {
  const ringsIn = (ms: number) =>
    runInDurableObject(keeperOf(of), async (keeper, { storage }) => {
      await storage.setAlarm(Date.now() + ms);
      return (keeper as Keeper).underWay;
    });
  // A running round sets the alarm again at its end.
  await until(
    () => ringsIn(3_600_000),
    (rounds) => rounds === 0,
  );
}

export async function withKeeperAtRest(of = probeEnv): Promise<void> {
  await keeperRests(of);
  onTestFinished(() => runInDurableObject(keeperOf(of), (_, { storage }) => storage.setAlarm(Date.now() + 1000)));
}

/** Orders rows by their age after a test has changed some ages. The scan for old rows ends at the first young row. */
export async function oldFirst({ DB } = probeEnv): Promise<void> {
  await DB.prepare(
    `UPDATE millrace_instances SET rowid = (SELECT min(rowid) FROM millrace_instances) - newer.count
     FROM (SELECT rowid AS place, row_number() OVER (ORDER BY accepted_at DESC, rowid DESC) AS count FROM millrace_instances WHERE accepted_at < ?1) AS newer
     WHERE millrace_instances.rowid = newer.place`,
  )
    .bind(Date.now() - 3_600_000)
    .run();
}

/** Runs all retention rules of the keeper to the end of their scans. Returns the number of rounds. */
export async function retentionPass(of = probeEnv): Promise<number> {
  const keeper = keeperOf(of);
  // A round of the keeper's alarm would store the positions of the round's scans.
  await withKeeperAtRest(of);
  await oldFirst(of);
  const turns = () => runInDurableObject(keeper, (_, { storage }) => storage.get<Record<string, { dueAt: number }>>("retention"));
  await runInDurableObject(keeper, (_, { storage }) => storage.delete("retention"));
  for (let rounds = 1; rounds < 100; rounds++) {
    await keeper.round();
    const due = Object.values((await turns()) ?? {}).filter(({ dueAt }) => dueAt <= Date.now());
    if (due.length === 0) return rounds;
  }
  throw new Error("The passes never ended.");
}

/** The envelope of an accepted command, as its queue carries it. */
export async function envelopeOf(instanceId: string): Promise<Envelope> {
  const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", instanceId);
  return JSON.parse(row?.envelope ?? "null");
}

/** Hands a batch to the Worker's queue handler and answers how each message was settled. */
export function deliver(queue: string, bodies: unknown[], attempts = 1): Promise<Settled> {
  return testing.deliverTo(async (batch, ctx) => worker.queue?.(batch, probeEnv as unknown as Env, ctx), queue, bodies, attempts);
}

/** Lets the claims of an instance expire, as after the death of their process. */
export const expireLeases = (instanceId: string) => testing.expireLeases(probeEnv, instanceId);
