import { duringSpan } from "../../contract/trace.ts";
import { spanOfDelivery } from "../../observe/deliveries.ts";
import { atomically } from "../../store/d1/retry.ts";
import { expectLater } from "../../store/outbox.ts";
import { carried } from "../../topology/carried.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { EventConsumer } from "../../topology/consumer.ts";
import type { Intake, OnCaptured, Outcomes, Taker } from "../consumer.ts";
import { handleBatch } from "./batch.ts";
import { failedBy, follow, memo } from "./follow.ts";
import { type InTurn, inOrder, stuckBehind } from "./in-order.ts";
import { nothing, type Plan } from "./plan.ts";
import { type ReadMessage, readMessages } from "./read.ts";
import { takeAllIn } from "./take.ts";

/** Maximum time in milliseconds that the events of a batch wait for each other. Events whose planning takes longer are committed later. */
const TOGETHER_MS = 500;
/** Time after which the keeper treats a slow event as lost, in milliseconds. */
const SLOW_MS = 60_000;

/**
 * The consumer of an event queue. The consumer parses, plans and commits events, then sends commands, notifies waits, starts instances, and
 * acknowledges the messages. The events of a batch share one round trip to D1, including projected rows. Code of routes is called before
 * the commit, so that an event with a failed call is redelivered.
 */
export function consumeEvents(consumer: EventConsumer, catalog: Catalog, onCaptured?: OnCaptured): Taker {
  const { queue } = consumer;
  return {
    queue: queue.name,
    handle: (batch, env, triesOf) => {
      const intake = { env, consumer, catalog, triesOf, onCaptured, takenAt: Date.now() };
      return handleBatch(intake, batch, async (messages, outcomes) => {
        const { read, refused } = readMessages(messages, (type) => carried(catalog, queue.name, "event", type));
        for (const { message, error } of refused) outcomes.set(message, { did: "refused", error });
        const planning = planAll(intake, await inOrder(intake, read, outcomes), outcomes);
        const { quick, slow } = await quickAmong(planning);
        await takeAllIn(intake, quick, outcomes);
        if (slow.length === 0) return;
        await expectSlow(
          intake,
          slow.map(({ one }) => one),
        );
        await takeAllIn(intake, (await Promise.all(slow.map(({ plan }) => plan))).flat(), outcomes);
      });
    },
  };
}

/** An event and the promise of its plan. */
interface Planning {
  readonly one: ReadMessage;
  readonly plan: Promise<readonly Plan[]>;
}

/** Plans all events in parallel. */
function planAll(intake: Intake, read: readonly InTurn[], outcomes: Outcomes): Planning[] {
  const once = memo();
  const planOf = async (one: InTurn, before: Promise<readonly Plan[]> | undefined) => {
    try {
      if (one.isOver) return [nothing(one)];
      if (before && (await before).length === 0) {
        outcomes.set(one.message, { did: "retried", error: stuckBehind(one), unharmed: true });
        return [];
      }
      const plan = await duringSpan(spanOfDelivery(one.message), () => follow(intake, one, once));
      return [{ ...plan, move: one.move }];
    } catch (thrown) {
      outcomes.set(one.message, failedBy(thrown));
      return [];
    }
  };
  // Events of the same stream are planned in sequence.
  const last = new Map<string, Promise<readonly Plan[]>>();
  return read.map((one) => {
    const stream = one.move?.id;
    const plan = planOf(one, stream === undefined ? undefined : last.get(stream));
    if (stream !== undefined) last.set(stream, plan);
    return { one, plan };
  });
}

/** Separates the plans that are ready within the time limit from the slow ones. */
async function quickAmong(planning: readonly Planning[]): Promise<{ quick: Plan[]; slow: Planning[] }> {
  const plans = await within(
    planning.map(({ plan }) => plan),
    TOGETHER_MS,
  );
  return {
    quick: plans.flatMap((plan) => (plan === "slow" ? [] : plan)),
    slow: planning.filter((_, index) => plans[index] === "slow"),
  };
}

/** The result of each promise within the time limit, or "slow" for a promise that takes longer. */
async function within<T>(promises: readonly Promise<T>[], ms: number): Promise<(T | "slow")[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<"slow">((resolve) => {
    timer = setTimeout(() => resolve("slow"), ms);
  });
  try {
    return await Promise.all(promises.map((promise) => Promise.race([promise, over])));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Delays the keeper's copies of slow events. Otherwise the same slow code would get a second copy of an event while the first copy is in
 * progress.
 */
async function expectSlow({ env }: Intake, slow: readonly ReadMessage[]): Promise<void> {
  const ours = slow.filter(({ envelope }) => envelope.outbox === undefined).map(({ envelope }) => ({ envelope, delayMs: SLOW_MS }));
  if (ours.length > 0) await atomically(env.DB, [expectLater(ours)]).catch(() => undefined);
}
