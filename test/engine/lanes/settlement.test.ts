import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { blocking, letterTakers, parking } from "../../probe/lanes.ts";
import { until } from "../harness.ts";
import { LabLane, type LaneBatch, numbers } from "./lab.ts";

/** One action of a handler. It settles one message or all, during its call or later. */
type Act = { what: "ack" | "retry"; at: number; later: boolean } | { what: "ackAll" | "retryAll"; later: boolean };
interface Script {
  acts: Act[];
  end: "returns" | "throws" | "rejects later";
}

const SIZE = 4;

const act = fc.oneof(
  fc.record({ what: fc.constantFrom("ack" as const, "retry" as const), at: fc.nat(SIZE - 1), later: fc.boolean() }),
  fc.record({ what: fc.constantFrom("ackAll" as const, "retryAll" as const), later: fc.boolean() }),
);
const script: fc.Arbitrary<Script> = fc.record({
  acts: fc.array(act, { maxLength: 5 }),
  end: fc.constantFrom("returns", "returns", "throws", "rejects later"),
});

/** A handler for a queue and a lane. */
async function follow({ acts, end }: Script, batch: MessageBatch<unknown>, ctx: Pick<ExecutionContext, "waitUntil">): Promise<void> {
  const settle = (one: Act) => ("at" in one ? batch.messages[one.at]?.[one.what]() : batch[one.what]());
  for (const one of acts.filter(({ later }) => !later)) settle(one);
  const later = async () => {
    await scheduler.wait(1);
    for (const one of acts.filter((each) => each.later)) settle(one);
    if (end === "rejects later") throw new Error("The remaining work failed.");
  };
  ctx.waitUntil(later());
  if (end === "throws") throw new Error("The handler failed.");
}

/** The messages that a Cloudflare queue would deliver again. */
async function byQueue(script: Script): Promise<boolean[]> {
  const messages = numbers(SIZE).map((n) => ({ id: String(n), timestamp: new Date(), attempts: 1, body: { n } }));
  const batch = createMessageBatch("compared", messages);
  const ctx = createExecutionContext();
  const threw = await follow(script, batch, ctx).then(
    () => false,
    () => true,
  );
  const result = await getQueueResult(batch, ctx).catch(() => undefined);
  const {
    ackAll = false,
    explicitAcks = [],
    retryBatch = { retry: false },
    retryMessages = [],
  } = result ?? (await getQueueResult(batch, createExecutionContext()));
  const failed = threw || script.end === "rejects later";
  return messages.map(({ id }) => {
    if (retryMessages.some(({ msgId }) => msgId === id)) return true;
    if (explicitAcks.includes(id)) return false;
    return ackAll ? false : retryBatch.retry || failed;
  });
}

/** The second delivery of a lane. */
async function byLane(script: Script): Promise<number[]> {
  const lane = new LabLane(blocking, (batch, ctx) => (lane.calls.length === 1 ? follow(script, batch, ctx) : undefined));
  await lane.send(...numbers(SIZE));
  await lane.is("empty");
  return [...new Set(lane.calls.slice(1).flat())];
}

describe("Settlement", () => {
  it("a lane settles messages as a queue does, and also delivers all messages after a retried message again", async () => {
    await fc.assert(
      fc.asyncProperty(script, async (script) => {
        const again = await byQueue(script);
        const first = again.indexOf(true);
        expect(await byLane(script)).toEqual(first === -1 ? [] : numbers(SIZE - first, first));
      }),
      { numRuns: 80 },
    );
  });
});

it("a lane message is unchanged when a handler changes its body: the next try and the dead letter have the original", async () => {
  const [seen, letters]: [unknown[], unknown[]] = [[], []];
  const lane = new LabLane(parking, ({ messages: [message] }) => {
    seen.push(structuredClone(message?.body));
    Object.assign(message?.body ?? {}, { n: 9, note: "changed" });
    throw new Error("Not yet.");
  });
  letterTakers.set(lane.key, ({ body }) => void letters.push(body));
  await lane.send(0);
  await until(async () => letters.length, Boolean);
  const sent = lane.message(0).body;
  expect(seen).toEqual([sent, sent, sent, sent]);
  expect(letters).toEqual([sent]);
});

it.each([-1, Number.NaN, 43_201, Number.POSITIVE_INFINITY])(
  "a retry of a lane message with a delay of %d seconds throws, as in a queue",
  async (delaySeconds) => {
    const said: unknown[] = [];
    const lane = new LabLane(blocking, ({ messages: [message] }) => {
      try {
        message?.retry({ delaySeconds });
      } catch (error) {
        said.push(error);
      }
    });
    await lane.send(0);
    await lane.is("empty");
    expect(said).toEqual([expect.objectContaining({ message: expect.stringContaining("must be 0 to 43200") })]);
  },
);

/** The failures of a message before it succeeds, one for each delivery. */
type Course = ("retry" | "throw")[];

const faulty: fc.Arbitrary<Course> = fc.array(fc.constantFrom("retry", "throw"), { maxLength: 5 });
const course: fc.Arbitrary<Course> = fc.oneof({ weight: 3, arbitrary: fc.constant<Course>([]) }, { weight: 1, arbitrary: faulty });
const courses = fc.array(course, { minLength: 1, maxLength: 14 });

/** The handler of these sequences. A message that throws fails its whole batch. A message that calls `retry` fails alone. */
class Patient {
  readonly #faults: Course[];
  constructor(courses: readonly Course[]) {
    this.#faults = courses.map((faults) => [...faults]);
  }
  next(n: number): Course[number] | undefined {
    return this.#faults[n]?.shift();
  }
}

const BATCH = 10;
const LIMIT = 3;

/** The documented behaviour of a lane: the messages of each call, and the dead letters. */
function model(courses: readonly Course[]): { calls: number[][]; letters: number[] } {
  const patient = new Patient(courses);
  const calls: number[][] = [];
  const letters: number[] = [];
  let failures = 0;
  let aloneTo = -1;
  for (let head = 0; head < courses.length; ) {
    const batch = numbers(Math.min(aloneTo >= head ? 1 : BATCH, courses.length - head), head);
    calls.push(batch);
    const said = batch.map((n) => patient.next(n));
    const threw = said.includes("throw");
    // A call of `retry` before the throw counts. Later messages were not processed.
    const upTo = threw ? said.indexOf("throw") : batch.length;
    const again = batch.findIndex((_, at) => said[at] === "retry" || at >= upTo);
    if (again === -1) {
      head += batch.length;
      failures = 0;
      continue;
    }
    head += again;
    if (again > 0) failures = 0;
    const isBlamed = said[again] === "retry" || batch.length - upTo === 1;
    if (isBlamed) failures++;
    aloneTo = Math.max(aloneTo, isBlamed ? head : (batch.at(-1) ?? head));
    if (failures > LIMIT) {
      letters.push(head++);
      failures = 0;
    }
  }
  return { calls, letters };
}

describe("Documented behaviour", () => {
  it("a lane calls its handler as docs/lanes.md describes, for any failures", async () => {
    await fc.assert(
      fc.asyncProperty(courses, async (courses) => {
        const patient = new Patient(courses);
        const lane = new LabLane(parking, ({ messages }: LaneBatch) => {
          const said = messages.map(({ body }) => patient.next(body.n));
          for (const [at, message] of messages.entries()) {
            if (said[at] === "throw") throw new Error("It failed.");
            if (said[at] === "retry") message.retry();
            else message.ack();
          }
        });
        const letters: number[] = [];
        letterTakers.set(lane.key, ({ body }) => void letters.push(body.n));
        await lane.send(...numbers(courses.length));
        await lane.is("empty");
        expect({ calls: lane.calls, letters }).toEqual(model(courses));
      }),
      { numRuns: 40 },
    );
  });
});
