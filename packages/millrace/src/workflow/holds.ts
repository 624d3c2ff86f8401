import type { Duration } from "../contract/duration.ts";
import { ownName } from "../contract/step-names.ts";
import type { Policy } from "../guard/step.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { type Held, type Left, leftNow, resumeEventType } from "../signals/approval.ts";

interface Awaited {
  readonly part: "signal" | "answer";
  readonly eventType: string;
  readonly left: Left;
}

interface WaitSteps {
  do(step: Pick<StepCall, "label"> & Partial<StepCall>, policy: Policy, body: () => Promise<object>): Promise<object>;
  reading<T>(step: Pick<StepCall, "label" | "guarded">, read: () => Promise<T>): Promise<T>;
  waitFor(label: string, type: string, timeout: Duration): Promise<object>;
}

/** If the platform's timer fires early this many times in a row, the platform's error counts as a failure. */
const EARLY_TIMERS = 5;

/** If a wait ends sooner than this in a later replay, the platform completed the wait during an earlier replay. */
const REMEMBERED_MS = 200;

/** The waits of one replay: for events, for answers and for the end of a pause. While a run is paused, none of its waits begins or ends. */
export class Holds {
  readonly #replay: Replay;
  readonly #steps: WaitSteps;
  #resumed: Promise<unknown> | undefined;
  /** Each wait for the end of a pause needs its own name. */
  readonly #counts = new Map<string, number>();

  constructor(replay: Replay, steps: WaitSteps) {
    this.#replay = replay;
    this.#steps = steps;
  }

  async begin<T extends object>(step: StepCall, begin: () => Promise<T | Held>): Promise<T> {
    let begun = await this.#steps.do(step, {}, begin);
    for (let round = 1; "held" in begun; round++) {
      await this.untilResumed(step, round);
      begun = await this.#steps.do({ ...step, label: ownName(step.label, "after_pause", round), of: step.label }, {}, begin);
    }
    return begun as T;
  }

  /**
   * Waits for an event, or for an answer to a question. When the platform's timeout ends the wait, the database decides by the database's
   * clock, because an answer may be stored that could not be sent. If the platform's timer fires early, the function waits for the rest of
   * the time. The code of a paused run continues after the resume.
   */
  async awaitOr<Told, End extends object>(
    step: StepCall,
    wait: Awaited,
    told: (payload: Told) => End,
    settle: () => Promise<End | Left>,
    /** False for an event that may be out of date, so that the database decides. Default: each event ends the wait. */
    isSure: (end: End) => boolean = () => true,
  ): Promise<End> {
    const since = Date.now();
    const end = await this.#endOf(step, wait, told, settle, isSure);
    const isRemembered = this.#replay.inbox.followsAnother && Date.now() - since < REMEMBERED_MS;
    await this.unlessPaused(step, isRemembered ? "heard" : "asked");
    return end;
  }

  async #endOf<Told, End extends object>(
    step: StepCall,
    { part, eventType: type, left: first }: Awaited,
    told: (payload: Told) => End,
    settle: () => Promise<End | Left>,
    isSure: (end: End) => boolean,
  ): Promise<End> {
    let left: Left & { eventType?: string } = first;
    for (let round = 1; ; round++) {
      let early: { cause: unknown } | undefined;
      try {
        const name = ownName(step.label, part, round);
        const end = told((await this.#steps.waitFor(name, left.eventType ?? type, leftNow(left))) as Told);
        if (isSure(end)) return end;
        await this.unlessPaused(step, "asked");
      } catch (cause) {
        early = { cause };
      }
      const settled = await this.#steps.do({ label: ownName(step.label, "time_over", round), of: step.label }, {}, settle);
      if (!("leftMs" in settled)) return settled as End;
      if (early && round === EARLY_TIMERS) throw early.cause;
      left = settled as Left;
    }
  }

  /**
   * Delays the start and the end of a sleep or wait while the run is paused. The mode "asked" polls the status of the run, so that the next
   * step does not need to poll the status. The mode "heard" is for a wait that an earlier replay completed, and uses the last status that
   * was received.
   */
  async unlessPaused(step: StepCall, how: "asked" | "heard"): Promise<void> {
    const { run } = this.#replay;
    while ((await (how === "asked" ? run.decision() : run.lastDecision())) !== "continue") {
      await this.untilResumed(step, (this.#counts.get(step.label) ?? 0) + 1);
    }
  }

  /**
   * All branches of a paused run share one wait for the resume event. If each branch had its own wait, the first branch would consume the
   * event for which the other branches wait.
   */
  async untilResumed(step: StepCall, round: number): Promise<void> {
    const { label, guarded = false } = step;
    this.#counts.set(label, round);
    await this.#replay.keepCaught(step).catch(() => undefined);
    const decision = await this.#steps.reading({ label, guarded }, () => this.#replay.run.readDecision());
    if (decision === "stopped") return this.#replay.stop();
    if (decision !== "paused") return;
    this.#resumed ??= this.#steps
      .waitFor(ownName(label, "paused", round), resumeEventType(this.#replay.instanceId), "365 days")
      // After any end of the wait, only the run's status in the database decides whether the run continues.
      .catch(() => undefined)
      .finally(() => {
        this.#resumed = undefined;
      });
    await this.#resumed;
  }
}
