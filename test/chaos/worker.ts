import { type Accepted, codeOf, enqueue, formatEntryKey, MillraceError, type Resolution, resolveDoubt } from "../../src/engine/index.ts";
import probeWorker, { app, type Listener } from "../probe/worker.ts";

export { CountDone, FollowProbe, Keeper, Listener, Probe, Recorder } from "../probe/worker.ts";

/** The probe Worker with a door: commands come in over HTTP, and the judge asks what the database says. */
interface ChaosEnv extends Env {
  LISTENER: DurableObjectNamespace<Listener>;
}

/** One run's own account of itself: what the judge holds against the upstream's ledger. */
export interface Account {
  instances: { id: string; workflow: string; key: string; name: string; status: string; error: string | null }[];
  inbox: Entry[];
  rows: { kind: string; name: string; count: number }[];
  /** Events each listener object has heard, by its name. */
  heard: Record<string, number>;
  outbox: number;
  dead_letters: number;
}

interface Entry {
  instance_id: string;
  step: string;
  item: string;
  generation: number;
  class: string;
  state: string;
  epoch: number;
  output: string | null;
}

/** An operator's answer to a doubt. */
export interface Answer {
  entry: Parameters<typeof formatEntryKey>[0];
  resolution: Resolution;
}

/** Instances by status, and messages on their way: enough to see whether work is still open. */
export interface Progress {
  statuses: Record<string, number>;
  outbox: number;
}

/** The one table of the probes' own, as in test/probe/0100_probe.sql. */
const PROBE_ROWS =
  "CREATE TABLE IF NOT EXISTS probe_rows (id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL) STRICT, WITHOUT ROWID";

export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === "/healthz") await env.DB.prepare(PROBE_ROWS).run();
    if (request.method === "POST" && pathname === "/enqueue") return accept(env, await request.json());
    if (request.method === "POST" && pathname === "/resolve") return resolve(env, await request.json());
    if (pathname === "/progress") return Response.json(await progress(env));
    if (pathname === "/account") return Response.json(await account(env));
    return probeWorker.fetch(request, env, ctx);
  },
  queue: probeWorker.queue,
} satisfies ExportedHandler<ChaosEnv>;

async function accept(env: ChaosEnv, payload: unknown): Promise<Response> {
  const [answer] = await enqueue(env, app, { tenantId: "chaos", source: "chaos" }, [{ type: "probe.requested", payload }]);
  if (answer instanceof MillraceError) return Response.json({ code: answer.code, message: answer.message }, { status: 422 });
  return Response.json(answer satisfies Accepted | undefined, { status: 202 });
}

/** A repeat of an answer whose reply was lost finds no doubt any more: that is a success. */
async function resolve(env: ChaosEnv, { entry, resolution }: Answer): Promise<Response> {
  try {
    const by = { tenantId: "chaos", actor: "judge" };
    return Response.json(await resolveDoubt(env, by, formatEntryKey(entry), resolution, "The upstream's ledger says so."));
  } catch (error) {
    if (codeOf(error) === "invalid_transition") return Response.json({});
    throw error;
  }
}

async function progress(env: ChaosEnv): Promise<Progress> {
  const [statuses, outbox] = await env.DB.batch<{ status: string; n: number }>([
    env.DB.prepare("SELECT status, count(*) AS n FROM instances GROUP BY status"),
    env.DB.prepare("SELECT 'outbox' AS status, count(*) AS n FROM outbox"),
  ]);
  return { statuses: Object.fromEntries(statuses?.results.map(({ status, n }) => [status, n]) ?? []), outbox: outbox?.results[0]?.n ?? 0 };
}

async function account(env: ChaosEnv): Promise<Account> {
  const [instances, inbox, rows, counts] = await env.DB.batch([
    env.DB.prepare("SELECT id, workflow, idempotency_key AS key, subject AS name, status, error FROM instances"),
    env.DB.prepare("SELECT instance_id, step, item, generation, class, state, epoch, output FROM inbox ORDER BY generation"),
    env.DB.prepare("SELECT kind, name, count(*) AS count FROM probe_rows GROUP BY kind, name"),
    env.DB.prepare("SELECT (SELECT count(*) FROM outbox) AS outbox, (SELECT count(*) FROM dead_letters) AS dead_letters"),
  ]);
  const told = { instances: instances?.results, inbox: inbox?.results, rows: rows?.results, ...(counts?.results[0] as object) } as Omit<
    Account,
    "heard"
  >;
  const names = told.instances.filter(({ workflow }) => workflow === "probe").map(({ name }) => name);
  const heard = await Promise.all(
    names.map(async (name) => [name, await env.LISTENER.get(env.LISTENER.idFromName(name)).heard()] as const),
  );
  return { ...told, heard: Object.fromEntries(heard) };
}
