import { DurableObject } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { EntryKey } from "../contract/ids.ts";
import { laneIn } from "../contract/queue.ts";
import type { RowStatement } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import { GatheredCounts, WRITE_MS } from "../observe/metrics/gathered.ts";
import type { Tally } from "../observe/metrics/tally.ts";
import { GroupCommit } from "../store/d1/group-commit.ts";
import type { Row } from "../store/d1/retry.ts";
import { rememberFailure } from "../store/inbox/caught.ts";
import { claimEntry, doubtClaim, extendLease, giveUpClaim } from "../store/inbox/claim.ts";
import { CLAIMED, DOUBTED } from "../store/inbox/classes.ts";
import { doubtHanging, putDoubtBack } from "../store/inbox/doubts.ts";
import type { Attempt, Entry, Seen } from "../store/inbox/entry.ts";
import { fenceCommit, isFenceRefusal, recordOutcome } from "../store/inbox/outcome.ts";
import { selectEntries, selectEntry, selectOutput } from "../store/inbox/read.ts";
import { type GivenOutput, refuseSkip } from "../store/inbox/refuse-skip.ts";
import {
  type End,
  finishInstance,
  isAsleep,
  keepCaught,
  markAwake,
  markRunning,
  type Standing,
  selectLeft,
  selectRun,
} from "../store/instances/run.ts";
import { markDoubted, markInDoubt, markResolved } from "../store/instances/wait.ts";
import { insertOutgoing } from "../store/outbox.ts";
import { type Answer, doneEntry, type Outcome, onlyEntry, recorded, standingOf, standingSaid } from "./answer.ts";
import { KnownPasses } from "./passes.ts";
import { relay } from "./relay.ts";

/**
 * The writer of step outcomes: takes what the steps of many instances want recorded, commits it in groups, and
 * sends the committed messages on their way from memory. It holds nothing that is not also in D1, so it may die at any
 * moment, and there may be any number of it: callers repeat themselves, the fence sorts repeats out, and the keeper sends what was not
 * sent.
 */
export class Recorder extends DurableObject<EngineEnv> {
  readonly #counts = new GatheredCounts(this.env);
  readonly #commits = new GroupCommit(this.env.DB, {}, () => this.#counts.along());
  readonly #passes = new KnownPasses();
  #writesCounts = false;

  /** A pass is about to do a step itself. True where no pass before it can have begun one: out of memory, without the database. */
  async begin(instanceId: string, pass: string, createdMs: number): Promise<boolean> {
    return this.#passes.isFirst(instanceId, pass, createdMs);
  }

  /**
   * Everything recorded for an instance, but for the outputs, because an instance may have more of them than one answer carries (32 MiB);
   * and what its runs have left to the present one (see `LeftBehind`), as JSON, null for nothing. `lost`: the steps of a run that the
   * database was set back behind.
   */
  history(instanceId: string): Promise<{ entries: Seen[]; left: string | null; lost: string | null }> {
    return this.#commits.commit({
      statements: [selectEntries(instanceId), selectLeft(instanceId)],
      read: ([entries, rows]) => {
        const { caught: left = null, lost = null } = (rows?.[0] ?? {}) as { caught?: string | null; lost?: string | null };
        return { entries: entries as unknown as Seen[], left, lost };
      },
    });
  }

  /** The output of one entry, as JSON; null when it has none, or one that is kept in R2. */
  output(key: EntryKey): Promise<string | null> {
    return this.#commits.commit({
      statements: [selectOutput(key)],
      read: ([rows]) => (rows?.[0]?.output as string | undefined) ?? null,
    });
  }

  /**
   * Claims a key before its effect runs, if it is free. For a class that claims nothing: puts another attempt's claim in doubt, once it ran
   * out.
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

  /** Keeps a claim while its effect runs. False when somebody else has taken over. */
  extend(attempt: Attempt, leaseMs: number): Promise<boolean> {
    return this.#commits.commit({
      statements: [extendLease(attempt, leaseMs)],
      read: ([rows]) => rows !== undefined && rows.length > 0,
    });
  }

  /** Ends a claim whose effect threw. */
  giveUp(attempt: Attempt, ending: "failed" | "in_doubt" | "expired", error: string): Promise<void> {
    const doubt = ending === "in_doubt" ? [markInDoubt(attempt.key.instanceId)] : [];
    return this.#commits.commit({ statements: [giveUpClaim(attempt, ending, error), ...doubt], read: () => undefined });
  }

  /** The output that a person gave instead of a step is none of it. */
  refuseSkip(given: GivenOutput): Promise<void> {
    return this.#commits.commit({ statements: refuseSkip(given), read: () => undefined });
  }

  /** The last attempt at a commit was given up. Answers what it has written all the same, before nothing of it can be written any more. */
  fence(attempt: Attempt): Promise<Entry | null> {
    return this.#commits.commit({
      statements: [fenceCommit(attempt), selectEntry(attempt.key)],
      read: ([, rows]) => onlyEntry(rows),
    });
  }

  /** The last attempt at an effect hangs, and its step was given up. */
  async doubtHanging(key: Omit<EntryKey, "generation">, error: string): Promise<void> {
    return this.#commits.commit({ statements: [doubtHanging(key, error), markInDoubt(key.instanceId)], read: () => undefined });
  }

  /** A run waits for the answer to a doubt: its row says so, however the doubt came about. */
  parked(instanceId: string): Promise<void> {
    return this.#commits.commit({ statements: [markInDoubt(instanceId)], read: () => undefined });
  }

  /** An effect is in doubt whose entry is gone: it is there again, and waits for a person. */
  async doubtAgain(attempt: Attempt, input: string | null, error: string): Promise<void> {
    const statements = [putDoubtBack(attempt, input, error), markInDoubt(attempt.key.instanceId)];
    return this.#commits.commit({ statements, read: () => undefined });
  }

  /**
   * Commits an outcome with its rows and messages, then relays the messages. When another attempt was first, answers with what that one
   * stored.
   */
  async record(attempt: Attempt, outcome: Outcome): Promise<Answer> {
    const answer = await this.#write(attempt, outcome);
    // Of a first pass the row says that nothing has begun, unless its message was given up while it was started: then it wakes up behind
    // the outcome; also where an answer that was lost has left unknown how it stood.
    const { mine, standing } = answer;
    if (attempt.begins && mine && (!standing || isAsleep(standing))) await this.#awaken(attempt.key.instanceId);
    return answer;
  }

  async #write(attempt: Attempt, outcome: Outcome): Promise<Answer> {
    const { instanceId } = attempt.key;
    const running = attempt.begins ? [markRunning(instanceId)] : this.#running(attempt);
    const statements = [
      recordOutcome(attempt, outcome),
      ...outcome.statements,
      ...outcome.messages.map(insertOutgoing),
      ...running,
      ...(DOUBTED.has(attempt.class) ? [markResolved(instanceId)] : []),
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
        // Two passes that each believe to be alone must see each other.
        ...(attempt.aloneAs !== null && { apart: { what: instanceId, by: attempt.aloneAs } }),
      });
      if ("mine" in answer) return answer;
      committed = answer;
    } catch (error) {
      if (!isFenceRefusal(error)) throw error;
      return this.#readBack(attempt);
    }
    const about = { step: labelOf(attempt.key.step, attempt.key.item), messages: outcome.messages };
    await crashPoint("O01 committed, not relayed", instanceId, about);
    // What the next step sends to a lane must come behind it.
    if (outcome.messages.some(({ queue }) => laneIn(queue) !== undefined)) await relay(this.env, outcome.messages);
    else if (outcome.messages.length > 0) this.ctx.waitUntil(relay(this.env, outcome.messages));
    await crashPoint("W04 committed, caller saw an error", instanceId, about);
    return { mine: true, entry: doneEntry(attempt, outcome), ...committed };
  }

  /** How an instance stands; undefined when it has no row. */
  standing(instanceId: string): Promise<Standing | undefined> {
    return this.#commits.commit({ statements: [selectRun(instanceId)], read: ([rows]) => standingOf(instanceId, rows) });
  }

  /** Keeps what a run leaves to later passes in its midst (see `LeftBehind`, as JSON). Answers how its instance stands. */
  keepCaught(instanceId: string, left: string): Promise<Standing | undefined> {
    return this.#commits.commit({
      statements: [keepCaught(instanceId, left), selectRun(instanceId)],
      read: ([, rows]) => standingOf(instanceId, rows),
    });
  }

  /** A step that was tried anew failed as it had before. */
  remember(instanceId: string, label: string): Promise<void> {
    return this.#commits.commit({ statements: [rememberFailure(instanceId, label)], read: () => undefined });
  }

  /**
   * Notes that a run ended. Answered before it is committed, unless it must be `certain`: if it is lost, the keeper asks the platform and
   * writes it again.
   */
  async finish(end: End, certain = false): Promise<void> {
    const committed = this.#commits.commit({ statements: [finishInstance(end)], read: () => undefined });
    if (certain) return committed;
    this.ctx.waitUntil(committed.catch(() => undefined));
  }

  /**
   * Takes what an isolate has counted. It goes along with a commit that happens anyway, or by itself where none comes: until then it is in
   * memory only.
   */
  async tally(counted: Tally): Promise<void> {
    this.#counts.add(counted);
    if (!this.#writesCounts) this.ctx.waitUntil(this.#writeCountsInTime());
  }

  /** Writes what was counted, if it is due or `atOnce`. Never throws: what could not be written is written later. */
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

  #awaken(instanceId: string): Promise<void> {
    return this.#commits.commit({ statements: [markAwake(instanceId)], read: () => undefined });
  }

  #running(attempt: Attempt): RowStatement[] {
    const { instanceId } = attempt.key;
    return attempt.saysItRuns ? [markRunning(instanceId), markAwake(instanceId)] : [];
  }
}
