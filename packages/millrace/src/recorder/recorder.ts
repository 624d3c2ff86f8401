import { DurableObject } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellOfObject, inCell } from "../contract/cells.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import type { EntryKey } from "../contract/ids.ts";
import { laneIn } from "../contract/queue.ts";
import { Recent } from "../contract/recent.ts";
import type { RowStatement } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import { CLOCKS_APART_MS } from "../contract/within.ts";
import { GatheredCounts, WRITE_MS } from "../observe/metrics/gathered.ts";
import type { Tally } from "../observe/metrics/tally.ts";
import { tell } from "../signals/assign.ts";
import { GroupCommit } from "../store/d1/group-commit.ts";
import type { Row } from "../store/d1/retry.ts";
import { claimEntry, doubtClaim, extendLease, type GivenOutput, giveUpClaim, refuseSkip } from "../store/inbox/claim.ts";
import { CLAIMED, DOUBTED } from "../store/inbox/classes.ts";
import { doubtHanging, putDoubtBack } from "../store/inbox/doubts.ts";
import type { Attempt, Entry, Seen } from "../store/inbox/entry.ts";
import { fenceCommit, isFenceRefusal, recordOutcome } from "../store/inbox/outcome.ts";
import { selectEntries, selectEntry, selectOutput } from "../store/inbox/read.ts";
import { type NextInSlot, selectNextInSlot } from "../store/instances/accept.ts";
import { selectUntoldEnd, type UntoldEnd } from "../store/instances/children.ts";
import {
  addTags,
  type End,
  finishInstance,
  isAsleep,
  type KeptCaught,
  keepCaught,
  markAwake,
  markRunning,
  type Standing,
  selectLeft,
  selectRun,
  setProgress,
} from "../store/instances/run.ts";
import { markDoubted, markInDoubt, markResolved, markWaiting } from "../store/instances/wait.ts";
import { storeOutgoing } from "../store/outbox.ts";
import { noteTold } from "../store/waits.ts";
import { type Answer, type Outcome, onlyEntry, recorded, standingOf, standingSaid } from "./answer.ts";
import { Gatherer } from "./gather.ts";
import { relay } from "./relay.ts";
import { startInstances } from "./start.ts";

/**
 * The writer of step outcomes. The recorder receives outcomes of many instances, commits these outcomes in groups, and sends the committed
 * messages from memory. All durable state of a recorder is in D1, so the object may end at any time, and any number of recorders may exist.
 * Callers repeat calls, the fence rejects duplicates, and the keeper sends unsent messages.
 */
export class Recorder extends DurableObject<EngineEnv> {
  readonly #counts = new GatheredCounts(this.env);
  readonly #commits = new GroupCommit(this.env.DB, {}, () => this.#counts.along());
  readonly #replays = new KnownReplays();
  readonly #gatherer = new Gatherer(this.env);
  #writesCounts = false;

  constructor(ctx: DurableObjectState, env: EngineEnv) {
    super(ctx, inCell(env, cellOfObject(ctx.id.name)));
  }

  /** True if no earlier replay of the instance can have begun a step. The recorder answers from memory, without a read of the database. */
  async begin(instanceId: string, replay: string, createdMs: number): Promise<boolean> {
    return this.#replays.isFirst(instanceId, replay, createdMs);
  }

  /**
   * All entries of an instance without outputs, because outputs may exceed the limit of one answer (32 MiB). `left`: the information that
   * earlier runs stored for later replays (see `LeftBehind`), as JSON; null without such information. `lost`: the steps without
   * records, because the database was restored to an earlier time. `readAt`: the database's time.
   */
  history(instanceId: string): Promise<{ entries: Seen[]; left: string | null; lost: string | null; readAt: number }> {
    return this.#commits.commit({
      statements: [selectEntries(instanceId), selectLeft(instanceId)],
      read: ([entries, rows]) => {
        const [{ caught: left, lost, read_at: readAt }] = rows as unknown as [
          { caught: string | null; lost: string | null; read_at: number },
        ];
        return { entries: entries as unknown as Seen[], left, lost, readAt };
      },
    });
  }

  /** The output of one entry, as JSON. Null for an entry without an output, and for an entry whose output is in R2. */
  output(key: EntryKey): Promise<string | null> {
    return this.#commits.commit({
      statements: [selectOutput(key)],
      read: ([rows]) => (rows?.[0]?.output as string | undefined) ?? null,
    });
  }

  /**
   * Claims an effect's key before the effect runs, if the key is free. For a class without claims, the call sets another attempt's expired
   * claim to `in_doubt`.
   */
  async claim(attempt: Attempt, leaseMs: number, input: string | null): Promise<Answer> {
    const claim = CLAIMED.has(attempt.class) ? claimEntry(attempt, leaseMs, input) : doubtClaim(attempt);
    const statements = [claim, ...this.#running(attempt), markDoubted(attempt.key), selectEntry(attempt.key)];
    try {
      return await this.#commits.commit({
        statements: [...statements, selectRun(attempt.key.instanceId)],
        read: (rows) => {
          const entry = onlyEntry(rows[statements.length - 1]);
          return {
            mine: entry?.state === "claimed" && entry.token === attempt.token,
            entry,
            standing: standingOf(attempt.key.instanceId, rows[statements.length]),
          };
        },
      });
    } catch (error) {
      if (!isFenceRefusal(error)) throw error;
      return { mine: false, entry: null };
    }
  }

  /** Extends the lease of a claim. Returns false if another attempt holds the claim. */
  extend(attempt: Attempt, leaseMs: number): Promise<boolean> {
    return this.#commits.commit({
      statements: [extendLease(attempt, leaseMs)],
      read: ([rows]) => rows !== undefined && rows.length > 0,
    });
  }

  giveUp(attempt: Attempt, ending: "failed" | "in_doubt" | "expired", error: string): Promise<void> {
    const doubt = ending === "in_doubt" ? [markInDoubt(attempt.key.instanceId)] : [];
    return this.#commits.commit({ statements: [giveUpClaim(attempt, ending, error), ...doubt], read: () => undefined });
  }

  refuseSkip(given: GivenOutput): Promise<void> {
    return this.#commits.commit({ statements: refuseSkip(given), read: () => undefined });
  }

  /** Prevents that a commit is written after its step has failed. If the commit is already written, the call returns the commit's entry. */
  fence(attempt: Attempt): Promise<Entry | null> {
    return this.#commits.commit({
      statements: [fenceCommit(attempt), selectEntry(attempt.key)],
      read: ([, rows]) => onlyEntry(rows),
    });
  }

  /** If an effect hangs and its step has failed, the call sets the effect to `in_doubt`. */
  async doubtHanging(key: Omit<EntryKey, "generation">, error: string): Promise<void> {
    return this.#commits.commit({ statements: [doubtHanging(key, error), markInDoubt(key.instanceId)], read: () => undefined });
  }

  /** Sets the status of the instance's row to `in_doubt` while the run waits for a decision about an unknown outcome. */
  parked(instanceId: string): Promise<void> {
    return this.#commits.commit({ statements: [markInDoubt(instanceId)], read: () => undefined });
  }

  /** Creates the missing entry of an effect with an unknown outcome, so that an operator can decide about the effect. */
  async doubtAgain(attempt: Attempt, input: string | null, error: string): Promise<void> {
    const statements = [putDoubtBack(attempt, input, error), markInDoubt(attempt.key.instanceId)];
    return this.#commits.commit({ statements, read: () => undefined });
  }

  /**
   * Commits an outcome with its rows and messages, then relays the messages. If another attempt has already stored an outcome, the call
   * returns this stored outcome.
   */
  async record(attempt: Attempt, outcome: Outcome): Promise<Answer> {
    const answer = await this.#write(attempt, outcome);
    // The first write sets the row to "running", unless the row has an end status. The row may have an end status because the message
    // failed while the instance was started. Such a row is reopened after the outcome. The row is also reopened if the status is unknown
    // because an answer was lost.
    const { mine, standing } = answer;
    if (attempt.begins && mine && (!standing || isAsleep(standing))) await this.#awaken(attempt.key.instanceId, startsChild(outcome));
    return answer;
  }

  async #write(attempt: Attempt, outcome: Outcome): Promise<Answer> {
    const { instanceId } = attempt.key;
    const running = attempt.begins ? [markRunning(instanceId, attempt.version)] : this.#running(attempt);
    const statements = [
      recordOutcome(attempt, outcome),
      ...outcome.statements,
      ...outcome.messages.flatMap(storeOutgoing),
      ...running,
      ...(startsChild(outcome) ? [markWaiting(instanceId)] : []),
      ...(DOUBTED.has(attempt.class) ? [markResolved(instanceId)] : []),
      ...(outcome.tags ? [addTags(instanceId, outcome.tags)] : []),
    ];
    const already = { look: selectEntry(attempt.key), read: (rows: Row[]) => recorded(attempt, onlyEntry(rows)) };
    let committed: { standing: Standing | undefined; appRows: number };
    try {
      const answer = await this.#commits.commit<Answer | typeof committed>({
        statements,
        read: (rows, written) => ({
          standing: standingSaid(instanceId, rows[0]),
          appRows: written.slice(1, 1 + outcome.statements.length).reduce((sum, one) => sum + one, 0),
        }),
        already,
        // In one batch, the records of two replays would not refuse each other.
        ...(attempt.readAt !== null && { apart: { what: instanceId, by: attempt.replay } }),
      });
      if ("mine" in answer) return answer;
      committed = answer;
    } catch (error) {
      if (!isFenceRefusal(error)) throw error;
      return this.#readBack(attempt);
    }
    const about = { step: labelOf(attempt.key.step, attempt.key.item), messages: outcome.messages };
    await crashPoint("O01 committed, not relayed", instanceId, about);
    // For messages to a lane the call waits for the relay, so that the lane gets these messages before the messages of the next step.
    if (outcome.messages.some(({ queue }) => laneIn(queue) !== undefined)) await relay(this.env, outcome.messages);
    else if (outcome.messages.length > 0) this.ctx.waitUntil(relay(this.env, outcome.messages));
    await crashPoint("W04 committed, caller saw an error", instanceId, about);
    return { mine: true, entry: null, ...committed };
  }

  /** Accepts the commands of one caller together with the commands of concurrent callers (see `Gatherer`). */
  accept(rows: string): Promise<string | null> {
    return this.#gatherer.accept(rows);
  }

  standing(instanceId: string): Promise<Standing | undefined> {
    return this.#commits.commit({ statements: [selectRun(instanceId)], read: ([rows]) => standingOf(instanceId, rows) });
  }

  /**
   * Stores the failures that a run's code caught, for later replays. Returns the instance's status, and undefined if nothing was stored
   * because another replay has written, or another run has begun.
   */
  keepCaught(kept: KeptCaught): Promise<Standing | undefined> {
    return this.#commits.commit({
      statements: [keepCaught(kept)],
      read: ([rows]) => standingOf(kept.id, rows),
      apart: { what: kept.id, by: kept.replay },
    });
  }

  /** Stores a report of a step's progress, under the name of the step. */
  report(instanceId: string, step: string, report: string): Promise<void> {
    return this.#commits.commit({ statements: [setProgress(instanceId, step, report)], read: () => undefined });
  }

  tag(instanceId: string, tags: readonly string[]): Promise<void> {
    return this.#commits.commit({ statements: [addTags(instanceId, tags)], read: () => undefined });
  }

  /**
   * Records the end of a run, reports the end of a child to its parent, and starts the instance that gets the slot of the ended one
   * (`inFlow`). The call returns before the commit, unless `certain` is true. If the write is lost, the keeper polls the platform and
   * repeats the write. Returns false if the end was certainly not recorded.
   */
  async finish(end: End, certain = false, tags: readonly string[] = [], parent?: string, inFlow = false): Promise<boolean> {
    const committed = this.#commits.commit({
      statements: [
        finishInstance(end),
        ...(parent === undefined ? [] : [selectUntoldEnd(end.id)]),
        ...(tags.length > 0 ? [addTags(end.id, tags)] : []),
        ...(inFlow ? [selectNextInSlot(end.id)] : []),
      ],
      read: (rows) => ({
        isRecorded: rows[0]?.some(({ id }) => id === end.id) === true,
        untold: parent === undefined ? undefined : (rows[1]?.find(({ id }) => id === end.id) as UntoldEnd | undefined),
        next: inFlow ? ((rows.at(-1) ?? []).filter(({ ended }) => ended === end.id) as unknown as NextInSlot[]) : [],
      }),
      // Of two ends in one batch, SQLite would apply any.
      apart: { what: end.id, by: `${end.replay} ${end.status}` },
    });
    this.ctx.waitUntil(
      committed
        .then(({ untold, next }) => Promise.all([untold && this.#notifyParent(untold), this.#startNext(end.id, next)]))
        .catch(() => undefined),
    );
    return !certain || (await committed).isRecorded;
  }

  /** Starts the instances that got the slot of an ended instance. If a start fails, the keeper repeats the start. */
  async #startNext(ended: string, next: readonly NextInSlot[]): Promise<void> {
    if (next.length === 0) return;
    await crashPoint("slot given, next not started", ended);
    await startInstances(
      this.env,
      next.map(({ envelope, ...row }) => ({ ...row, envelope: JSON.parse(envelope) as Envelope })),
      "first",
    );
  }

  /** Reports the end of a child to the child's parent. If the report fails, the keeper repeats the report. */
  async #notifyParent({ envelope, ...untold }: UntoldEnd): Promise<void> {
    await crashPoint("child ended, parent not notified", untold.id);
    if (!(await tell(this.env, untold, JSON.parse(envelope), undefined))) return;
    await crashPoint("parent notified, not recorded", untold.id);
    await this.#commits.commit({ statements: [noteTold(untold)], read: () => undefined });
  }

  /**
   * Adds the counts of an isolate. The counts are written with the next commit, or separately if no commit follows. Until this write the
   * counts are only in memory.
   */
  async tally(counted: Tally): Promise<void> {
    this.#counts.add(counted);
    if (!this.#writesCounts) this.ctx.waitUntil(this.#writeCountsInTime());
  }

  /**
   * Writes the gathered counts if their write is due, or if `atOnce` is true. The call never throws, because a failed write is repeated
   * later.
   */
  async writeCounts(atOnce = false): Promise<void> {
    const along = this.#counts.along(atOnce);
    if (along === undefined) return;
    const written = await this.#commits.commit({ statements: [along.statement], read: () => true }).catch(() => false);
    along.settled(written);
  }

  async #writeCountsInTime(): Promise<void> {
    this.#writesCounts = true;
    try {
      while (!this.#counts.isEmpty) {
        await scheduler.wait(WRITE_MS);
        await this.writeCounts();
      }
    } finally {
      this.#writesCounts = false;
    }
  }

  async #readBack(attempt: Attempt): Promise<Answer> {
    const entry = await this.#commits.commit({ statements: [selectEntry(attempt.key)], read: ([rows]) => onlyEntry(rows) });
    return recorded(attempt, entry) ?? { mine: false, entry };
  }

  #awaken(instanceId: string, waits: boolean): Promise<void> {
    const statements = [markAwake(instanceId), ...(waits ? [markWaiting(instanceId)] : [])];
    return this.#commits.commit({ statements, read: () => undefined });
  }

  #running(attempt: Attempt): RowStatement[] {
    const { instanceId } = attempt.key;
    return attempt.saysItRuns ? [markRunning(instanceId, attempt.version), markAwake(instanceId)] : [];
  }
}

function startsChild({ messages }: Outcome): boolean {
  return messages.some(({ child }) => child !== undefined);
}

/**
 * Minimum time in milliseconds for which a replay is remembered. A replay calls `isFirst` only while its instance is younger than
 * `FRESH_MS`.
 */
const REMEMBERED_MS = 60_000;

/**
 * The recent replays, in the memory of a recorder. All replays of an instance ask the same recorder. Instances that were created before the
 * recorder's object may have been replayed already.
 */
export class KnownReplays {
  #since = Date.now();
  readonly #replays = new Recent(REMEMBERED_MS);

  /** True if the replay is the first replay of its instance, including a repeated call by the same replay. */
  isFirst(instanceId: string, replay: string, createdMs: number): boolean {
    const at = Date.now();
    // If the clock was ahead when the object was created, the current time replaces the time of the creation.
    this.#since = Math.min(this.#since, at);
    const known = this.#replays.note(instanceId, replay);
    return (known ?? replay) === replay && createdMs > this.#since + CLOCKS_APART_MS;
  }
}
