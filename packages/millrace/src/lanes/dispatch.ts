import { MillraceError, messageOf } from "../contract/errors.ts";
import { MAX_ERROR_CHARACTERS } from "../contract/hand-off.ts";
import { logLine } from "../contract/log-line.ts";
import { beginning } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import type { Gate, Kept } from "./backlog.ts";
import type { LaneLetter, Plan } from "./definition.ts";
import { advanced, attemptsOf, dueAtOf, follow, type Handed, type Outcome, type Progress, type Settled, Settlement } from "./progress.ts";
import type { LaneStorage } from "./storage.ts";

/** Delay before a lane without deployed code is checked again, in milliseconds. */
const UNKNOWN_MS = 60_000;

interface Around {
  lane: LaneStorage;
  object: DurableObjectState;
  env: unknown;
  /** Returns the plan of the lane with this name; undefined if the lane's code is not deployed in this Worker. */
  planOf: (name: string) => Plan | undefined;
  gate: () => Gate | undefined;
  /** The handler call that was running when this object's lane was erased. No message is handed out until that call has ended. */
  before?: Promise<void> | undefined;
}

/**
 * Hands a lane's messages to its handler, one batch at a time. Settled messages are removed by one write before the next batch. The list of
 * messages that the handler has is the only state that is not on disk.
 */
export class Dispatch {
  readonly #lane: LaneStorage;
  readonly #around: Around;
  readonly #waker: Waker;
  /** True from the start of the object until the object hands out a head. */
  #woken: boolean;
  /** The messages that the handler is processing. */
  #handed: readonly Kept[] = [];
  #running = false;
  #draining: Promise<void> | undefined;
  #stopped = false;

  constructor(around: Around) {
    this.#around = around;
    this.#lane = around.lane;
    this.#woken = around.lane.depth > 0;
    this.#waker = new Waker(around.object.storage, () => this.go());
  }

  get handed(): number {
    return this.#handed.length;
  }

  /** The number that follows the number of the last message that the handler is processing. */
  get closedTo(): number {
    return (this.#handed.at(-1)?.sequence ?? -1) + 1;
  }

  get plan(): Plan | undefined {
    return this.#around.planOf(this.#lane.name?.lane ?? "");
  }

  /** Records that the object's alarm ran. Returns true if the last idempotency keys were deleted now. */
  rang(): boolean {
    this.#waker.rang();
    const hadKeys = this.#lane.knowsKeys;
    if (this.plan) this.#lane.forget(this.plan.rememberMs, Date.now());
    this.go();
    return hadKeys && !this.#lane.knowsKeys;
  }

  /**
   * Stops the dispatch of an erased lane. Later settlements by the lane's handler are ignored. The promise resolves when the handler has
   * ended.
   */
  stop(): Promise<void> | undefined {
    this.#stopped = true;
    this.#waker.stop();
    return this.#draining;
  }

  /** Starts all due work of the lane, and schedules later work. */
  go(): void {
    const plan = this.plan;
    if (plan && !this.#running) {
      this.#running = true;
      queueMicrotask(() => {
        this.#draining = this.#drain(plan);
      });
    }
    this.#setWaker();
  }

  /** Hands out batches of due messages until no message is due. */
  async #drain(plan: Plan): Promise<void> {
    let failed = false;
    try {
      await this.#around.before;
      this.#handOffLetters(plan);
      for (let batch = await this.#ready(plan); batch.length > 0; batch = await this.#ready(plan)) await this.#deliver(plan, batch);
    } catch (error) {
      failed = true;
      logFailure(plan, error);
    } finally {
      this.#handed = [];
      this.#running = false;
      this.#setWaker(failed);
    }
  }

  #handOffLetters(plan: Plan): void {
    const handOff = this.#lane.letters?.dueAt !== undefined && this.#lane.letters.handOff(plan, this.#around.env);
    if (handOff) void handOff.catch((error) => logFailure(plan, error)).finally(() => this.#setWaker());
  }

  get #gate(): Gate | undefined {
    return this.#around.gate();
  }

  #ready(plan: Plan): Kept[] | Promise<Kept[]> {
    return this.#gate?.prepare()?.then(() => this.#due(plan)) ?? this.#due(plan);
  }

  #due(plan: Plan): Kept[] {
    const { progress } = this.#lane;
    if (this.#stopped || progress.paused || progress.held) return [];
    const now = Date.now();
    const most = progress.aloneTo >= progress.head || this.#woken ? 1 : plan.batchSize;
    const messages = this.#lane.messages(progress.head, Math.min(most, this.#gate?.room() ?? most));
    const waits = messages.findIndex((one) => dueAtOf(progress, one) > now);
    return waits === -1 ? messages : messages.slice(0, waits);
  }

  async #deliver(plan: Plan, batch: readonly Kept[]): Promise<void> {
    const { progress } = this.#lane;
    const sequences = batch.map(({ sequence }) => sequence);
    if (this.#woken) {
      // A delivery of this head was in progress when the object last ended. This delivery counts as failed, so that a message cannot end
      // the object repeatedly without limit.
      if (progress.trying === progress.head) return this.#settle(plan, batch, { ...ENDED, sequences });
      this.#woken = false;
      this.#lane.advance({ ...progress, trying: progress.head }, Date.now());
    }
    this.#handed = batch;
    const handed = batch.map((one) => {
      // The handler gets a copy: the handler's changes to the body must not reach the stored message.
      return { ...one, body: structuredClone(one.body), attempts: attemptsOf(progress, one.sequence) + 1 };
    });
    const metrics = () => ({ backlogCount: this.#lane.depth, backlogBytes: this.#lane.size() });
    const { settled, thrown } = await handOut(plan, handed, { env: this.#around.env, object: this.#around.object, metrics });
    this.#handed = [];
    if (this.#stopped) return;
    this.#settle(plan, batch, {
      sequences,
      settled,
      error: thrown === undefined ? null : beginning(messageOf(thrown), MAX_ERROR_CHARACTERS),
    });
  }

  #settle(plan: Plan, batch: readonly Kept[], outcome: Outcome): void {
    const now = Date.now();
    // The lane's progress is read again, because an operator may have paused the lane during the handler's call.
    const { progress, done, parks } = follow(this.#lane.progress, outcome, plan, now);
    if (parks) this.park(progress, "exhausted");
    else this.#lane.advance(progress, now, () => this.#gate?.done(batch.slice(0, done)));
    if (parks || progress.held) {
      const what = parks ? "the lane's head became a dead letter" : "the lane is held until an operator decides";
      logGivenUp(plan, { message_id: batch[done]?.id, object: this.#around.object.id.toString(), failures: progress.failures, what });
    }
    this.#setWaker();
  }

  /** Moves the head of the lane to the dead letters and removes all messages before the head, in one transaction. */
  park(progress: Progress, reason: LaneLetter["reason"]): void {
    const { name } = this.#lane;
    const [head] = this.#lane.messages(progress.head, 1);
    if (!head || !name) return;
    const now = Date.now();
    const letter: LaneLetter = {
      ...name,
      id: head.id,
      body: head.body,
      idempotencyKey: head.key,
      reason,
      attempts: attemptsOf(progress, head.sequence),
      error: progress.error,
      sentAt: head.sentAt,
      parkedAt: now,
    };
    this.#lane.advance(advanced(progress, head.sequence + 1), now, (letters) => letters.add(head.sequence, letter));
    const plan = this.plan;
    if (plan) this.#handOffLetters(plan);
  }

  /**
   * Schedules the next wake-up, from one reading of the clock. If the head is due and no handler has the head, the head is handed out now.
   * After a failed hand-out, the alarm hands out the head later.
   */
  #setWaker(failed = false): void {
    if (this.#stopped) return;
    const now = Date.now();
    const plan = this.plan;
    const { progress } = this.#lane;
    const times: number[] = [];
    const [head] = progress.paused || progress.held ? [] : this.#lane.messages(progress.head, 1);
    if (head && this.#gate?.room() !== 0) {
      const headAt = plan ? dueAtOf(progress, head) : now + UNKNOWN_MS;
      if (headAt <= now && !this.#running && !failed) {
        this.go();
        return;
      }
      times.push(headAt);
    }
    const own = this.#gate?.nextAt();
    if (own !== undefined) times.push(Math.max(now + 1, own));
    const letterDueAt = plan?.onDeadLetter && this.#lane.letters?.dueAt;
    if (letterDueAt !== undefined) times.push(letterDueAt);
    const forgetsAt = plan && this.#lane.forgetsAt(plan.rememberMs);
    if (forgetsAt !== undefined) times.push(forgetsAt);
    this.#waker.set(times, now);
  }
}

/** The outcome of a delivery during which the lane's object ended. */
const ENDED: Omit<Outcome, "sequences"> = {
  settled: { each: ["retry"], delayMs: [undefined] },
  error: "The lane's object ended while the handler had this message.",
};

/**
 * Logs a message that used up its retries. The log line contains no payload and no key. The log line also contains no error text, because
 * an error text may quote a payload or a key. An operator can find the lane by the object's id with `laneObjectOf`.
 */
function logGivenUp({ name, onFailure }: Plan, said: Record<string, unknown>): void {
  logLine("warn", { log: "lane_gave_up", lane: name, on_failure: onFailure, ...said });
}

function logFailure({ name }: Plan, error: unknown): void {
  logLine("error", { log: "lane_failed", lane: name, error: messageOf(error) });
}

interface CameBack {
  settled: Settled;
  /** The error or the time-out of the handler; undefined when the handler succeeded. */
  thrown: unknown;
}

/**
 * Calls the lane's handler with a batch, and returns for each message how the message was settled. The call ends no later than at the
 * deadline.
 */
async function handOut(
  plan: Plan,
  messages: readonly Handed[],
  { env, object, metrics }: { env: unknown; object: DurableObjectState; metrics: () => MessageBatchMetrics },
): Promise<CameBack> {
  const settlement = new Settlement(messages);
  const background: Promise<unknown>[] = [];
  const ctx = {
    waitUntil: (work: Promise<unknown>) => void background.push(work),
    passThroughOnException: () => undefined,
    props: {},
    exports: object.exports,
    abort: (reason?: string) => object.abort(reason),
  } as unknown as ExecutionContext;
  const whole = async () => {
    // Work passed to `waitUntil` is part of the handler's call, also when the call fails, because the next call must not overlap that work.
    const calls: Promise<unknown>[] = [(async () => plan.queue(settlement.batch(plan.name, metrics), env, ctx))()];
    const failures: unknown[] = [];
    for (let next = calls; next.length > 0; next = background.splice(0)) {
      for (const result of await Promise.allSettled(next)) if (result.status === "rejected") failures.push(result.reason);
    }
    if (failures.length > 0) throw failures[0];
  };
  try {
    await within(whole(), plan.deadlineMs, () => tooLate(plan));
    return { settled: settlement.close(true), thrown: undefined };
  } catch (thrown) {
    return { settled: settlement.close(false), thrown: thrown ?? new Error("The handler threw an error without a readable message.") };
  }
}

function tooLate({ deadlineMs }: Plan): MillraceError {
  return new MillraceError(
    "step_timeout",
    `The handler did not end within ${deadlineMs / 1000} seconds. Raise the lane's deadline, or do less work in the handler.`,
  );
}

/**
 * Maximum time in milliseconds from the due time of work to the object's alarm. The alarm is needed because a timer in memory can be lost
 * at any time.
 */
const FALLBACK_MS = 10_000;

/**
 * Wakes an object when work is due. The object always has an alarm for the work. If the work is due within 10 s, the object also has a
 * timer in memory. Setting an alarm costs a written row, so that an alarm that is early enough is not changed.
 */
class Waker {
  readonly #storage: DurableObjectStorage;
  readonly #wake: () => void;
  #alarmAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(storage: DurableObjectStorage, wake: () => void) {
    this.#storage = storage;
    this.#wake = wake;
  }

  /**
   * Schedules the wake-up for the given due times. Work that is already due needs no timer, because this work is already in progress. The
   * timer is set for the next due time, and the alarm for the earliest of all due times.
   */
  set(times: readonly number[], now: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    const next = Math.min(...times.filter((time) => time > now));
    this.#timer = next - now <= FALLBACK_MS ? setTimeout(this.#wake, next - now) : undefined;
    if (times.length === 0) return;
    const first = Math.min(...times);
    const at = first - now <= FALLBACK_MS ? now + FALLBACK_MS : first;
    if (this.#alarmAt !== undefined && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    // If the write of the alarm fails, the object is reset, and the response that waits for the write fails.
    void this.#storage.setAlarm(at);
  }

  /** Cancels the timer. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Records that the alarm ran, so that no alarm is set now. */
  rang(): void {
    this.#alarmAt = undefined;
  }
}
