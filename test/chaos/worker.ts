import { env as ownEnv } from "cloudflare:workers";
import {
  defineCommand,
  defineConsumer,
  defineWorkflow,
  type EngineEnv,
  enqueueOne,
  errors,
  on,
  signal,
  sql,
  type WorkflowCall,
} from "millrace";
import { engineRoutes } from "millrace/http";
import { engineLanes } from "millrace/lanes";
import { tokens } from "millrace/operate";
import { armKeeper, BulkActionRun, bulkAction, type Catalog, catalog, dispatch, entrypoint } from "millrace/worker";
import * as z from "zod";
import { bindingName, queueBinding } from "../../packages/millrace/src/contract/bindings.ts";
import type { LaneEnv } from "../../packages/millrace/src/lanes/client.ts";
import { routesOf, startsOf } from "../probe/consumers.ts";
import { keepLabRow, LabEvent } from "../probe/lab.ts";
import { labsInFlow } from "../probe/limited.ts";
import { ProbeSignal, probeCommands } from "../probe/messages.ts";
import { followProbe, whenDone } from "../probe/workflows.ts";
import { bindingOf, doorsOf } from "../proof/doors.ts";
import { codeFor } from "../proof/interpret.ts";
import { BEGIN_JOURNAL } from "../proof/journal.ts";
import type { Program } from "../proof/program.ts";
import { type Asking, operator } from "../proof/stage.ts";
import { type LedgerEnv, laneDoors, laneList } from "./lanes/lanes.ts";
import { takeTurn, turnConsumer, turnDoors } from "./lanes/turns.ts";

export { CountDone, FollowProbe, Keeper, Listener, Recorder } from "../probe/worker.ts";

// The engine that is killed: a workflow executes the program in its command, and requests arrive over HTTP.

interface ChaosEnv extends EngineEnv, LaneEnv, LedgerEnv {
  UPSTREAM_URL: string;
  LISTENER: DurableObjectNamespace;
}

/** An endpoint's response: its result, or its error. */
export type Answer = { gave: unknown } | { refused: Refused };
export interface Refused {
  code: string | undefined;
  message: string;
}

/** With the variable COUNT_D1, logs the written rows of each batch: each batch is one round trip to D1. A kill cannot lose the log. */
if ("COUNT_D1" in ownEnv) {
  const proto = Object.getPrototypeOf((ownEnv as unknown as ChaosEnv).DB) as D1Database;
  const own = proto.batch;
  proto.batch = async function batch(this: D1Database, statements: D1PreparedStatement[]) {
    const results = await own.call(this, statements);
    const rows = results.reduce((sum, { meta }) => sum + (meta.rows_written ?? 0), 0);
    console.log(JSON.stringify({ log: "d1", rows }));
    return results;
  } as typeof own;
}

const requested = z.object({ name: z.string(), note: z.string(), program: z.json() });

const LabRequested = defineCommand({
  type: "lab.requested",
  payload: requested,
  key: ({ name }) => name,
  subject: ({ name }) => name,
  queue: probeCommands,
});

const UPSTREAM_MS = 3000;

const lab = defineWorkflow({
  name: "lab",
  on: LabRequested,
  run: runLab,
});

async function runLab(call: WorkflowCall<z.infer<typeof requested>>): Promise<unknown> {
  const passed = `${(call.env as unknown as ChaosEnv).UPSTREAM_URL}/passes/${call.instanceId}`;
  // A workflow's code has no timeout of its own: an unanswered call would block it forever.
  await fetch(passed, { method: "POST", signal: AbortSignal.timeout(UPSTREAM_MS) })
    .then((answer) => answer.text())
    .catch(() => undefined);
  // The memory of this process does not survive it: programs whose code counts its replays are not used here.
  return codeFor(call.payload.program as unknown as Program, () => 1)(call);
}

const limited = labsInFlow({ payload: requested, run: runLab });

const named = z.object({ name: z.string() });
const queue = probeCommands;
const Fanned = defineCommand({ type: "fan.one", payload: named, key: ({ name }) => name, subject: ({ name }) => name, queue });
const FanOut = defineCommand({
  type: "fan.out",
  payload: named.extend({ children: z.int() }),
  key: ({ name }) => name,
  subject: ({ name }) => name,
  queue,
});

/** A child that writes one row. */
const fanned = defineWorkflow({
  name: "fanned",
  on: Fanned,
  async run({ payload: { name }, step, instanceId }) {
    const row = sql`INSERT INTO probe_rows (id, kind, name) VALUES (${instanceId}, 'fanned', ${name})`;
    await step.commit("row", () => ({ statements: [row] }));
    return name;
  },
});

/** A parent of many children. */
const fanOut = defineWorkflow({
  name: "fan-out",
  on: FanOut,
  async run({ payload: { name, children }, step }) {
    const names = Array.from({ length: children }, (_, nth) => `${name}-${nth}`);
    const results = await Promise.all(names.map((one) => step.child("one", fanned, { name: one }, { key: one })));
    return { results: new Set(results).size };
  },
});

const app: Catalog = catalog({
  consumers: [
    startsOf(lab, ...Object.values(limited), followProbe, fanOut, fanned),
    routesOf(whenDone, on(ProbeSignal, signal()), on(LabEvent, keepLabRow)),
    turnConsumer,
    defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }),
  ],
});
export class Lab extends entrypoint(lab, app) {}
export class LabOne extends entrypoint(limited.one, app) {}
export class LabTwo extends entrypoint(limited.two, app) {}
export class LabThrottled extends entrypoint(limited.throttled, app) {}
export class LabDebounced extends entrypoint(limited.debounced, app) {}
export class FanOutRun extends entrypoint(fanOut, app) {}
export class FannedRun extends entrypoint(fanned, app) {}
export class TakeTurn extends entrypoint(takeTurn, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}
export class Lanes extends engineLanes(app, laneList) {}
const consume = dispatch(app);
const api = engineRoutes(app);

/** The one table of the test programs, as in test/probe/0100_probe.sql. */
const PROBE_ROWS =
  "CREATE TABLE IF NOT EXISTS probe_rows (id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL) STRICT, WITHOUT ROWID";
const PROBE_NAMES = "CREATE INDEX IF NOT EXISTS probe_names ON probe_rows (name)";

export default {
  async fetch(request, env, ctx) {
    armKeeper(env, ctx);
    const [, area, door = ""] = new URL(request.url).pathname.split("/");
    if (area === "v1") return api.fetch(request, env, ctx);
    if (area !== "door") {
      await env.DB.batch([PROBE_ROWS, PROBE_NAMES, ...BEGIN_JOURNAL].map((one) => env.DB.prepare(one)));
      return Response.json({});
    }
    const open = (allDoors(env) as Record<string, (...args: never[]) => Promise<unknown>>)[door];
    if (!open) return Response.json({}, { status: 404 });
    const answer: Answer = await open(...((await request.json()) as never[])).then((gave) => ({ gave: gave ?? null }), refused);
    return Response.json(answer);
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
} satisfies ExportedHandler<ChaosEnv>;

const refused = (error: unknown): Answer => ({ refused: { code: errors.codeOf(error), message: errors.messageOf(error) } });

function allDoors(env: ChaosEnv) {
  const doors = doorsOf(env, app);
  return {
    ...doors,
    ...laneDoors(env),
    ...turnDoors(env, app),
    enqueue: async (requests: readonly Asking[]): Promise<Answer[]> =>
      (await doors.enqueue(requests)).map((one) => ("instanceId" in one ? { gave: one } : refused(one))),
    deliver: (queue: string, bodies: unknown[], attempt: number) => deliver(env, queue, bodies, attempt),
    send: (queue: string, bodies: unknown[]) => queueBinding(env, queue).sendBatch(bodies.map((body) => ({ body }))),
    platform: (id: string) => platform(env, id),
    fanOut: (name: string, children: number) =>
      enqueueOne(env, app, { tenantId: operator.tenantId, source: "chaos" }, { command: FanOut, payload: { name, children } }),
    token: () => tokens.mint(env, { ...operator, scopes: ["read", "operate"] }),
    restart: async (id: string) => (await (await bindingOf(env, id)).get(id)).restart(),
  };
}

const STANDS_STILL: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/**
 * An instance's status. After a killed process the local platform leaves it unchanged until the instance gets an event. The keeper sends
 * one to open instances; an instance that the test itself has restarted after its end gets none.
 */
async function platform(env: ChaosEnv, id: string): Promise<InstanceStatus> {
  const workflow = await bindingOf(env, id);
  const instance = await workflow.get(id).catch((error) => {
    if (!errors.messageOf(error).includes("instance.not_found")) throw error;
  });
  if (!instance) return { status: "unknown" };
  const standing = await instance.status();
  if (STANDS_STILL.has(standing.status)) await instance.sendEvent({ type: "keeper-nudge", payload: {} });
  return standing;
}

/**
 * Delivers messages to the consumer as a queue does that survives this process: unsettled messages are sent again, and so are those that
 * the consumer sends back to that queue. The local queue is in this process's memory, and would die with it.
 */
async function deliver(env: ChaosEnv, queue: string, bodies: unknown[], attempts: number): Promise<{ acked: number }> {
  let acked = 0;
  const messages = bodies.map((body) => ({
    id: crypto.randomUUID(),
    timestamp: new Date(),
    attempts,
    body,
    ack: () => void acked++,
    retry: () => undefined,
  }));
  const batch = { queue, messages, ackAll: () => undefined, retryAll: () => undefined, metadata: undefined };
  const own = bindingName(queue);
  const real = (env as unknown as Record<string, Queue | undefined>)[own];
  const lasting = { send: async () => void acked--, sendBatch: (sent: MessageSendRequest[]) => real?.sendBatch(sent) };
  await consume(batch as unknown as MessageBatch, real ? { ...env, [own]: lasting } : env);
  return { acked };
}
