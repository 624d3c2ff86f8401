import { env } from "cloudflare:workers";
import { Recorder } from "millrace/worker";
import { onTestFinished } from "vitest";
import { probeEnv } from "../engine/harness.ts";
import { LAB } from "../engine/lab.ts";
import { Listener } from "../probe/listener.ts";
import { asked } from "./asked.ts";
import { home } from "./cells.ts";
import { bindingOf } from "./doors.ts";
import { BOUNDARIES, type Boundary, type Counts, type Fault, type Watch } from "./fault.ts";
import { BEGIN_JOURNAL, END_JOURNAL } from "./journal.ts";
import { TIMEOUT_MS } from "./program.ts";
import { SECRET } from "./senders.ts";

const LATE_MS = 2000;

/** Errors of the platform and D1. */
const WORDS: Record<Boundary, { lost: string; overload: string }> = {
  database: { lost: "D1_ERROR: Network connection lost.", overload: "D1_ERROR: D1 DB is overloaded. Requests queued for too long." },
  recorder: { lost: "Network connection lost.", overload: "Durable Object is overloaded. Too many requests queued." },
  queue: { lost: "Network connection lost.", overload: "Queue sendBatch failed: Too Many Requests" },
  create: { lost: "Network connection lost.", overload: "workflow.create_rate_limited: too many requests" },
  instance: { lost: "Network connection lost.", overload: "internal error; reference = 0" },
  object: { lost: "Network connection lost.", overload: "Durable Object is overloaded. Too many requests queued." },
  order: { lost: "Network connection lost.", overload: "internal error; reference = 0" },
  bucket: { lost: "Network connection lost.", overload: "put: Please reduce your request rate. (10058)" },
};

interface Watching {
  readonly names: readonly string[];
  readonly faults: readonly Fault[];
  readonly counts: Counts;
  struck: number;
  struckUntil: number;
}

const watching = new Set<Watching>();

/** Counts the calls about a run, by its name or id, and makes some of them fail. */
export function watch(names: readonly string[], faults: readonly Fault[]): Watch {
  const counts = Object.fromEntries(BOUNDARIES.map((boundary) => [boundary, 0])) as Counts;
  const own: Watching = { names, faults, counts, struck: 0, struckUntil: 0 };
  watching.add(own);
  return { counts, struck: () => own.struck, struckUntil: () => own.struckUntil, end: () => void watching.delete(own) };
}

/** Passes a call on, or makes it fail by the first due fault. */
async function pass(boundary: Boundary, about: string, call: () => Promise<unknown>): Promise<unknown> {
  const due: { own: Watching; fault: Fault }[] = [];
  for (const own of watching) {
    if (!own.names.some((name) => about.includes(name))) continue;
    const nth = own.counts[boundary]++;
    const fault = own.faults.find((one) => one.boundary === boundary && one.nth <= nth && nth < one.nth + (one.times ?? 1));
    // A call about two runs that both have a due fault fails in one way.
    if (!fault || due.length > 0) continue;
    own.struck++;
    due.push({ own, fault });
  }
  const [one] = due;
  if (!one) return call();
  try {
    return await strike(one.fault, boundary, about, call);
  } finally {
    one.own.struckUntil = Date.now();
  }
}

async function strike({ way }: Fault, boundary: Boundary, about: string, call: () => Promise<unknown>): Promise<unknown> {
  switch (way) {
    case "before":
      throw new Error(WORDS[boundary].lost);
    case "refused":
      throw new Error(WORDS[boundary].overload);
    case "after":
      await call();
      throw new Error(WORDS[boundary].lost);
    case "twice":
      await call();
      return call();
    case "stale": {
      const answer = await call();
      const since = await databaseTime();
      await scheduler.wait(TIMEOUT_MS + LATE_MS);
      await endLeases(about, since);
      return answer;
    }
    case "late":
      await scheduler.wait(LATE_MS);
      return call();
  }
}

/**
 * Ends the leases that the runs of a call had claimed until then, because their holder is slower than that. Another replay may hold a
 * lease since.
 */
async function endLeases(about: string, takenBy: number): Promise<void> {
  const ids = [...watching].flatMap(({ names }) => (names.some((name) => about.includes(name)) ? names : []));
  await home()
    .DB.prepare(
      "UPDATE millrace_inbox SET lease_until = 0 WHERE state = 'claimed' AND updated_at <= ?2 AND instance_id IN (SELECT value FROM json_each(?1))",
    )
    .bind(JSON.stringify(ids), takenBy)
    .run();
}

async function databaseTime(): Promise<number> {
  const { results } = await home().DB.prepare("SELECT unixepoch('subsec') * 1000 AS now").all<{ now: number }>();
  return results[0]?.now ?? 0;
}

/** The maximum time of a claim's holder: late to the upstream, and with a late response. */
const HELD_MS = 2 * TIMEOUT_MS + LATE_MS + 500;

/** The holders of a run's claims are dropped with its replay: their leases end when they have no effect any more. */
export async function endLeasesBehind(id: string): Promise<void> {
  const takenBy = await databaseTime();
  await scheduler.wait(HELD_MS);
  await home()
    .DB.prepare("UPDATE millrace_inbox SET lease_until = 0 WHERE state = 'claimed' AND instance_id = ?1 AND updated_at <= ?2")
    .bind(id, takenBy)
    .run();
}

type Call = (...args: never[]) => Promise<unknown>;

let get: Workflow["get"] | undefined;

/** A run on the platform, queried by the test itself: such calls are not the engine's. */
export const askAside = async (id: string): Promise<WorkflowInstance> => (get ?? LAB.get).call(await bindingOf(home(), id), id);

/** Log lines that contain secrets: text of a payload. */
export const leaked: string[] = [];

/** Intercepts all external calls of the engine, and starts the journal of the database, until the test ends. */
export async function standBetween(): Promise<void> {
  if (get) return;
  const { DB } = home();
  const run = (statements: string[]) => DB.batch(statements.map((one) => DB.prepare(one)));
  await run(BEGIN_JOURNAL);
  // The interception is never removed: such a run has a separate process.
  const { now } = Date;
  if (asked.clockMs !== 0) Date.now = () => now.call(Date) + asked.clockMs;
  const undo: (() => void)[] = [];
  for (const level of ["log", "info", "warn", "error"] as const) {
    const original = console[level];
    console[level] = (...said: unknown[]) => {
      const isOurs = typeof said[0] === "string" && said[0].startsWith("proof:");
      if (!isOurs && said.some((one) => textOf(one).includes(SECRET))) leaked.push(said.map(String).join(" ").slice(0, 300));
      original.apply(console, said);
    };
    undo.push(() => {
      console[level] = original;
    });
  }
  const replace = (target: object, methods: string[], boundary: Boundary, about: (args: unknown[]) => unknown) => {
    const prototype = target as Record<string, Call>;
    for (const method of methods) {
      const original = prototype[method] as Call;
      prototype[method] = function (this: object, ...args: never[]) {
        return pass(boundary, textOf(about(args)), () => original.apply(this, args));
      };
      undo.push(() => {
        prototype[method] = original;
      });
    }
  };
  const prototypeOf = (binding: object) => Object.getPrototypeOf(binding) as object;
  get = (prototypeOf(LAB) as Workflow).get;
  const params = ([statements]: unknown[]) => (statements as { params?: unknown }[]).map((one) => one.params);
  replace(prototypeOf(env.DB), ["batch"], "database", params);
  replace(
    Recorder.prototype,
    ["history", "output", "standing", "claim", "extend", "giveUp", "doubtHanging", "fence", "record", "remember", "keepCaught", "finish"],
    "recorder",
    (args) => args,
  );
  replace(prototypeOf(probeEnv.PROBE_EVENTS), ["send", "sendBatch"], "queue", ([sent]) =>
    Symbol.iterator in Object(sent) ? [...(sent as object[])] : sent,
  );
  replace(Listener.prototype, ["onEvent"], "object", (args) => args);
  replace(prototypeOf(LAB), ["createBatch"], "create", (args) => args);
  replace(prototypeOf(LAB), ["get"], "instance", (args) => args);
  const got = (prototypeOf(LAB) as unknown as Record<string, Call>).get as Call;
  (prototypeOf(LAB) as unknown as Record<string, Call>).get = async function (this: object, id: never) {
    const instance = (await got.call(this, id)) as Record<string, Call>;
    const told =
      (method: string) =>
      (...args: never[]) =>
        pass(method === "status" ? "instance" : "order", String(id), () => (instance[method] as Call).apply(instance, args));
    const methods = ["status", "restart", "terminate", "sendEvent", "subscribe"];
    return Object.fromEntries(methods.map((method) => [method, told(method)]));
  };
  replace(prototypeOf(env.PAYLOADS), ["get", "put", "delete"], "bucket", ([key]) => key);
  onTestFinished(async () => {
    get = undefined;
    watching.clear();
    for (const back of undo) back();
    await run(END_JOURNAL);
  });
}

function textOf(what: unknown): string {
  try {
    return JSON.stringify(what) ?? "";
  } catch {
    return "";
  }
}
