import type { EngineEnv } from "../contract/bindings.ts";
import { causeId } from "../contract/cause.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import type { Envelope } from "../contract/envelope.ts";
import { type EngineCode, messageOf } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { logLine } from "../contract/log-line.ts";
import { hasVersion } from "../contract/params.ts";
import { laneIn } from "../contract/queue.ts";
import { beginning } from "../contract/text.ts";
import { readBrokenOff } from "../contract/told-error.ts";
import { KEEPER_PATIENCE_MS, type Portion } from "../contract/within.ts";
import { packChildResult } from "../guard/result.ts";
import { askPlatform, nudge, restartFrom } from "../intake/platform.ts";
import { turnsOf } from "../lanes/turns-stub.ts";
import { type LoggedInstance, logEnd } from "../observe/log/instances.ts";
import { countEnd } from "../observe/metrics/runs.ts";
import { findSetBack } from "../operate/instances/past.ts";
import { isRateLimited, type Started, startInstances } from "../recorder/start.ts";
import { tellAnswers } from "../signals/approval.ts";
import { tellAgain } from "../signals/assign.ts";
import { atomically } from "../store/d1/retry.ts";
import { isInfrastructure } from "../store/d1/trouble.ts";
import { askForStart, HELD_MS, holdBack, markStarted, releaseHeld } from "../store/instances/accept.ts";
import { lookAtAll, noteLooked, noteRestarted } from "../store/instances/look.ts";
import { type End, finishInstance, markRunning, revive } from "../store/instances/run.ts";
import { FAILED, UNDER_WAY, UNSEEN } from "../store/instances/status.ts";
import { markInDoubt } from "../store/instances/wait.ts";
import { forgetResumed } from "../store/pauses.ts";
import { tellAnew } from "../store/waits.ts";
import { oldestWaiting } from "./backlog.ts";
import { dueInstances, envelopesOf, type Open, pauseMs, ROWS } from "./open-instances.ts";

/** Maximum time in milliseconds that an accepted command waits in a backlog. Afterwards the keeper starts the command without the queue. */
const MAX_QUEUED_MS = 900_000;
/** The pause after the platform has created instances and then refused others by its rate, in milliseconds. */
const RATE_MS = 1000;
/** Maximum pause between the checks of an instance of a version that is not deployed, in milliseconds. */
const VERSION_MS = 300_000;

/**
 * The result of an instance's check.
 * - `in lane`: the instance waits for its turn in a lane
 * - `seen`: the instance was started
 * - `asleep`: the instance has been idle for long
 * - `settled`: the instance needs no further check
 * - `held`: the instance must not start, because its workflow or queue is paused
 * - `no slot`: the instance waits for a slot of its workflow's `concurrency`
 * - `lives`: the row has an end status, but the run is in progress
 * - `lacks version`: the deployed code does not have the version of the instance
 * - `restarted`: the platform ended the run because of an infrastructure error, and the keeper restarted the run
 */
type Finding =
  | "leave"
  | "in lane"
  | "seen"
  | "asleep"
  | "settled"
  | "start"
  | "held"
  | "no slot"
  | "running"
  | "lives"
  | "lacks version"
  | "restarted"
  | Pick<End, "status" | "error" | "cause" | "result">;

/**
 * Starts accepted instances whose message or process was lost before their start. The check also detects running instances that have
 * recorded a step. The function does not check other instances in progress.
 */
export async function startUnseen(env: EngineEnv, elsewhere: Elsewhere, local: boolean, standsStill: StandsStill): Promise<Portion> {
  const { did, more, isRefused, hasRate } = await look(env, elsewhere, "unseen", (row, backlog) => {
    if (row.status === "accepted")
      return row.early_ms > 0 || (!row.overtakes && stillInQueue(row, backlog, standsStill)) ? "leave" : "start";
    return row.status === "queued" ? ask(env, row, local) : "seen";
  });
  // Instances that a resume released are started after all other instances, so that many released instances do not delay a repair. They do
  // not wait for a backlog that the platform's rate limits, because it can last for hours.
  if (!hasRate && (more || isRefused)) return { did, more };
  const [released = []] = await atomically(env.DB, [releaseHeld(ROWS), forgetResumed]);
  if (hasRate) await scheduler.wait(RATE_MS);
  return { did, more: hasRate || released.length > 0 };
}

/**
 * Checks instances that have been in progress for a while. The function starts instances that the platform has lost, and records ends that
 * the database missed.
 */
export function checkInstances(env: EngineEnv, elsewhere: Elsewhere, local: boolean): Promise<Portion> {
  return look(env, elsewhere, "seen", (row) => ask(env, row, local));
}

async function look(
  env: EngineEnv,
  elsewhere: Elsewhere,
  line: "unseen" | "seen",
  find: (row: Open, backlog: ReadonlyMap<string, number>) => Finding | Promise<Finding>,
): Promise<Portion & { isRefused: boolean; hasRate: boolean }> {
  const { rows, more } = await dueInstances(env, line, elsewhere);
  if (rows.length === 0) return { did: 0, more: false, isRefused: false, hasRate: false };
  const backlog = await oldestWaiting(
    env,
    rows.filter((row) => row.status === "accepted" && laneIn(row.queue) === undefined).flatMap((row) => row.queue ?? []),
  );
  const turns = await turnsAmong(env, rows);
  const found = await Promise.all(
    rows.map(async (row) => {
      const finding = row.promised ? "leave" : row.waits === 1 ? "no slot" : (turns.get(row.id) ?? (await find(row, backlog)));
      // A pause of the workflow does not stop the restart of a run that the platform has lost.
      return { row, finding: finding === "start" && line === "unseen" && row.held === 1 ? ("held" as const) : finding };
    }),
  );
  const having = (wanted: Finding) => found.filter(({ finding }) => finding === wanted).map(({ row }) => row);

  const { failed, untried } = await start(env, having("start"));
  const started = having("start").filter(({ id }) => !failed.has(id));
  const checked = found.filter(({ row }) => !untried.has(row.id));
  const untold = await tellAgain(
    env,
    // A restart discards events sent to the earlier run. For an instance with an unapplied operator action, the operator action sends these
    // events again. The platform would discard an event for a run that has ended or begins again.
    found.flatMap(({ row, finding }) => (row.promised || finding === "restarted" || finding === "lacks version" ? [] : row.id)),
  );
  await atomically(env.DB, [
    // An instance that the platform was not asked for remains due.
    noteLooked(
      checked.map(({ row, finding }) => ({
        id: row.id,
        check_at: row.check_at,
        pauseMs:
          finding === "settled"
            ? null
            : line === "unseen" && finding === "seen" && isOwed(row)
              ? 0
              : finding === "in lane"
                ? laneMs(row)
                : finding === "no slot"
                  ? HELD_MS
                  : finding === "lacks version"
                    ? Math.min(VERSION_MS, pauseMs(row, false))
                    : pauseMs(row, finding === "asleep" && !untold.has(row.id)),
        seen: line === "seen" || !(NOT_STARTED.has(finding) || failed.has(row.id)),
        hibernates: finding === "asleep",
      })),
    ),
    holdBack(having("held").map(({ id }) => id)),
    askForStart(having("no slot").map(({ id }) => id)),
    markStarted(started.map((row) => row.id)),
    ...having("running").map((row) => markRunning(row.id)),
    ...having("lives").map(revive),
    ...rows.filter(({ doubted }) => doubted).map(({ id }) => markInDoubt(id)),
    noteRestarted(having("restarted").map(({ id }) => id)),
    tellAnew(having("restarted").map(({ id }) => id)),
    ...found.flatMap(({ row, finding }) => (typeof finding === "object" ? [finishInstance({ id: row.id, run: row.run, ...finding })] : [])),
  ]);
  for (const { row, finding } of found) {
    if (typeof finding !== "object") continue;
    const failure = finding.error && JSON.parse(finding.error);
    countEnd(env, row.workflow, finding.status, failure?.code);
    logEnd(env, namedBy(row), finding.status, failure);
  }
  const idle = found.filter(({ finding }) => IDLE.has(finding));
  // No further portion follows while the platform refuses new instances, because the platform would also refuse the instances of that
  // portion.
  const isRefused = failed.size > 0;
  const hasRate = started.length > 0 && [...failed.values()].some(isRateLimited);
  return { did: found.length - idle.length - failed.size, more: more && !isRefused, isRefused, hasRate };
}

/** Findings of instances that must not start yet. */
const NOT_STARTED: ReadonlySet<Finding> = new Set(["leave", "in lane", "held", "no slot"]);

/** Findings after which the keeper changes nothing. */
const IDLE: ReadonlySet<Finding> = new Set([...NOT_STARTED, "seen", "asleep", "settled", "lacks version"]);

function namedBy({ id, workflow, tenant_id, subject, correlation_id }: Open): LoggedInstance {
  return { instance_id: id, workflow, tenant_id, subject, correlation_id };
}

/** True if an instance must be checked in this round, because its row has an end status or its check is long overdue. */
function isOwed(row: Open): boolean {
  return isOver(row) || row.overdue_ms > 3 * KEEPER_PATIENCE_MS;
}

/** True if a queue has stopped delivering, given the send time of its oldest message. */
type StandsStill = (queue: string, oldest: number) => boolean;

/**
 * True if the command's message still waits in a queue that delivers. This is certain if the queue's oldest message is older. A queue that
 * cannot report its backlog counts as empty. An unnecessary start is harmless, because an instance is created only once.
 */
function stillInQueue(row: Open, backlog: ReadonlyMap<string, number>, standsStill: StandsStill): boolean {
  const queue = row.queue ?? "";
  const oldest = backlog.get(queue) || Number.POSITIVE_INFINITY;
  return oldest <= row.accepted_at + 1000 && row.age_ms < MAX_QUEUED_MS && !standsStill(queue, oldest);
}

async function ask(env: EngineEnv, row: Open, local: boolean): Promise<Finding> {
  const { status, error, instance, output } = await askPlatform(env, row.workflow, platformId(row.id, row.undo));
  switch (status) {
    case "unreachable":
      return "leave";
    case "unknown":
      // The instance is not recreated, because the new run could repeat an effect with an unknown outcome. The record of that effect is
      // lost.
      if (row.undoubted) return failure(row, DOUBT_GONE, "in_doubt");
      // Ended and skipped instances are never recreated.
      return UNDER_WAY.has(row.status) ? "start" : "settled";
    case "complete":
      if (row.undo !== null) return { status: "terminated", error: null };
      // The database was restored from an older backup, without the run's rows and messages. Only a new run of the instance writes these
      // rows and messages again.
      if (await findSetBack(env, row)) return failure(row, SET_BACK, "database_set_back");
      return { status: "complete", error: null, ...(row.parent !== null && { result: await resultFor(env, row, row.parent, output) }) };
    case "terminated":
      return row.undo === null
        ? { status: "terminated", error: null }
        : failure(row, "The undo of the instance was terminated on the platform.");
    case "errored":
      return errored(row, instance, error);
    default:
      if (local && instance) await nudge(instance).catch(() => undefined);
      // The restart of a run discards a decision that was sent to the run before.
      if (instance && row.broken_off > 0 && row.undo === null) await tellAnswers(env, instance, row.id).catch(() => undefined);
      if (isOver(row)) return "lives";
      if (status === "waiting") return "asleep";
      return UNSEEN.has(row.status) && status !== "queued" ? "running" : "seen";
  }
}

function resultFor(env: EngineEnv, { id, run, tenant_id: tenantId }: Open, parent: string, output: unknown): Promise<string> {
  return packChildResult(env.PAYLOADS, { tenantId, parent, id, run }, output);
}

/**
 * Handles a run that the platform reports as errored, and that has recorded no failure. An infrastructure error of the platform is not a
 * failure of the run. Therefore the run is restarted at the step where its replay ended, a limited number of times.
 */
async function errored(row: Open, instance: WorkflowInstance | null, error: string | null): Promise<Finding> {
  const said = beginning(error ?? "The platform ended the run.", 1000);
  const at = readBrokenOff(said);
  const isItsOwn = error === null || at !== undefined || isInfrastructure(new Error(said));
  if (instance === null || isOver(row) || !isItsOwn) return failure(row, said);
  // The replay ended because the deployed code lacks the version of the instance. A deployment with the version continues the instance.
  if (!hasVersion(row.workflow, row.version)) return "lacks version";
  if (row.broken_off >= MOST_RESTARTS) {
    const tries = `The platform ended the run ${MOST_RESTARTS + 1} times with its own error, and no step failed.`;
    return failure(row, beginning(`${tries} Retry it when the platform works again. The last error: ${said}`, 1000));
  }
  // An errored status without an error text means that a restart is in progress. The platform has already removed the error text, but has
  // not changed the status yet.
  if (error === null) return "restarted";
  try {
    await restartFrom(instance, at);
  } catch {
    return "leave";
  }
  logLine("warn", { log: "restarted", ...namedBy(row), step: at?.name ?? "", error: said });
  return "restarted";
}

/** Maximum number of restarts of one run. The restarts and the pauses between them take about four hours. */
const MOST_RESTARTS = 12;

/** True for an instance with a recorded failure, which gets a last check of the platform's status. */
function isOver({ status }: Open): boolean {
  return FAILED.has(status);
}

function failure({ status, workflow }: Open, message: string, code: EngineCode = "step_failed"): Finding {
  if (status === "errored") return "settled";
  const failed = { step: "", code, message, attempts: 0 };
  return { status: "errored", error: JSON.stringify(failed), cause: causeId({ place: workflow, code, message }) };
}

const DOUBT_GONE =
  "An effect had an unknown outcome, and its record and the run on the platform are gone, so it cannot be resolved. Check the receiving side. A retry repeats each effect that /effects does not list as done. Or restore a backup that has the record.";

const SET_BACK =
  "The platform has completed the run, but the database has no record of its steps: an earlier state of the database was restored. Restart the instance: a step without a record runs again, a lookup asks the upstream first, a once effect becomes in_doubt.";

/** Creates instances on the platform. */
async function start(env: EngineEnv, rows: readonly Open[]): Promise<Started> {
  const envelopes = rows.length === 0 ? new Map<string, Envelope>() : await envelopesOf(env, rows);
  return startInstances(
    env,
    rows.flatMap(({ id, workflow, undo, status, version }) => {
      const envelope = envelopes.get(id);
      return envelope ? [{ id, workflow, undo, envelope, version: UNSEEN.has(status) ? undefined : version }] : [];
    }),
    "again",
  );
}

/**
 * Only for the local platform, where a killed process loses the timers of its sleeping instances. A new keeper makes the checks of all
 * sleeping instances due, because these checks are otherwise far apart.
 */
export async function wakeSleepers(env: EngineEnv): Promise<void> {
  await atomically(env.DB, [lookAtAll()]);
}

/**
 * The state of an accepted command in its lane. `in lane`: the command waits for its turn. `start`: the turn of the command began, but no
 * start was recorded. `leave`: the lane did not answer.
 */
type TurnFinding = "in lane" | "start" | "leave";

/**
 * The states of the accepted lane commands among these rows. Each command is sent to its lane again, and the lane ignores duplicates by id.
 * A command is started only if its turn has begun, which preserves the order. The function never throws. If a lane does not answer, its
 * commands are left unchanged.
 */
async function turnsAmong(env: EngineEnv, rows: readonly Open[]): Promise<ReadonlyMap<string, TurnFinding>> {
  const waiting = rows.filter((row) => row.status === "accepted" && !row.promised && laneIn(row.queue) !== undefined);
  if (waiting.length === 0) return new Map();
  const envelopes = await envelopesOf(env, waiting);
  const groups = Map.groupBy(waiting, ({ queue, tenant_id, subject }) => JSON.stringify([queue, tenant_id, subject]));
  return new Map((await Promise.all([...groups.values()].map((group) => turnsIn(env, group, envelopes)))).flat());
}

/** The commands of one lane are sent again in the order of their acceptance. */
async function turnsIn(env: EngineEnv, group: readonly Open[], envelopes: ReadonlyMap<string, Envelope>): Promise<[string, TurnFinding][]> {
  const [first, ...others] = group
    .toSorted((a, b) => a.accepted_at - b.accepted_at)
    .flatMap((row) => {
      const envelope = envelopes.get(row.id);
      return envelope ? [{ row, envelope }] : [];
    });
  if (!first) return [];
  const known = [first, ...others];
  try {
    const turns = await turnsOf(env, first.row.queue ?? "", [first.envelope, ...others.map(({ envelope }) => envelope)]);
    return known.map(({ row }, at) => [row.id, turns[at] === "given" ? "start" : "in lane"]);
  } catch (error) {
    logLine("warn", { log: "keeper_lane", queue: first.row.queue, error: messageOf(error) });
    return known.map(({ row }) => [row.id, "leave"]);
  }
}

const LONGEST_MS = 3_600_000;

/**
 * The pause before the next check of a command in a lane: half the command's age, up to an hour. The check can wait, because the lane
 * stores the command durably.
 */
function laneMs({ age_ms }: Pick<Open, "age_ms">): number {
  return Math.round(Math.min(Math.max(age_ms / 2, KEEPER_PATIENCE_MS), LONGEST_MS));
}
