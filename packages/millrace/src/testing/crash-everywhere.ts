import { env as workerEnv } from "cloudflare:workers";
import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import { type AboutPoint, type CrashPoint, isSimulatedDeath } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { instanceId as instanceIdOf } from "../contract/ids.ts";
import { acceptCommand } from "../intake/accept/enqueue.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { WorkflowDefinition } from "../workflow/workflow.ts";
import { type Boundary, brokenIn, brokenWithoutFault, type CrashRun } from "./broken.ts";
import { expireLeases, keeperRound, skipPauses } from "./clock.ts";
import { assertCrashPoints, deathAt } from "./crashes.ts";
import { isAtEnd, untilEnded } from "./ends.ts";
import { type RecordingUpstream, recordingUpstream } from "./upstream.ts";

/** A run of a workflow that `crashEverywhere` starts. The run has a new tenant; the tenant's id is also the idempotency key. */
export interface TriedRun {
  readonly tenantId: string;
  readonly instanceId: string;
}

export interface CrashOptions<Input> {
  /** The `catalog` that `millrace({ … })` returns. */
  readonly catalog: Catalog;
  /**
   * Returns the input of the workflow for a run. The function is called once in each run. You need the function if your rows or upstreams
   * use identifiers that are not derived from the tenant's id.
   */
  readonly inputOf?: (run: TriedRun) => Input;
  /**
   * The upstream that records the workflow's requests. Default: a new upstream with default answers, which is used until the call returns.
   */
  readonly upstream?: RecordingUpstream;
  /**
   * Sends the events that the workflow waits for, or answers its questions. The function is called repeatedly until the run ends: send an
   * event with the same key each time, and answer only pending questions.
   */
  readonly meanwhile?: (run: TriedRun) => Promise<void>;
  /** Reads more data that must be the same in each run, such as your own rows of the tenant. */
  readonly compare?: (run: TriedRun) => Promise<unknown>;
  /**
   * Returns the part of the result that must be the same in each run. By default the whole result is compared, except the ids and keys of
   * the run.
   */
  readonly resultOf?: (result: unknown) => unknown;
  /** Selects the crash boundaries to test. Default: all. */
  readonly only?: (boundary: Boundary) => boolean;
  /** Time limit of one run of the workflow. Default: 20 seconds. */
  readonly withinMs?: number;
  /** If the value is false, broken guarantees are returned in the report and no error is thrown. Default: true. */
  readonly throws?: boolean;
  /** Receives a line of the report for each run. Default: `console.log`. */
  readonly print?: (line: string) => void;
}

export interface CrashReport {
  /** Each boundary that the run without a fault crossed, with the outcome of the run whose process died at this boundary. */
  readonly boundaries: readonly { boundary: Boundary; name: string; status: string; seconds: number; broken: readonly string[] }[];
  /** All guarantees that runs broke, each as a sentence. */
  readonly broken: readonly string[];
  readonly seconds: number;
}

/**
 * Runs a workflow once without a fault. Then runs the workflow again for each boundary that the first run crossed, and the process dies at
 * this boundary. Compares the end, result, messages and upstream requests of each run with those of the run without a fault. Also checks
 * whether each run fulfils the guarantees of the effect classes. Run no other work in the engine during this call. Errors: an `Error` with
 * every broken guarantee; `config_invalid` when the bundle has no crash points.
 */
export async function crashEverywhere<Input>(
  workflow: WorkflowDefinition<Input>,
  input: NoInfer<Input>,
  options: CrashOptions<NoInfer<Input>>,
): Promise<CrashReport> {
  assertCrashPoints();
  const { throws = true, print = console.log, only = () => true } = options;
  const startedAt = Date.now();
  const before = globalThis.millraceCrashPoint;
  const upstream = options.upstream ?? recordingUpstream();
  const pauses = skipPauses();
  const given = { workflow, input, options, upstream };
  try {
    const base = await attempt(given);
    const { status, error } = base;
    const why = base.failure || (status === "complete" ? "" : `it is ${status}, ${error?.step ?? ""}: ${error?.message ?? "no error"}`);
    if (why) throw new Error(`${workflow.name} is not complete without a fault: ${why}`);
    const boundaries = boundariesOf(base).filter(only);
    const broken = [...brokenWithoutFault(base)];
    const tried: CrashReport["boundaries"][number][] = [];
    for (const boundary of boundaries) {
      const begunAt = Date.now();
      const run = await attempt(given, boundary);
      const name = nameOf(boundary);
      const found = brokenIn(base, run, boundary);
      const seconds = (Date.now() - begunAt) / 1000;
      tried.push({ boundary, name, status: run.status, seconds, broken: found });
      broken.push(...found.map((one) => `${name}: ${one}`));
      print(
        `${tried.length}/${boundaries.length} ${name}: ${run.status} after ${seconds.toFixed(1)} s${found.map((one) => `\n    ${one}`).join("")}`,
      );
    }
    const report = { boundaries: tried, broken, seconds: (Date.now() - startedAt) / 1000 };
    print(`${workflow.name}: ${boundaries.length} boundaries in ${report.seconds.toFixed(1)} s, ${broken.length} broken promises.`);
    if (throws && broken.length > 0)
      throw new Error(`${workflow.name} breaks ${broken.length} promise${broken.length === 1 ? "" : "s"}:\n- ${broken.join("\n- ")}`);
    return report;
  } finally {
    globalThis.millraceCrashPoint = before;
    pauses.restore();
    if (!options.upstream) upstream.restore();
  }
}

/** Crash points at which the whole replay ends, so that no single attempt can be repeated. */
const OF_REPLAY: ReadonlySet<CrashPoint> = new Set(["W33 end recorded, replay not over"]);

/** Crash points of the whole deployment: the keeper may cross them during any run. */
const OF_DEPLOYMENT: ReadonlySet<CrashPoint> = new Set(["alert raised, not sent"]);

/**
 * Returns the boundaries that the run without a fault crossed. After each recorded step there is an additional boundary, at which the
 * platform also loses the run's state.
 */
function boundariesOf({ crossed }: CrashRun): Boundary[] {
  const all = crossed.flatMap((one): Boundary[] => {
    if (OF_DEPLOYMENT.has(one.point)) return [];
    if (OF_REPLAY.has(one.point)) return [{ ...one, beginsAnew: true }];
    const dies = { ...one, beginsAnew: false };
    return one.point.startsWith("W05") ? [dies, { ...one, beginsAnew: true }] : [dies];
  });
  return [...new Map(all.map((one) => [nameOf(one), one])).values()];
}

function nameOf({ point, step, beginsAnew }: Boundary): string {
  return `died at "${point}"${step === undefined ? "" : ` of step "${step}"`}${beginsAnew ? ", and the run restarted" : ""}`;
}

interface Given<Input> {
  readonly workflow: WorkflowDefinition<Input>;
  readonly input: Input;
  readonly options: CrashOptions<Input>;
  readonly upstream: RecordingUpstream;
}

/** Executes one run, which dies at a boundary, and reads its outcome. */
async function attempt<Input>({ workflow, input, options, upstream }: Given<Input>, boundary?: Boundary): Promise<CrashRun> {
  const env = workerEnv as unknown as EngineEnv;
  const { catalog, inputOf, meanwhile, compare, resultOf, withinMs = 20_000 } = options;
  const tenantId = `crash-${crypto.randomUUID().slice(0, 13)}`;
  const instanceId = instanceIdOf(tenantId, workflow.name, tenantId);
  const run = { tenantId, instanceId };
  const crossed: CrashRun["crossed"][number][] = [];
  const emitted: string[] = [];
  const death: Death = { isOver: boundary === undefined, isToRestart: false };
  globalThis.millraceCrashPoint = async (point, id, about) => {
    if (id !== undefined && id !== instanceId) return;
    const step = id === undefined ? undefined : about?.step;
    crossed.push({ point, step });
    if (point.startsWith("O01")) emitted.push(...typesOf(about));
    if (death.isOver || point !== boundary?.point || (step !== boundary.step && masked(step, run) !== boundary.step)) return;
    death.isOver = true;
    // The claims of the dead process expire, because the process no longer extends these claims.
    await expireLeases(env, instanceId);
    if (boundary.beginsAnew) {
      // The replay must not continue from here before the restart is requested, because a later restart would wait for this replay.
      death.isToRestart = true;
      while (death.isToRestart) await scheduler.wait(5);
    }
    throw deathAt(point);
  };

  const firstRequest = upstream.requests.length;
  const payload = inputOf ? inputOf(run) : input;
  const ask = () =>
    acceptCommand(
      env,
      catalog,
      { tenantId, source: "crashEverywhere" },
      {
        ...{ type: workflow.on.type, payload, idempotencyKey: tenantId },
      },
    );
  let failure = "";
  try {
    // If a request got no response, the caller repeats the request once.
    await ask().catch((error) => (boundary ? ask() : Promise.reject(error)));
    await settled(env, { run, workflow: workflow.name, death, withinMs, meanwhile });
  } catch (error) {
    failure = messageOf(error);
  }
  const { status, result, error } = await untilEnded(env, instanceId, { withinMs: failure ? 0 : 3000 }).catch(() => LOST);
  const rows = await ofTenant(env, tenantId);
  return {
    ...{ ...run, status, error, failure, crossed: crossed.map((one) => ({ ...one, step: masked(one.step, run) })), reached: death.isOver },
    result: resultOf ? resultOf(result) : result,
    emitted: countsOf(emitted),
    followers: countsOf(rows.filter(({ id }) => id !== instanceId).map((one) => `${one.workflow} (${one.status})`)),
    requests: upstream.requests.slice(firstRequest).filter(({ by }) => by?.instanceId === instanceId),
    compared: failure ? undefined : await compare?.(run),
  };
}

const LOST = { status: "lost", result: undefined, error: null };

const masked = (step: string | undefined, { tenantId, instanceId }: TriedRun): string | undefined =>
  step?.replaceAll(tenantId, "<tenant>").replaceAll(instanceId, "<instance>");

const typesOf = (about: AboutPoint | undefined): string[] =>
  (about?.messages ?? []).map(({ body }) => (JSON.parse(body) as { message_type: string }).message_type);

function countsOf(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(names, (name) => name)].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, all]) => [name, all.length]),
  );
}

interface Death {
  isOver: boolean;
  /** True while the dead replay waits for the restart of its run. */
  isToRestart: boolean;
}

interface Awaited {
  readonly run: TriedRun;
  readonly workflow: string;
  readonly death: Death;
  readonly withinMs: number;
  readonly meanwhile: CrashOptions<never>["meanwhile"];
}

/** Pause between two rounds of the keeper. */
const ROUND_MS = 300;
/**
 * When this time in milliseconds has passed since the end of a run, the run cannot reach its boundary any more. The run crosses its last
 * boundaries only after its end, and on a busy machine even later.
 */
const UNREACHED_MS = 2000;

/** Waits until the run and all instances that followed from the run have ended. The keeper runs its rounds during this wait. */
async function settled(env: EngineEnv, { run, workflow, death, withinMs, meanwhile }: Awaited): Promise<void> {
  const { tenantId, instanceId } = run;
  const deadline = Date.now() + withinMs;
  let roundAt = Date.now() + ROUND_MS;
  let endedAt: number | undefined;
  for (;;) {
    if (death.isToRestart) {
      await (await workflowBinding(env, workflow).get(instanceId)).restart();
      death.isToRestart = false;
    }
    // The messages are counted before the instances, because a single write confirms a message and inserts the instance that the message
    // starts.
    const messages = await unsent(env, tenantId);
    const open = (await ofTenant(env, tenantId)).filter(({ status }) => !isAtEnd(status));
    endedAt = open.length === 0 ? (endedAt ?? Date.now()) : undefined;
    const isReached = death.isOver || (endedAt !== undefined && Date.now() - endedAt > UNREACHED_MS);
    if (endedAt !== undefined && isReached && messages === 0) return;
    if (endedAt !== undefined && Date.now() - endedAt > 2 * UNREACHED_MS) return;
    if (Date.now() > deadline) {
      const says = open.map(({ workflow, status }) => `${workflow} is ${status}`).join(", ");
      throw new Error(`After ${withinMs} ms ${says}. If the workflow waits for an event or an answer, send it in \`meanwhile\`.`);
    }
    const isRound = Date.now() > roundAt;
    if (isRound || open.some(({ status }) => status === "waiting")) await meanwhile?.(run).catch(unlessDeath);
    if (isRound) {
      await keeperRound(env);
      roundAt = Date.now() + ROUND_MS;
    }
    await scheduler.wait(15);
  }
}

/** The process of a sender or an operator may die too: the next call of `meanwhile` repeats the request. */
function unlessDeath(error: unknown): void {
  if (!isSimulatedDeath(error)) throw error;
}

async function ofTenant(env: EngineEnv, tenantId: string) {
  const select = env.DB.prepare("SELECT id, workflow, status FROM millrace_instances WHERE tenant_id = ?1").bind(tenantId);
  return (await select.all<{ id: string; workflow: string; status: string }>()).results;
}

/** Counts the messages of the tenant that no consumer has accepted. */
async function unsent(env: EngineEnv, tenantId: string): Promise<number> {
  const select = env.DB.prepare("SELECT count(*) AS n FROM millrace_outbox WHERE body->>'tenant_id' = ?1").bind(tenantId);
  return (await select.first<{ n: number }>())?.n ?? 0;
}
