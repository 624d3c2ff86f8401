import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { type LaneBody, letterTakers, parking } from "../../probe/lanes.ts";
import { until } from "../../until.ts";
import { LabLane, type LaneBatch, numbers } from "./lab.ts";

type Side = "before" | "after";

/** Kills a lane's object at one of its storage writes. Unwritten state is lost, as in a killed process. */
async function dieAtWrite(lane: LabLane, at: number, side: Side): Promise<() => boolean> {
  let writes = 0;
  let died = false;
  await runInDurableObject(lane.stub, (_, state) => {
    const { storage } = state;
    const watch = <This extends object>(owner: This, name: keyof This & string, isWrite: (first: unknown) => boolean) => {
      const real = (owner[name] as (...args: unknown[]) => unknown).bind(owner);
      const watched = (...args: unknown[]) => {
        if (!isWrite(args[0]) || died || ++writes !== at) return real(...args);
        died = true;
        if (side === "before") state.abort(`Died before write ${at}.`);
        // After the next tick the write is on disk, and the sender may have no answer.
        if (side === "after") setTimeout(() => state.abort(`Died after write ${at}.`));
        return real(...args);
      };
      Object.assign(owner, { [name]: watched });
    };
    watch(storage.sql, "exec", (sql) => /^\s*(INSERT|UPDATE|DELETE)/.test(String(sql)));
    watch(storage.kv, "put", () => true);
    watch(storage, "setAlarm", () => true);
  });
  return () => died;
}

/** A lower bound of the writes in the scenario below. The exact number depends on alarms. */
const WRITES = 24;

/** Whether the object dies before or after a write. The gate alternates between the two. */
const sidesOf = (at: number): Side[] => (IS_FULL_SIZE ? ["before", "after"] : [at % 2 === 1 ? "before" : "after"]);

/** The number of concurrent scenarios. */
const SIDE_BY_SIDE = 16;

/** Twelve messages with a temporary failure, a dead letter, idempotency keys, and a handover that fails once. */
async function story(at: number, side: Side) {
  const letters: number[] = [];
  let handOffs = 0;
  let failures = 1;
  const lane = new LabLane(parking, (batch: LaneBatch) => {
    for (const message of batch.messages) {
      const { n } = message.body;
      if (n === 3 && failures-- > 0) message.retry();
      if (n === 7) message.retry();
    }
  });
  letterTakers.set(lane.key, (letter: { body: LaneBody }) => {
    if (handOffs++ === 0) throw new Error("The dead-letter handler fails.");
    letters.push(letter.body.n);
  });
  const died = await dieAtWrite(lane, at, side);
  const keyed = (n: number) => lane.message(n, { idempotencyKey: `key ${n}` });
  const first = [0, 1, 2, 3].map(keyed);
  const rest = [4, 5, 6, 7, 8, 9, 10, 11].map(keyed);
  // A sender that gets no answer sends again with the same keys.
  for (const messages of [first, rest]) {
    await until(
      () =>
        lane.client.sendBatch(messages).then(
          () => true,
          () => false,
        ),
      (sent) => sent,
    );
  }
  const look = await until(
    async () => {
      await runDurableObjectAlarm(lane.stub).catch(() => false);
      return lane.object.look().catch(() => undefined);
    },
    (seen) => seen?.state === "empty" && seen.letters === 0,
    10_000,
  );
  return { lane, letters, died: died(), look };
}

/** A message's first deliveries are in order, and redeliveries begin with the first unconfirmed message. */
function firstSeen(calls: readonly number[][]): number[] {
  return [...new Set(calls.flat())];
}

describe("Crashes", () => {
  it("L01 a lane object that dies before or after any storage write loses and reorders no message", async () => {
    const deaths = new Set<number>();
    // Continues until a write that no scenario reaches.
    for (let from = 1; from === 1 || deaths.has(from - 1); from += SIDE_BY_SIDE) {
      const places = numbers(SIDE_BY_SIDE, from).flatMap((at) => sidesOf(at).map((side) => ({ at, side })));
      const told = await Promise.all(places.map(async ({ at, side }) => ({ ...(await story(at, side)), at, side })));
      for (const { lane, letters, died, look, at, side } of told) {
        const where = `${side} write ${at}`;
        if (died) deaths.add(at);
        expect(look, where).toMatchObject({ state: "empty", letters: 0, depth: 0 });
        expect(firstSeen(lane.calls), where).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        expect(new Set(letters), where).toEqual(new Set([7]));
        expect(goesBack(lane.calls), where).toEqual([]);
      }
    }
    expect(deaths.size).toBeGreaterThan(WRITES);
  });
});

/** The calls that begin after an unconfirmed message. There must be none. */
function goesBack(calls: readonly number[][]): number[][] {
  return calls.filter((call) => call.some((n, at) => at > 0 && n !== (call[at - 1] as number) + 1));
}
