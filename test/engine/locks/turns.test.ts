import fc from "fast-check";
import { expect, it } from "vitest";
import { FREE, type Presence, queued, renewed, settled, type Turns, without } from "../../../packages/millrace/src/locks/lock.ts";

const DAY_MS = 86_400_000;
const COME_BACK_MS = 2_000;

const who = fc.integer({ min: 0, max: 5 }).map((n) => `asker ${n}`);
const happening = fc.oneof(
  fc.record({
    what: fc.constant("asks" as const),
    who,
    ttlMs: fc.constantFrom(1_000, 30_000),
    waitMs: fc.constantFrom(1, 5_000, 600_000),
  }),
  fc.record({ what: fc.constantFrom("renews" as const, "releases" as const, "dies" as const), who }),
  fc.record({ what: fc.constant("time passes" as const), ms: fc.constantFrom(0, 1, 900, 2_500, 40_000) }),
  fc.record({ what: fc.constant("eviction" as const) }),
  fc.record({ what: fc.constant("forgotten after a day" as const) }),
);

it("a lock has one holder at a time and growing tokens, and admits waiting callers in order, through any crash", () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 80 }), (happenings) => {
      let turns: Turns = FREE;
      let now = 1_800_000_000_000;
      let here = new Set<string>();
      let awakeAt = 0;
      let calls = 0;
      const ids = new Map<string, string>();
      const tokens: number[] = [];
      const presenceOf = (id: string): Presence => (here.has(id) ? "here" : now < awakeAt + COME_BACK_MS ? "awaited" : "gone");
      const settle = (next: Turns) => {
        const before = next.holder;
        turns = settled(next, now, presenceOf);
        const { holder } = turns;
        if (holder && holder.id !== before?.id) {
          const line = next.waiting.filter(({ id, until }) => until > now && presenceOf(id) !== "gone").map(({ id }) => id);
          expect(holder.id).toBe(line[0]);
          expect(holder.token).toBeGreaterThan(tokens.at(-1) ?? 0);
          tokens.push(holder.token);
          here.delete(holder.id);
        }
        // Without a holder, the first caller of the queue has not yet called again.
        if (!holder && turns.waiting[0]) expect(presenceOf(turns.waiting[0].id)).toBe("awaited");
        expect(new Set([holder?.id, ...turns.waiting.map(({ id }) => id)]).size).toBe(1 + turns.waiting.length);
      };
      for (const one of happenings) {
        const id = "who" in one ? ids.get(one.who) : undefined;
        if (one.what === "asks") {
          const isWaiting = id !== undefined && turns.waiting.some((waiting) => waiting.id === id);
          const asks = isWaiting ? id : `call ${++calls}`;
          ids.set(one.who, asks);
          here.add(asks);
          settle(queued(turns, { id: asks, who: one.who, ttlMs: one.ttlMs, until: now + one.waitMs }));
        } else if (one.what === "renews" && id !== undefined) {
          turns = renewed(turns, id, now + 30_000) ?? turns;
        } else if (one.what === "releases" && id !== undefined) {
          here.delete(id);
          settle(without(turns, id));
        } else if (one.what === "dies" && id !== undefined) {
          here.delete(id);
          ids.delete(one.who);
        } else if (one.what === "time passes") {
          now += one.ms;
          settle(turns);
        } else if (one.what === "eviction") {
          turns = structuredClone(turns);
          here = new Set();
          awakeAt = now;
        } else if (one.what === "forgotten after a day" && !turns.holder && turns.waiting.length === 0) {
          now += DAY_MS;
          turns = FREE;
        }
      }
    }),
    { numRuns: 1_000 },
  );
});
