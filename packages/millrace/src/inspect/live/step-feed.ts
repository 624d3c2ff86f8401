import type { EngineEnv } from "../../contract/bindings.ts";
import { now, type Statement, sql } from "../../contract/sql.ts";
import { codeLabelOf, labelOf, ownName, ownStep } from "../../contract/step-names.ts";
import { type AwaitedStep, awaitedSteps } from "../../signals/wait.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import type { EntryState } from "../../store/inbox/entry.ts";
import { IS_FREE } from "../../store/inbox/outcome.ts";
import { FIRST_EVENT_MS, foldEvent, platformNames, QUIET_MS, type StepEvent, type StepRecord, subscribe } from "../history.ts";
import type { Instance } from "../instance-row.ts";

/** The time of a record by the database's clock, and the number of returned events of that time. */
interface InlinePlace {
  readonly at: number;
  readonly nth: number;
}

/** A position in an instance's history. It contains times, because event ids start again after a restart. */
export interface StepPlace {
  readonly at: number;
  readonly eventId: number;
  readonly inline: InlinePlace;
}

export const STEPS_BEGIN: StepPlace = { at: 0, eventId: 0, inline: { at: 0, nth: 0 } };

/** The next query returns the following events and inline steps. */
const MOST_EVENTS = 500;
const MOST_STEPS = 250;
/** Number of events per inline step: the start of the attempt, and the completion of the attempt. */
const EVENTS = 2;

interface InlineEvent {
  readonly event: StepEvent;
  readonly place: InlinePlace;
}

export interface HeardStep {
  readonly event: StepEvent;
  readonly awaited: AwaitedStep | undefined;
  /** The state of the step after a completed attempt, if the step is not done. */
  readonly end: StepEnd | undefined;
  /** Maximum number of attempts: the first attempt and all retries. Null if unknown. */
  readonly maxAttempts: number | null;
  readonly place: StepPlace;
}

type Subscription = Awaited<ReturnType<typeof subscribe>>;

/**
 * The events of one instance's steps after a position. Events of inline steps come from the inbox. The feed reopens the platform's stream
 * after each change of the instance's row, because a restart begins a new history. It also reads the events before the position, for the
 * state of each step.
 */
export class StepFeed {
  readonly steps = new Map<string, StepRecord>();
  /** True if the last call reached the limit. */
  hasMore = false;
  readonly #env: EngineEnv;
  #place: StepPlace;
  #read: Pick<StepPlace, "at" | "eventId">;
  #openedFor = "";
  #open: { subscription: Subscription; next: Promise<IteratorResult<StepEvent, void> | undefined> }[] = [];

  constructor(env: EngineEnv, place: StepPlace) {
    this.#env = env;
    this.#place = place;
    this.#read = place;
  }

  /** With `untilEnd`, waits for the end of the history, which the platform reports moments after the end of the run. */
  async heard(instance: Instance, untilEnd: boolean): Promise<HeardStep[]> {
    const isFresh = await this.#openFor(instance);
    const events: StepEvent[] = [];
    const ended = new Set<StepEvent>();
    for (const [place, one] of this.#open.entries()) {
      let quietMs = isFresh || untilEnd ? FIRST_EVENT_MS : QUIET_MS;
      while (events.length < MOST_EVENTS) {
        const answer = await Promise.race([one.next, scheduler.wait(quietMs).then(() => "quiet" as const)]);
        // The stream breaks when the instance is restarted. The next call opens a new stream.
        if (answer === undefined) this.#openedFor = "";
        if (answer === undefined || answer === "quiet" || answer.done) break;
        one.next = nextOf(one.subscription);
        foldEvent(this.steps, answer.value);
        if (this.#isNew(answer.value)) {
          events.push(answer.value);
          // Steps of an undo are never held.
          if (place === 0 && answer.value.type === "attempt_completed") ended.add(answer.value);
        }
        if (!untilEnd) quietMs = QUIET_MS;
      }
    }
    const inline = await inlineStepsBehind(this.#env, instance.id, this.#place.inline, untilEnd);
    this.hasMore = events.length === MOST_EVENTS || inline.hasMore;
    const awaited = events.some(({ type }) => type.startsWith("wait_")) ? await awaitedSteps(this.#env.DB, instance.id) : undefined;
    const ends = await stepEnds(this.#env, instance.id, new Set([...ended].map(({ stepName }) => stepName)), this.steps);
    return inTime(events, inline.told).map((one) => {
      const { event } = one;
      this.#place =
        "place" in one ? { ...this.#place, inline: one.place } : { ...this.#place, at: event.timestamp, eventId: event.eventId };
      const end = ended.has(event) ? ends.get(event.stepName) : undefined;
      const { event_type: eventType = null, max_attempts: maxAttempts = null } = this.steps.get(event.stepName) ?? {};
      return { event, awaited: awaited?.get(eventType ?? ""), end, maxAttempts, place: this.#place };
    });
  }

  #isNew({ timestamp: at, eventId }: StepEvent): boolean {
    const isNew = at > this.#read.at || (at === this.#read.at && eventId > this.#read.eventId);
    if (isNew) this.#read = { at, eventId };
    return isNew;
  }

  /** Resolves when more events are available. After the end of the history the promise never resolves. */
  async sooner(): Promise<void> {
    const ended = new Promise<never>(() => {});
    await Promise.race([ended, ...this.#open.map(({ next }) => next.then((answer) => (answer && !answer.done ? undefined : ended)))]);
  }

  get hasFailed(): boolean {
    return [...this.steps.values()].some(({ attempts }) => attempts.some(({ error }) => error !== null));
  }

  close(): void {
    for (const { subscription } of this.#open) subscription[Symbol.dispose]();
    this.#open = [];
  }

  async #openFor({ id, workflow, undo_action: undo, run, updated_at }: Instance): Promise<boolean> {
    const key = `${undo} ${run} ${updated_at}`;
    if (key === this.#openedFor && this.#open.length > 0) return false;
    this.close();
    this.steps.clear();
    this.#openedFor = key;
    for (const name of platformNames(id, undo)) {
      const subscription = await subscribe(this.#env, workflow, name).catch(() => undefined);
      if (subscription) this.#open.push({ subscription, next: nextOf(subscription) });
    }
    return true;
  }
}

function inTime(events: readonly StepEvent[], inline: readonly InlineEvent[]): ({ event: StepEvent } | InlineEvent)[] {
  const rest = [...inline];
  const told = events.flatMap((event) => {
    const later = rest.findIndex((one) => one.event.timestamp > event.timestamp);
    return [...rest.splice(0, later < 0 ? rest.length : later), { event }];
  });
  return [...told, ...rest];
}

function nextOf(subscription: Subscription): Promise<IteratorResult<StepEvent, void> | undefined> {
  return subscription.next().catch(() => undefined) as Promise<IteratorResult<StepEvent, void> | undefined>;
}

/**
 * The events of inline steps after a position, in the order of the steps' records. While the instance runs, the events of the current
 * millisecond are left to the next query, because more of them may follow.
 */
async function inlineStepsBehind(env: Pick<EngineEnv, "DB">, instanceId: string, { at, nth }: InlinePlace, hasEnded: boolean) {
  const limit = MOST_STEPS + Math.ceil(nth / EVENTS);
  const rows = await query<{ step: string; item: string; began_at: number; ended_at: number }>(
    env.DB,
    sql`
      SELECT step, item, began_at, ended_at FROM millrace_inbox
      WHERE instance_id = ${instanceId} AND ended_at >= ${at} AND ended_at < ${now} + ${hasEnded ? 1 : 0}
      ORDER BY ended_at, position, step, item, generation LIMIT ${limit}`,
  );
  const moments = Map.groupBy(rows, ({ ended_at }) => ended_at);
  const events = [...moments].flatMap(([moment, steps]) =>
    steps.flatMap(({ step, item, began_at, ended_at }, index): InlineEvent[] => {
      const stepName = `${labelOf(step, item)}-1`;
      const place = (of: number) => ({ at: moment, nth: index * EVENTS + of });
      return [
        { event: { type: "attempt_started", stepName, attempt: 1, timestamp: began_at } as StepEvent, place: place(1) },
        { event: { type: "attempt_completed", stepName, attempt: 1, timestamp: ended_at } as StepEvent, place: place(2) },
      ];
    }),
  );
  return { told: events.filter(({ place }) => place.at > at || place.nth > nth), hasMore: rows.length === limit };
}

/** The state of a step whose attempt has ended on the platform although the step is not done. */
type StepEnd = HeldState | "in_doubt" | "waiting";

/** The ends of steps by the platform's name: from the engine's wait that follows the step or, before this wait, from its records. */
async function stepEnds(
  env: Pick<EngineEnv, "DB">,
  instanceId: string,
  names: ReadonlySet<string>,
  steps: ReadonlyMap<string, StepRecord>,
): Promise<ReadonlyMap<string, StepEnd | undefined>> {
  const ended = [...steps].filter(([stepName]) => names.has(stepName));
  const waits = endsByWaits(steps.values());
  const open = ended.flatMap(([, step]) => (waits.has(step.name) ? [] : [codeLabelOf(step)]));
  const record = await recordOf(env, instanceId, new Set(open));
  return new Map(ended.map(([stepName, step]) => [stepName, waits.get(step.name) ?? endByRecord(step, record)]));
}

function endsByWaits(all: Iterable<StepRecord>): ReadonlyMap<string, StepEnd> {
  const ends = new Map<string, StepEnd>();
  const owns = [...all].flatMap((step) => (step.type === "waitForEvent" ? (ownStep(step) ?? []) : []));
  for (const { about, part, nth } of owns) {
    if ((part === "signal" || part === "answer") && nth === 1) ends.set(about, "waiting");
  }
  for (const { about, part, nth } of owns) {
    if (part !== "in_doubt" && part !== "paused") continue;
    for (const name of triedBefore(about, nth)) ends.set(name, part);
  }
  return ends;
}

/** The names of the steps that may have made the attempt before the `nth` wait for an operator about a step. */
export function triedBefore(about: string, nth: number): string[] {
  return nth === 1 ? [about] : [ownName(about, "after_pause", nth - 1), ownName(about, "after_doubt", nth - 1)];
}

/** Undefined without labels. */
async function recordOf({ DB }: Pick<EngineEnv, "DB">, instanceId: string, labels: ReadonlySet<string>) {
  if (labels.size === 0) return undefined;
  const names = JSON.stringify([...labels]);
  const keys = JSON.stringify([...labels].flatMap(keysOf));
  const { entries, waiting, hold } = await namedBatch(DB, {
    entries: sql`
      SELECT k.value->>'label' AS label, e.state FROM json_each(${keys}) k CROSS JOIN millrace_inbox e
      WHERE e.instance_id = ${instanceId} AND e.step = k.value->>'step' AND e.item = k.value->>'item' AND NOT ${IS_FREE}
      ORDER BY e.generation`,
    waiting: sql`
      SELECT name FROM millrace_waits WHERE instance_id = ${instanceId} AND signal_id IS NULL AND over_at IS NULL
        AND name IN (SELECT value FROM json_each(${names}))
      UNION ALL SELECT step FROM millrace_approvals WHERE instance_id = ${instanceId} AND state = 'pending'
        AND step IN (SELECT value FROM json_each(${names}))`,
    hold: selectHold(instanceId),
  });
  return {
    entries: new Map(entries.map(({ label, state }) => [String(label), state as EntryState])),
    waiting: new Set(waiting.map(({ name }) => String(name))),
    hold: hold[0] as Hold | undefined,
  };
}

/** Brackets at the end of a label may contain an item, or belong to the step's name. */
function keysOf(label: string): { label: string; step: string; item: string }[] {
  const places = label.endsWith("]") ? [...label.matchAll(/ \[/g)].map(({ index }) => index) : [];
  return [{ label, step: label, item: "" }, ...places.map((at) => ({ label, step: label.slice(0, at), item: label.slice(at + 2, -1) }))];
}

function endByRecord(step: StepRecord, record: Awaited<ReturnType<typeof recordOf>>): StepEnd | undefined {
  const label = codeLabelOf(step);
  const entry = record?.entries.get(label);
  if (entry === "in_doubt") return "in_doubt";
  return record?.waiting.has(label) ? "waiting" : heldState(step, entry, record?.hold);
}

export interface Hold {
  readonly verb: "pause" | "cancel";
  readonly at: number;
}

/** Selects the last operator action on an instance, if that action pauses or stops the run. */
export function selectHold(instanceId: string): Statement {
  return sql`
    SELECT verb, at FROM (
      SELECT verb, at FROM millrace_actions INDEXED BY millrace_actions_by_instance
      WHERE tenant_id = (SELECT tenant_id FROM millrace_instances
        WHERE id = ${instanceId}) AND instance_id = ${instanceId} AND result = 'applied'
        AND verb IN ('pause', 'resume', 'cancel', 'retry', 'restart', 'skip_step')
      ORDER BY at DESC, id DESC LIMIT 1)
    WHERE verb IN ('pause', 'cancel')`;
}

/** An attempt that began at most this many milliseconds before a hold may have detected the hold, if the attempt ended after the hold. */
const HEARD_LATE_MS = 250;

type HeldState = "paused" | "stopped";

/**
 * The state of a step that the platform shows as complete although a hold ended its attempt before its code was called. `entry` is the
 * state of an effect's last inbox entry. A read has none, so the times of its attempt decide.
 */
export function heldState(step: StepRecord, entry: EntryState | undefined, hold: Hold | undefined): HeldState | undefined {
  const part = ownStep(step)?.part;
  if (hold === undefined || step.type !== "do" || step.state !== "complete" || part === "time_over" || part === "read_again")
    return undefined;
  if (entry !== undefined && entry !== "failed" && entry !== "claimed") return undefined;
  const { started_at = 0, ended_at = null } = step.attempts.at(-1) ?? {};
  const isBehind = started_at >= hold.at - HEARD_LATE_MS && (ended_at ?? 0) >= hold.at;
  if (hold.verb === "pause") return isBehind ? "paused" : undefined;
  return isBehind || entry !== undefined ? "stopped" : undefined;
}
