import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AlertChange, evaluate, MAX_GROUPS, type Reading } from "../../../packages/millrace/src/alerts/evaluate.ts";
import type { AlertRule } from "../../../packages/millrace/src/alerts/rule.ts";
import { type Alert, groupOf } from "../../../packages/millrace/src/store/alerts.ts";
import { type Look, naive } from "./model.ts";

const MINUTE = 60_000;

const RULE: AlertRule = {
  name: "depth",
  gauge: "depth",
  per: ["queue"],
  warning: { above: 10, forMs: 2 * MINUTE },
  critical: { above: 100, forMs: MINUTE },
  repeatMs: 60 * MINUTE,
  clearMs: 2 * MINUTE,
  meaning: "Deep.",
  doc: "docs/alerts.md",
};

/** A keeper without retention: the rows of the database, and every notification. */
class World {
  alerts = new Map<string, Alert>();
  notices: { at: number; group: string; id: string; change: AlertChange }[] = [];

  constructor(readonly rules: readonly AlertRule[] = [RULE]) {}

  look(at: number, values: Record<string, number | null> | readonly Reading[]): void {
    const readings = Array.isArray(values)
      ? (values as Reading[])
      : Object.entries(values).flatMap(([queue, value]) => (value === null ? [] : [{ name: "depth", labels: { queue }, value }]));
    const known = [...this.alerts.values()].filter(({ state, mutedUntil }) => state !== "resolved" || (mutedUntil ?? 0) > at);
    for (const step of evaluate(this.rules, readings, known, at)) {
      if ("gone" in step) {
        this.alerts.delete(step.gone.id);
        continue;
      }
      const { alert, notice } = step;
      if (alert.version !== (this.alerts.get(alert.id)?.version ?? 0) + 1) throw new Error(`${alert.id} skipped a version.`);
      this.alerts.set(alert.id, alert);
      if (notice) this.notices.push({ at, group: groupOf(alert.labels), id: alert.id, change: notice });
    }
  }

  mute(at: number, forMs: number): void {
    for (const [id, alert] of this.alerts) this.alerts.set(id, { ...alert, mutedUntil: at + forMs, muteReason: "known" });
  }

  get open(): Alert[] {
    return [...this.alerts.values()].filter(({ state }) => state !== "resolved");
  }

  get said(): AlertChange[] {
    return this.notices.map(({ change }) => change);
  }
}

/** Polls these values of one queue once a minute. */
function minutes(world: World, values: readonly (number | null)[], from = 0): void {
  values.forEach((value, index) => {
    world.look((from + index) * MINUTE, { q: value });
  });
}

describe("Alerts", () => {
  it("an alert is pending until its gauge has exceeded the bound for long enough, and is then notified once", () => {
    const world = new World();
    minutes(world, [11, 11]);
    expect([world.open[0]?.state, world.said]).toEqual(["pending", []]);
    minutes(world, [11, 11, 11], 2);
    expect([world.open[0]?.state, world.said]).toEqual(["firing", ["firing"]]);
  });

  it("an alert that ends before its first notification leaves no row", () => {
    const world = new World();
    minutes(world, [11, 11, null, 11, 10, 11, 11]);
    expect(world.said).toEqual([]);
    expect(world.alerts.size).toBe(1);
  });

  it("an alert is notified again when it becomes critical, and when it returns to warning", () => {
    const world = new World();
    minutes(world, [11, 11, 11, 101, 101, 101, 11, 11, 11, 11]);
    expect(world.notices.map(({ at, change }) => [at / MINUTE, change])).toEqual([
      [2, "firing"],
      [4, "escalated"],
      [8, "eased"],
    ]);
  });

  it("an alert is not resolved by a short recovery of its gauge, only by a lasting one", () => {
    const world = new World();
    minutes(world, [11, 11, 11, null, 11, null, null, 11, null, null, null, null]);
    expect(world.notices.map(({ at, change }) => [at / MINUTE, change])).toEqual([
      [2, "firing"],
      [10, "resolved"],
    ]);
    expect(world.open).toEqual([]);
  });

  it("a lasting alert is notified again after its repeat interval, and not before", () => {
    const world = new World();
    minutes(world, Array(180).fill(11));
    expect(world.notices.map(({ at }) => at / MINUTE)).toEqual([2, 62, 122]);
  });

  it("a muted alert is recorded and not notified; the missed notification is sent when the mute ends", () => {
    const world = new World();
    minutes(world, [11, 11]);
    world.mute(MINUTE, 10 * MINUTE);
    minutes(world, Array(9).fill(101), 2);
    expect([world.said, world.open[0]?.severity]).toEqual([[], "critical"]);
    minutes(world, [101], 11);
    expect(world.said).toEqual(["firing"]);
  });

  it("an alert that ended during a mute is notified as resolved when the mute ends", () => {
    const world = new World();
    minutes(world, Array(10).fill(11));
    world.mute(10 * MINUTE, 20 * MINUTE);
    minutes(world, Array(30).fill(0), 10);
    expect(world.said).toEqual(["firing", "resolved"]);
    expect(world.notices[1]?.at).toBe(30 * MINUTE);
  });

  it("two polls with an hour between them do not make a pending alert fire", () => {
    const world = new World();
    world.look(0, { q: 11 });
    world.look(60 * MINUTE, { q: 11 });
    expect([world.said, world.open[0]?.state]).toEqual([[], "pending"]);
    minutes(world, Array(10).fill(11), 61);
    expect(world.said).toEqual(["firing"]);
  });

  it("an alert fires and is resolved on time although the clock was set back by one hour", () => {
    const [pending, quiet] = [new World(), new World()];
    pending.look(60 * MINUTE, { q: 11 });
    minutes(pending, Array(4).fill(11));
    expect(pending.said).toEqual(["firing"]);
    minutes(quiet, [11, 11, 11, null], 60);
    minutes(quiet, [null, null, null], 3);
    expect(quiet.said).toEqual(["firing", "resolved"]);
  });

  it("no alert fires for many queues that are each within their bound", () => {
    const world = new World();
    const values = Object.fromEntries(Array.from({ length: 2 * MAX_GROUPS }, (_, index) => [`q${index}`, 9]));
    for (let minute = 0; minute < 10; minute++) world.look(minute * MINUTE, values);
    expect(world.open).toEqual([]);
  });

  it("a new alert about a muted queue begins muted, also after the earlier alert was resolved", () => {
    const world = new World();
    minutes(world, [11, 11, 11]);
    world.mute(2 * MINUTE, 60 * MINUTE);
    minutes(world, [null, null, null, 11, 11, 11, 11], 3);
    expect(world.said).toEqual(["firing"]);
    expect(world.open).toMatchObject([{ state: "firing", mutedUntil: 62 * MINUTE, muteReason: "known" }]);
  });

  it("an alert is resolved when its rule is disabled", () => {
    const world = new World();
    minutes(world, [11, 11, 11]);
    const after = new World([]);
    after.alerts = world.alerts;
    after.look(3 * MINUTE, {});
    expect([after.said, after.open]).toEqual([["resolved"], []]);
  });

  it("an alert keeps its state while its gauge cannot be read; no alert begins without a gauge value", () => {
    const world = new World();
    minutes(world, Array(10).fill(11));
    const unread = Array(10).fill(Number.NaN);
    for (const [minute, value] of unread.entries()) world.look((10 + minute) * MINUTE, { q: value, other: value });
    expect([world.said, world.open.length]).toEqual([["firing"], 1]);
  });

  it("an unchanged alert is written at most once a minute, for any number of polls", () => {
    const world = new World();
    for (let at = 0; at <= 10 * MINUTE; at += 10_000) world.look(at, { q: 11 });
    // One write at the begin, one for the notification, and one for each minute.
    expect(world.open[0]?.version).toBeLessThanOrEqual(12);
  });

  it("an alert counts its events, and keeps the first three examples and the time of the last event", () => {
    const arrived: AlertRule = { ...RULE, gauge: "arrived", warning: { above: 0, forMs: 0 } };
    const world = new World([arrived]);
    const reading = (value: number, fresh: number, examples: string[], lastAt: number) =>
      world.look(lastAt + 1, [{ name: "arrived", labels: { queue: "q" }, value, fresh, examples, lastAt }]);
    reading(2, 2, ["a", "b"], 5);
    reading(9, 7, ["b", "c", "d"], MINUTE + 6);
    expect(world.open).toMatchObject([{ count: 9, examples: ["a", "b", "c"], lastAt: MINUTE + 6, since: 6 }]);
  });

  it("one rule has at most twenty alerts for separate queues; all further queues share one more alert", () => {
    const world = new World();
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`q${index}`, 11 + index / 1000]));
    for (const at of [0, 1, 2, 3]) world.look(at * MINUTE, many);
    expect(world.open.length).toBe(MAX_GROUPS + 1);
    expect(world.notices.length).toBe(MAX_GROUPS + 1);
    expect(world.open.filter(({ labels }) => labels.queue === "others")).toMatchObject([{ value: expect.closeTo(180 * 11 + 16.11, 0) }]);
  });
});

describe("Alerts of random gauge values", () => {
  const value = fc.constantFrom(null, 0, 11, 50, 101, 500);
  const rule = fc
    .record({
      warning: fc.option(fc.record({ above: fc.constant(10), forMs: fc.constantFrom(0, MINUTE, 3 * MINUTE) }), { nil: undefined }),
      critical: fc.option(fc.record({ above: fc.constant(100), forMs: fc.constantFrom(0, MINUTE, 2 * MINUTE) }), { nil: undefined }),
      repeatMs: fc.constantFrom(5 * MINUTE, 20 * MINUTE),
      clearMs: fc.constantFrom(0, MINUTE, 3 * MINUTE),
    })
    .filter(({ warning, critical }) => warning !== undefined || critical !== undefined)
    .map(({ warning, critical, ...rest }): AlertRule => {
      const { warning: _, critical: __, ...base } = RULE;
      return { ...base, ...rest, ...(warning && { warning }), ...(critical && { critical }) };
    });
  const looks = fc.array(fc.record({ afterMs: fc.constantFrom(10_000, MINUTE, 2 * MINUTE), a: value, b: value, mute: fc.nat(20) }), {
    maxLength: 60,
  });

  it("alerts send the notifications that a simple reference model predicts, and each group has at most one open alert", () => {
    fc.assert(
      fc.property(rule, looks, (own, seen) => {
        const world = new World([own]);
        const past: Record<"a" | "b", Look[]> = { a: [], b: [] };
        let at = 0;
        for (const { afterMs, a, b } of seen) {
          at += afterMs;
          world.look(at, { a, b });
          past.a.push({ at, value: a, muted: false });
          past.b.push({ at, value: b, muted: false });
          const groups = world.open.map(({ labels }) => groupOf(labels));
          if (new Set(groups).size !== groups.length) throw new Error(`Two alerts of one group are open: ${groups}.`);
        }
        for (const queue of ["a", "b"] as const) {
          const model = naive(own, past[queue]);
          const group = groupOf({ queue });
          const told = world.notices.filter((one) => one.group === group).map(({ at, change }) => ({ at, change }));
          expect(told).toEqual(model.notices);
          const firing = world.open.find((one) => groupOf(one.labels) === group && one.state === "firing");
          expect(firing?.severity ?? null).toBe(model.open);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("a muted alert sends no notification, and each alert's notifications are in order: begin, change or repeat, end", () => {
    fc.assert(
      fc.property(rule, looks, (own, seen) => {
        const world = new World([own]);
        let at = 0;
        let mutedUntil = 0;
        for (const { afterMs, a, b, mute } of seen) {
          at += afterMs;
          const before = new Map([...world.alerts].map(([id, { mutedUntil }]) => [id, mutedUntil ?? 0]));
          const heard = world.notices.length;
          world.look(at, { a, b });
          const wrong = world.notices.slice(heard).find(({ id }) => (before.get(id) ?? 0) > at);
          if (wrong) throw new Error(`${wrong.id} was notified during its mute.`);
          if (mute === 0) {
            mutedUntil = at + 5 * MINUTE;
            world.mute(at, 5 * MINUTE);
          }
        }
        expect(mutedUntil).toBeGreaterThanOrEqual(0);
        for (const story of Map.groupBy(world.notices, ({ id }) => id).values()) {
          expect(story[0]?.change).toBe("firing");
          expect(story.slice(1).filter(({ change }) => change === "firing")).toEqual([]);
          expect(story.slice(0, -1).filter(({ change }) => change === "resolved")).toEqual([]);
          story.forEach(({ at: when, change }, index) => {
            if (change === "repeated") expect(when - (story[index - 1]?.at ?? 0)).toBeGreaterThanOrEqual(own.repeatMs);
          });
        }
      }),
      { numRuns: 60 },
    );
  });
});
