import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { howMany } from "../../full-size.ts";
import { plain } from "../../probe/pull.ts";
import { withKeeperAtRest } from "../harness.ts";
import { ALONE, LabQueue } from "./lab.ts";
import { PullModel } from "./model.ts";

type Act =
  | { do: "send"; count: number; delayMs: number }
  | { do: "pull"; most: number; visibilityMs: number }
  | { do: "settle"; picks: { which: number; how: "ack" | "retry"; delayMs: number }[] }
  | { do: "pass"; ms: number }
  | { do: "crash" };

const ms = fc.constantFrom(0, 1000, 5000, 60_000);
const visibilityMs = fc.constantFrom(1000, 5000, 60_000);
const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("send" as const), count: fc.integer({ min: 1, max: 4 }), delayMs: ms }),
    { weight: 2, arbitrary: fc.record({ do: fc.constant("pull" as const), most: fc.integer({ min: 1, max: 5 }), visibilityMs }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("settle" as const),
        picks: fc.array(fc.record({ which: fc.nat(6), how: fc.constantFrom("ack" as const, "retry" as const), delayMs: ms }), {
          maxLength: 5,
        }),
      }),
    },
    fc.record({ do: fc.constant("pass" as const), ms }),
    fc.constant({ do: "crash" as const }),
  ),
  { minLength: 5, maxLength: 30 },
);

it("a pull queue leases the oldest due message, leases none twice at once, loses none and counts each attempt, for any order of operations and crashes", async () => {
  // With the simulated clock a keeper's round would set its next alarm in the year 2100.
  await withKeeperAtRest();
  const clock = vi.spyOn(Date, "now");
  try {
    const property = fc.asyncProperty(acts, async (list) => {
      // The simulated time is far in the future, so that the object's alarm does not fire.
      let now = Date.UTC(2100);
      clock.mockImplementation(() => now);
      const queue = new LabQueue(plain, ALONE);
      const model = new PullModel();
      for (const act of list) {
        if (act.do === "pass") now += act.ms;
        if (act.do === "crash") await queue.crash();
        if (act.do === "send") {
          const body = Array.from({ length: act.count }, (_, n) => ({ body: n, delaySeconds: act.delayMs / 1000 }));
          model.sent(
            (await queue.client.sendBatch(body)).map(({ id }) => id),
            now + act.delayMs,
          );
        }
        if (act.do === "pull") await pulls(queue, model, act, now);
        if (act.do === "settle") await settles(queue, model, act, now);
      }
      model.free(now);
      await queue.object.pull({ batchSize: 1, visibilityMs: 1 });
      expect((await queue.object.look()).depth).toBe(model.ids("free", "leased").length);
      const letters = (await queue.object.letters()).map(({ id }) => id);
      expect(letters.toSorted()).toEqual(model.ids("dead").toSorted());
    });
    await fc.assert(property, { numRuns: howMany(40, 1000) });
  } finally {
    clock.mockRestore();
  }
});

async function pulls(queue: LabQueue, model: PullModel, { most, visibilityMs }: Extract<Act, { do: "pull" }>, now: number) {
  const first = model.free(now).slice(0, most);
  const { messages } = await queue.object.pull({ batchSize: most, visibilityMs });
  expect(messages.map(({ id }) => id)).toEqual(first.map(({ id }) => id));
  const wrong = messages.map(({ id, leaseId, attempts }) => model.leased(id, leaseId, attempts, now + visibilityMs, now));
  expect(wrong.filter((one) => one !== undefined)).toEqual([]);
}

async function settles(queue: LabQueue, model: PullModel, { picks }: Extract<Act, { do: "settle" }>, now: number) {
  // The chosen leases include expired ones.
  const known = [...new Map(picks.map(({ which, ...pick }) => [model.leases.toReversed()[which] ?? `none.${which}`, pick]))];
  const acks = known.filter(([, { how }]) => how === "ack").map(([leaseId]) => leaseId);
  const retries = known.filter(([, { how }]) => how === "retry").map(([leaseId, { delayMs }]) => ({ leaseId, delayMs }));
  const { acked, retried, over } = await queue.object.settle({ acks, retries });
  expect({ acked, retried, over: over.length }).toEqual(model.settled(acks, retries, now));
}
