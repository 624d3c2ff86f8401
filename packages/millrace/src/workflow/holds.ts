import type { Duration } from "../contract/duration.ts";
import { ownName } from "../contract/step-names.ts";
import type { Policy } from "../guard/step.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import { type Left, leftNow } from "../signals/approval.ts";
import { type Held, resumeEventType } from "../signals/held.ts";

/** What a step waits for. */
interface Awaited {
  readonly part: "signal" | "answer";
  readonly eventType: string;
  readonly left: Left;
}

/** The platform's steps, as far as a wait takes them. */
interface WaitSteps {
  do(step: Pick<StepCall, "label"> & Partial<StepCall>, policy: Policy, body: () => Promise<object>): Promise<object>;
  reading<T>(step: Pick<StepCall, "label" | "guarded">, read: () => Promise<T>): Promise<T>;
  waitFor(label: string, type: string, timeout: Duration): Promise<object>;
}

/** How often in a row a timer of the platform's may be early before its error is taken for another one. */
const EARLY_TIMERS = 5;

/** A wait that was over sooner, in a pass that follows another, is one that the platform remembers. */
const REMEMBERED_MS = 200;

/** The waits of one pass, for what comes from outside and for the end of a pause: of a paused run none begins, and none is over. */
export class Holds {
  readonly #pass: Pass;
  readonly #steps: WaitSteps;
  #resumed: Promise<unknown> | undefined;
  /** How often each step was held, by its label: every wait for the end of that has a number. */
  readonly #counts = new Map<string, number>();

  constructor(pass: Pass, steps: WaitSteps) {
    this.#pass = pass;
    this.#steps = steps;
  }

  /** A step begins to wait: in a paused run once that is resumed. */
  async begin<T extends object>(step: StepCall, begin: () => Promise<T | Held>): Promise<T> {
    let begun = await this.#steps.do(step, {}, begin);
    for (let round = 1; "held" in begun; round++) {
      await this.untilResumed(step, round);
      begun = await this.#steps.do({ ...step, label: ownName(step.label, "after_pause", round), of: step.label }, {}, begin);
    }
    return begun as T;
  }

  /**
   * Waits for an event; when the platform says that the time is over, the database decides: it may know of an answer that nobody could
   * tell, and time is counted by its clock. A timer of the platform's that was early waits for the rest. The code of a paused run hears of
   * the end once that is resumed.
   */
  async awaitOr<Told, End extends object>(
    step: StepCall,
    wait: Awaited,
    told: (payload: Told) => End,
    settle: () => Promise<End | Left>,
  ): Promise<End> {
    const since = Date.now();
    const end = await this.#endOf(step, wait, told, settle);
    const isRemembered = this.#pass.inbox.followsAnother && Date.now() - since < REMEMBERED_MS;
    await this.unlessPaused(step, isRemembered ? "heard" : "asked");
    return end;
  }

  async #endOf<Told, End extends object>(
    step: StepCall,
    { part, eventType, left: first }: Awaited,
    told: (payload: Told) => End,
    settle: () => Promise<End | Left>,
  ): Promise<End> {
    let left = first;
    for (let round = 1; ; round++) {
      try {
        return told((await this.#steps.waitFor(ownName(step.label, part, round), eventType, leftNow(left))) as Told);
      } catch (cause) {
        const settled = await this.#steps.do({ label: ownName(step.label, "time_over", round), of: step.label }, {}, settle);
        if (!("leftMs" in settled)) return settled as End;
        if (round === EARLY_TIMERS) throw cause;
        left = settled as Left;
      }
    }
  }

  /**
   * Holds a sleep or a wait of a paused run, before it begins and once it is over. A wait that took its time is followed by a look, which
   * the step behind it needs not make then; one that the platform remembers goes by what was heard last.
   */
  async unlessPaused(step: StepCall, how: "asked" | "heard"): Promise<void> {
    const { run } = this.#pass;
    while ((await (how === "asked" ? run.wanted() : run.heardLast())) !== "goes on") {
      await this.untilResumed(step, (this.#counts.get(step.label) ?? 0) + 1);
    }
  }

  /** Branches that a person holds wait together: of an event, one who waits may take it from the others. */
  async untilResumed(step: StepCall, round: number): Promise<void> {
    const { label, guarded = false } = step;
    this.#counts.set(label, round);
    await this.#pass.keepCaught(step).catch(() => undefined);
    const wanted = await this.#steps.reading({ label, guarded }, () => this.#pass.run.askWanted());
    if (wanted === "stopped") return this.#pass.stop();
    if (wanted !== "paused") return;
    this.#resumed ??= this.#steps
      .waitFor(ownName(label, "paused", round), resumeEventType(this.#pass.instanceId), "365 days")
      // Whatever ends the wait, the row says whether the run goes on.
      .catch(() => undefined)
      .finally(() => {
        this.#resumed = undefined;
      });
    await this.#resumed;
  }
}
