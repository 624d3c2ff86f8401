import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import { assertBound, type EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { checkedHops, type Envelope, parseEnvelope } from "../contract/envelope.ts";
import { MillraceError, messageOf, readable } from "../contract/errors.ts";
import { hasFlow } from "../contract/flow.ts";
import { shownCode } from "../contract/hide.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { logLine } from "../contract/log-line.ts";
import { openParams, type Params, versionMissing } from "../contract/params.ts";
import { unpackPayload } from "../contract/payload.ts";
import { laneIn } from "../contract/queue.ts";
import { ownName } from "../contract/step-names.ts";
import { reportBrokenOff } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";
import { asResult, packChildResult } from "../guard/result.ts";
import { notifyTurnOver, type RunEnd } from "../lanes/turns-stub.ts";
import { noteEnd } from "../observe/attempts.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import { advise, betweenSteps } from "../replay/advice.ts";
import { asWrongStatement, causeOfFailure, type Failure } from "../replay/failure.ts";
import { Replay } from "../replay/replay.ts";
import { patiently } from "../replay/run-state.ts";
import { cellOf, openCell } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { lookForVersion } from "../store/instances/look.ts";
import type { End } from "../store/instances/run.ts";
import { Executing } from "./executing.ts";
import { Platform } from "./platform.ts";
import { asPlatformError } from "./step-attempts.ts";
import type { StepBehaviour } from "./step-behaviour.ts";
import { Steps } from "./steps.ts";
import { Undoing } from "./undoing.ts";
import type { AnyWorkflow, Deployment, WorkflowDefinition } from "./workflow.ts";

/**
 * How long the parameters of an instance show its cell, in milliseconds. Afterwards its tenant may have moved, so that the directory is
 * read. A move waits longer than this time.
 */
const YOUNG_MS = 60_000;

/** The env of the cell in which an instance runs. */
async function cellOfRun(env: EngineEnv, { cell, created_ms = 0, tenant_id }: Params): Promise<EngineEnv> {
  const isYoung = Date.now() - created_ms < YOUNG_MS;
  return patiently(() => (isYoung ? openCell(env, cell) : cellOf(env, tenant_id)));
}

/** A workflow class that the platform runs. `workflow` is the name of the workflow's definition, for the check of the bindings. */
interface WorkflowClass {
  new (ctx: ExecutionContext, env: EngineEnv): WorkflowEntrypoint<EngineEnv, Params>;
  readonly workflow: string;
}

/**
 * Creates the class that a Worker exports for one workflow of a catalog: `export class PublishArticle extends entrypoint(publishArticle,
 * app) {}`. Errors: `config_invalid` if the workflow or the catalog is undefined.
 */
export function entrypoint<Payload>(definition: WorkflowDefinition<Payload>, catalog: Deployment): WorkflowClass {
  if (definition === undefined) {
    throw new MillraceError("config_invalid", "entrypoint() got undefined as its workflow: check that the imported name is exported.");
  }
  if (catalog === undefined) {
    throw new MillraceError(
      "config_invalid",
      `entrypoint() of "${definition.name}" got no catalog: pass the result of catalog() as the second argument.`,
    );
  }
  return class extends WorkflowEntrypoint<EngineEnv, Params> {
    static readonly workflow: string = definition.name;

    override async run(event: Readonly<WorkflowEvent<Params>>, steps: WorkflowStep): Promise<unknown> {
      // The error is thrown unchanged, because the platform would not store the message of an error that ends a step at once.
      assertBound(this.env);
      return replayOnce(definition, { env: await cellOfRun(this.env, event.payload), event, steps, deployment: catalog });
    }
  };
}

/** The class that the platform runs for all workflows of a catalog. */
export interface RunsClass {
  new (ctx: ExecutionContext, env: EngineEnv): WorkflowEntrypoint<EngineEnv, Params>;
  /** The catalog, which `millrace dev` and `millrace doctor` read. */
  readonly catalog: Deployment & { readonly workflows: readonly AnyWorkflow[] };
}

/**
 * Creates the one class for all workflows of a catalog: `export class Runs extends runs(app) {}`. A workflow that has a binding, or an
 * exported class with the workflow's name, does not use this class.
 */
export function runs(catalog: Deployment & { readonly workflows: readonly AnyWorkflow[] }): RunsClass {
  const byName = new Map(catalog.workflows.map((workflow) => [workflow.name, workflow]));
  return class extends WorkflowEntrypoint<EngineEnv, Params> {
    static readonly catalog = catalog;

    override async run(event: Readonly<WorkflowEvent<Params>>, steps: WorkflowStep): Promise<unknown> {
      assertBound(this.env);
      const definition = byName.get(event.payload.workflow ?? "");
      const env = await cellOfRun(this.env, event.payload);
      if (definition !== undefined) return replayOnce(definition, { env, event, steps, deployment: catalog });
      throw new MillraceError(
        "config_invalid",
        `Runs has no workflow "${event.payload.workflow}": this deployment does not contain it. Add it to the workflows of millrace({ … }), deploy, then retry.`,
      );
    }
  };
}

const NOT_AWAITED = "The step was not awaited: the workflow code ended without it. Write await before it, or pass it to Promise.all.";

/**
 * Refuses a message of another workflow, because a class that two bindings name would otherwise run both workflows. Errors:
 * `config_invalid`.
 */
function assertOwn({ name, on }: AnyWorkflow, { message_type: type }: Envelope): void {
  if (type === on.type) return;
  throw new MillraceError(
    "config_invalid",
    `The class that was started for "${type}" runs the workflow "${name}", which accepts "${on.type}". In wrangler.jsonc, the binding of another workflow names this class: correct that class_name, deploy, then retry.`,
  );
}

interface Given {
  readonly deployment: Deployment;
  readonly env: EngineEnv;
  readonly event: Readonly<WorkflowEvent<Params>>;
  readonly steps: WorkflowStep;
  /** Wraps the steps of the replay, for a check of recorded runs. */
  readonly watch?: (behaviour: StepBehaviour, replay: Replay) => StepBehaviour;
}

/**
 * Executes one replay of the workflow's code, for a run or an undo. The method reads the message, executes the code and reports the end.
 */
export async function replayOnce<Payload>(
  definition: WorkflowDefinition<Payload>,
  { env, event, steps, deployment, watch = (behaviour) => behaviour }: Given,
): Promise<unknown> {
  const { envelope: message, createdAt, undoes, version } = openParams(event.payload);
  const envelope = parseEnvelope(message);
  const instanceId = undoes ?? event.instanceId;
  const { name: workflow, on } = definition;
  const run = version === (definition.version ?? 1) ? definition.run : definition.previous?.[version];
  if (run === undefined) return stopAtVersion({ env, steps }, { workflow, instanceId, version });
  const replay = new Replay({
    env,
    workflow,
    queue: on.queue.name,
    instanceId,
    envelope,
    createdAt,
    undoes: undoes !== undefined,
    version,
  });
  // The query starts before the payload is read, because the first step needs the result of the query.
  if (definition.steps === "inline") void replay.inbox.proveFirst();
  await replay.assertWanted(event.instanceId).catch((error) => Promise.reject(asPlatformError(error)));
  const platform = new Platform(replay, steps);
  return platform.brokenOff.orThrow(execute({ ...definition, run }, { replay, platform, deployment, watch }));
}

/**
 * Ends a replay before the first line of the workflow's code, because the deployed code does not have the version of the instance. The end
 * records no failure. The keeper restarts the instance at this step when a deployment has the version.
 */
async function stopAtVersion(
  { env, steps }: Pick<Given, "env" | "steps">,
  { workflow, instanceId: id, version }: { workflow: string; instanceId: string; version: number },
): Promise<never> {
  const name = ownName("start", "version", 1);
  const error = new Error(reportBrokenOff(versionMissing(workflow, version), { type: "do", name }));
  await patiently(() => query(env.DB, lookForVersion(id, version)));
  logLine("warn", { log: "version_missing", instance_id: id, workflow, version });
  await steps.do(name, { retries: { limit: 0, delay: 0 } }, () => Promise.reject(error)).catch(() => undefined);
  throw error;
}

interface Execution {
  readonly replay: Replay;
  readonly platform: Platform;
  readonly deployment: Deployment;
  readonly watch: (behaviour: StepBehaviour, replay: Replay) => StepBehaviour;
}

async function execute<Payload>(
  definition: WorkflowDefinition<Payload>,
  { replay, platform, deployment, watch }: Execution,
): Promise<unknown> {
  const { env, envelope, instanceId } = replay;
  try {
    assertOwn(definition, envelope);
    const payload = await platform.reading({ label: "open payload" }, () => unpackPayload(env.PAYLOADS, definition.on, envelope));
    replay.withhold(definition.on.payload, payload);
    const call = { payload, envelope: Object.freeze({ ...envelope }), instanceId, env: env as unknown as Cloudflare.Env, deployment };
    const code = (behaviour: StepBehaviour) => () =>
      betweenSteps(replay, () =>
        definition.run({
          ...call,
          step: new Steps(replay, platform, behaviour, definition.steps ?? "platform", checkedHops(deployment.maxHops)),
        }),
      ).finally(() => replay.catchUp());
    if (replay.undoes) return await undoAll(replay, platform, code);
    return await performAll(replay, platform, code(watch(new Executing(replay, platform, deployment.signalled), replay)));
  } catch (thrown) {
    // Only the flag proves that the platform ended the replay, because the app may throw an error with the same message.
    if (platform.brokenOff.isSo) throw thrown;
    const error = asWrongStatement(readable(thrown));
    await platform.whenQuiet();
    // A complete run that the platform restarts does nothing and stays complete, even if the workflow's code takes another path in this
    // replay.
    if (replay.run.isComplete) return undefined;
    const failure = replay.isStopped ? undefined : replay.reasonFor(error);
    if (failure) await recordEnd(replay, platform, "errored", { why: failure });
    throw asPlatformError(error);
  }
}

async function performAll(replay: Replay, platform: Platform, code: () => Promise<unknown>): Promise<unknown> {
  const { kept, changed } = asResult(await platform.followed(code()).finally(() => replay.stepOrder.end()));
  if (changed) advise(replay, "", `${changed} Return plain data, such as { at: date.toISOString() } or [...map].`);
  for (const label of replay.guarded.floating) advise(replay, label, NOT_AWAITED);
  await platform.followed(platform.whenDone());
  await replay.assertNoneInDoubt();
  await recordEnd(replay, platform, "complete", { kept });
  return kept;
}

async function undoAll(
  replay: Replay,
  platform: Platform,
  code: (behaviour: StepBehaviour) => () => Promise<unknown>,
): Promise<{ undone: number }> {
  const undoing = new Undoing(replay, platform);
  const undone = await platform.followed(undoing.undo(code(undoing)));
  await recordEnd(replay, platform, "terminated");
  return { undone };
}

/**
 * Reports how a run ended, with the number of that run. The function never throws, because the keeper finds an unreported end when the
 * keeper polls the platform. The keeper may poll a long run only once a day, so the function retries until the end is written.
 */
async function recordEnd(
  replay: Replay,
  platform: Platform,
  status: End["status"],
  { why = null, kept }: { why?: Failure | null; kept?: unknown } = {},
): Promise<void> {
  replay.progress.flush();
  try {
    // Callbacks, alerts and metrics show the error code without the error's message, so values in the code are redacted.
    const failure = why && { ...why, code: shownCode(replay.hide, why.code) };
    const error = failure && JSON.stringify(failure);
    const number = await replay.run.number();
    const cause = failure === null ? undefined : causeOfFailure(replay.workflow, failure);
    const { instanceId: id, envelope } = replay;
    const { tenant_id: tenantId, parent } = envelope;
    const pack = async () => packChildResult(replay.env.PAYLOADS, { tenantId, parent: parent ?? "", id, run: number }, kept);
    const isToPack = parent !== undefined && status === "complete";
    const end = {
      id,
      run: number,
      status,
      error,
      cause,
      left: replay.leftTo(number + 1, failure),
      spent: replay.spending.of(number, replay.undoes, replay.beganAt),
      result: isToPack ? await platform.reading({ label: "end" }, pack, "always") : undefined,
    };
    const calls = envelope.callback_url !== undefined;
    const inLane = envelope.kind === "command" && laneIn(replay.queue) !== undefined;
    // The keeper does not know the tags, so the write of an end with tags is not left to the keeper.
    const { newTags } = replay;
    const finish = (certain: boolean) =>
      replay.recorder.finish({ ...end, ...replay.inbox.reader }, certain || newTags.length > 0, newTags, parent, hasFlow(replay.workflow));
    // Only the replay knows the reason of a failure.
    const isSoon = !inLane && failure === null && replay.inbox.isKnownToRun && Date.now() - Date.parse(envelope.created_at) < YOUNG_MS;
    const write = () => (isSoon ? finish(calls) : platform.reading({ label: "end" }, () => finish(true), "always"));
    let isRecorded = await write();
    while (!isRecorded && (await replay.inbox.followEnd())) isRecorded = await write();
    // Another replay or another run reports its own end. A write whose answer was lost has recorded this end.
    if (!isRecorded && !(await replay.run.isAt(status))) return;
    if (inLane) await notifyLane(replay, { status, error: failure && `${failure.code}: ${replay.hide(failure.message)}`, run: number });
    noteEnd(replay, number, status, failure && { ...failure, cause });
    if (calls) await callBack(replay);
  } catch (error) {
    logLine("warn", { log: "end", ...loggedInstance(replay), status, error: messageOf(error) });
  }
  await crashPoint("W33 end recorded, replay not over", replay.instanceId);
}

const CALL_LIMIT_MS = 2000;

/** Asks the keeper to send the callback at once. The function never throws, because the keeper finds pending callbacks in any case. */
async function callBack({ env, instanceId }: Replay): Promise<void> {
  try {
    await crashPoint("ended, callback not stored", instanceId);
    await within(keeperObject(env).callBack(), CALL_LIMIT_MS);
  } catch (error) {
    logLine("warn", { log: "callback", instance_id: instanceId, error: messageOf(error) });
  }
}

/**
 * Ends the instance's turn in the lane of the instance, after the write of the run's end. The function never throws.
 */
async function notifyLane({ env, queue, envelope, instanceId }: Replay, end: RunEnd): Promise<void> {
  const untold = await crashPoint("L12 ended, lane not notified", instanceId).catch(() => true);
  if (!untold) await notifyTurnOver(env, queue, envelope, instanceId, end);
}
