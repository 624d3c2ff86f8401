import { duringSpan } from "../../contract/trace.ts";
import { spanOfDelivery } from "../../observe/deliveries.ts";
import { atomically } from "../../store/d1/retry.ts";
import { expectLater } from "../../store/outbox.ts";
import { carried } from "../../topology/carried.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { EventConsumer } from "../../topology/consumer.ts";
import type { Intake, OnCaptured, Outcomes, Taker } from "../consumer.ts";
import { handleBatch } from "./batch.ts";
import { follow, memo, ThrownByRoute } from "./follow.ts";
import { type InTurn, inOrder, stuckBehind } from "./in-order.ts";
import { nothing, type Plan } from "./plan.ts";
import { type ReadMessage, readMessages } from "./read.ts";
import { takeAllIn } from "./take.ts";

/** How long the events of a batch wait for each other. Those whose code takes longer are taken in behind the others. */
const TOGETHER_MS = 500;
/** How long a slow event may be out of sight before the keeper takes it for lost. */
const SLOW_MS = 60_000;

/**
 * The consumer of an event queue: read, plan, take in; then send, wake, start, settle. Events of a whole batch share
 * one round trip to D1, projected rows included. Code is called before the event is confirmed, so that an event whose call failed comes
 * back.
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

/** An event, and its plan: one, or none where that could not be made. */
interface Planning {
  readonly one: ReadMessage;
  readonly plan: Promise<readonly Plan[]>;
}

/** Works out what each event leads to, side by side. */
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
      const isRoutes = thrown instanceof ThrownByRoute;
      outcomes.set(one.message, { did: "retried", error: isRoutes ? thrown.error : thrown, isRoutes });
      return [];
    }
  };
  // What is in one stream is followed one after another.
  const last = new Map<string, Promise<readonly Plan[]>>();
  return read.map((one) => {
    const stream = one.move?.id;
    const plan = planOf(one, stream === undefined ? undefined : last.get(stream));
    if (stream !== undefined) last.set(stream, plan);
    return { one, plan };
  });
}

/** The plans that are made within the time for which events wait for each other, and those that are not. */
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

/** What each promise has answered by then, or that it is slow. */
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

/** No copies of what is being worked on: the keeper would send them to the very code that is slow. */
async function expectSlow({ env }: Intake, slow: readonly ReadMessage[]): Promise<void> {
  const ours = slow.filter(({ envelope }) => envelope.outbox === undefined).map(({ envelope }) => ({ envelope, delayMs: SLOW_MS }));
  if (ours.length > 0) await atomically(env.DB, [expectLater(ours)]).catch(() => undefined);
}
