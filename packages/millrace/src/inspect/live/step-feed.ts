import type { EngineEnv } from "../../contract/bindings.ts";
import { platformId } from "../../contract/ids.ts";
import { type AwaitedStep, awaitedSteps } from "../../signals/wait.ts";
import { foldEvent, type StepEvent, type StepRecord, subscribe } from "../history.ts";
import type { Instance } from "../instances.ts";
import { type LeanEvent, type LeanPlace, leanStepsBehind } from "./lean-steps.ts";
import { type StepEnd, stepEnds } from "./step-ends.ts";

/**
 * A place in the history of an instance's steps: among the platform's events, which it counts anew behind a restart, though its clock goes
 * on; and among those of lean steps.
 */
export interface StepPlace {
  readonly at: number;
  readonly eventId: number;
  readonly lean: LeanPlace;
}

/** Where nothing is told yet. */
export const STEPS_BEGIN: StepPlace = { at: 0, eventId: 0, lean: { at: 0, nth: 0 } };

/** The first event of a history may take so long, and the others so long behind each other. */
const FIRST_EVENT_MS = 1000;
const QUIET_MS = 50;
/** Of more than these the rest is heard by the next look. */
const MOST_EVENTS = 500;

/** Something that happened to a step; of a wait with what is waited for, in the words of the code; and the place behind it. */
export interface HeardStep {
  readonly event: StepEvent;
  readonly awaited: AwaitedStep | undefined;
  /** Of an attempt that has ended what its step came to, where that is not done. */
  readonly end: StepEnd | undefined;
  readonly place: StepPlace;
}

type Subscription = Awaited<ReturnType<typeof subscribe>>;

/**
 * The history of one instance from a place on: as the platform tells it, held open, and opened anew whenever the instance's row has
 * changed, because a restart begins another history; and of lean steps as the inbox has them. What is before the place is read too, for
 * the state that each step is in.
 */
export class StepFeed {
  /** Each step as the events that were read left it, by the platform's name of it. */
  readonly steps = new Map<string, StepRecord>();
  /** Whether the last look heard as many as one may, so that there may be more of what has happened by then. */
  hasMore = false;
  readonly #env: EngineEnv;
  #place: StepPlace;
  /** How far the platform's events are read. */
  #read: Pick<StepPlace, "at" | "eventId">;
  #openedFor = "";
  #open: { subscription: Subscription; next: Promise<IteratorResult<StepEvent, void> | undefined> }[] = [];

  constructor(env: EngineEnv, place: StepPlace) {
    this.#env = env;
    this.#place = place;
    this.#read = place;
  }

  /** What was heard of the steps since. `untilEnd` waits for the history's end: the run is over, and the platform tells so a moment later. */
  async heard(instance: Instance, untilEnd: boolean): Promise<HeardStep[]> {
    const isFresh = await this.#openFor(instance);
    const events: StepEvent[] = [];
    const ended = new Set<StepEvent>();
    for (const [place, one] of this.#open.entries()) {
      let quietMs = isFresh || untilEnd ? FIRST_EVENT_MS : QUIET_MS;
      while (events.length < MOST_EVENTS) {
        const answer = await Promise.race([one.next, scheduler.wait(quietMs).then(() => "quiet" as const)]);
        // It breaks when the instance is restarted: the next look opens another.
        if (answer === undefined) this.#openedFor = "";
        if (answer === undefined || answer === "quiet" || answer.done) break;
        one.next = nextOf(one.subscription);
        foldEvent(this.steps, answer.value);
        if (this.#isNew(answer.value)) {
          events.push(answer.value);
          // Those of an undo come behind: nobody holds them.
          if (place === 0 && answer.value.type === "attempt_completed") ended.add(answer.value);
        }
        if (!untilEnd) quietMs = QUIET_MS;
      }
    }
    const lean = await leanStepsBehind(this.#env, instance.id, this.#place.lean, untilEnd);
    this.hasMore = events.length === MOST_EVENTS || lean.hasMore;
    const awaited = events.some(({ type }) => type.startsWith("wait_")) ? await awaitedSteps(this.#env.DB, instance.id) : undefined;
    const ends = await this.#endsOf(instance.id, ended);
    return inTime(events, lean.told).map((one) => {
      const { event } = one;
      this.#place = "place" in one ? { ...this.#place, lean: one.place } : { ...this.#place, at: event.timestamp, eventId: event.eventId };
      const end = ended.has(event) ? ends.get(event.stepName) : undefined;
      return { event, awaited: awaited?.get(this.steps.get(event.stepName)?.eventType ?? ""), end, place: this.#place };
    });
  }

  #endsOf(instanceId: string, ended: ReadonlySet<StepEvent>): Promise<ReadonlyMap<string, StepEnd>> {
    const names = new Set([...ended].map(({ stepName }) => stepName));
    return stepEnds(this.#env, instanceId, new Map([...this.steps].filter(([name]) => names.has(name))), this.steps.values());
  }

  #isNew({ timestamp: at, eventId }: StepEvent): boolean {
    const isNew = at > this.#read.at || (at === this.#read.at && eventId > this.#read.eventId);
    if (isNew) this.#read = { at, eventId };
    return isNew;
  }

  /** Comes when there is more to hear, or the history has ended. */
  async sooner(): Promise<void> {
    const ended = new Promise<never>(() => {});
    await Promise.race([ended, ...this.#open.map(({ next }) => next.then((answer) => (answer && !answer.done ? undefined : ended)))]);
  }

  /** Whether an attempt has failed, whose error is told of. */
  get hasFailed(): boolean {
    return [...this.steps.values()].some(({ attempts }) => attempts.some(({ error }) => error !== null));
  }

  close(): void {
    for (const { subscription } of this.#open) subscription[Symbol.dispose]();
    this.#open = [];
  }

  /** True where it has been opened just now. */
  async #openFor({ id, workflow, undo, run, updatedAt }: Instance): Promise<boolean> {
    const key = `${undo} ${run} ${updatedAt}`;
    if (key === this.#openedFor && this.#open.length > 0) return false;
    this.close();
    this.steps.clear();
    this.#openedFor = key;
    for (const name of undo === null ? [id] : [id, platformId(id, undo)]) {
      const subscription = await subscribe(this.#env, workflow, name).catch(() => undefined);
      if (subscription) this.#open.push({ subscription, next: nextOf(subscription) });
    }
    return true;
  }
}

/** Both histories as one: each in its own order, by the time of what happened. */
function inTime(events: readonly StepEvent[], lean: readonly LeanEvent[]): ({ event: StepEvent } | LeanEvent)[] {
  const told: ({ event: StepEvent } | LeanEvent)[] = [];
  let next = 0;
  for (const event of events) {
    for (let one = lean[next]; one && one.event.timestamp <= event.timestamp; one = lean[++next]) told.push(one);
    told.push({ event });
  }
  return [...told, ...lean.slice(next)];
}

function nextOf(subscription: Subscription): Promise<IteratorResult<StepEvent, void> | undefined> {
  return subscription.next().catch(() => undefined) as Promise<IteratorResult<StepEvent, void> | undefined>;
}
