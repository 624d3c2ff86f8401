import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf, type Retention } from "millrace/worker";
import { describe, expect, it, vi } from "vitest";
import { pruneObjects } from "../../../packages/millrace/src/keeper/prune-objects.ts";
import { sweep } from "../../../packages/millrace/src/keeper/sweep.ts";
import { isSlow } from "../../until.ts";
import { dieAt, fresh, happened, probeEnv, reaches, retentionPass, rows, start, statusOf, until } from "../harness.ts";
import { age, count, DAY_MS, daysAgo, ENGINE_RETENTION, failing, letter, rowOf, run } from "./aged.ts";

describe("R2 objects", () => {
  /** A retention pass that treats all objects written before now as old. */
  async function pass(): Promise<{ slices: number; removed: number }> {
    let removed = 0;
    let from: string | null = null;
    for (let slices = 1; ; slices++) {
      const slice = await pruneObjects(probeEnv, -1000, from);
      removed += slice.removed;
      from = slice.next;
      if (from === null) return { slices, removed };
    }
  }
  const put = (key: string) => env.PAYLOADS.put(key, "1");
  const there = async (key: string) => (await env.PAYLOADS.head(key)) !== null;

  it("payloads and outputs in R2 are deleted after their instance, and not before", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "read", name: "look", output: 200_000 },
      { do: "keyed", name: "act", output: 200_000 },
    ]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const orphan = `outputs/acme/${instanceId}/orphan-of-a-lost-race`;
    const stranger = `outputs/acme/${"e".repeat(32)}/x`;
    await put(orphan);
    await put(stranger);
    await pass();
    const mine = async () => (await env.PAYLOADS.list({ prefix: `outputs/acme/${instanceId}/` })).objects.length;
    expect(await mine()).toBe(3);
    expect(await there(stranger)).toBe(false);
    await age(instanceId, 31);
    await retentionPass();
    await pass();
    expect(await mine()).toBe(0);
  });

  it("payloads in R2 are kept while an instance, a stored event, an outbox message or an open dead letter refers to them", async () => {
    const path = (what: string) => `payloads/acme/${fresh(what)}/${"a".repeat(64)}`;
    const [instance, signal, outbox, open, settled, nobody] = ["i", "s", "o", "d", "r", "n"].map(path) as [
      string,
      string,
      string,
      string,
      string,
      string,
    ];
    for (const key of [instance, signal, outbox, open, settled, nobody]) await put(key);
    const body = (key: string) => JSON.stringify({ payload_ref: `r2://${key}` });
    const row = await rowOf("errored", 1);
    await run("UPDATE millrace_instances SET envelope = ?2 WHERE id = ?1", row, body(instance));
    await run(
      "INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at) VALUES (?1, 'acme', 't', 's', ?2, ?3)",
      fresh(),
      body(signal),
      Date.now(),
    );
    await run("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'q', ?2, ?3)", fresh(), body(outbox), Date.now() + DAY_MS);
    await run("UPDATE millrace_dead_letters SET body = ?2 WHERE id = ?1", await letter("open", 1), body(open));
    await run("UPDATE millrace_dead_letters SET body = ?2 WHERE id = ?1", await letter("replayed", 1), body(settled));
    await run("UPDATE millrace_dead_letters SET body = ?2 WHERE id = ?1", await letter("open", 1), JSON.stringify("r2:// in a text"));
    await run(
      "INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'q', '{r2:// and no JSON', ?2)",
      fresh(),
      Date.now() + DAY_MS,
    );
    await pass();
    expect(await Promise.all([instance, signal, outbox, open, settled, nobody].map(there))).toEqual([true, true, true, true, false, false]);
    await run("DELETE FROM millrace_outbox");
  });

  it("young payloads in R2 and other objects of the bucket are kept", async () => {
    const [young, foreign] = [`payloads/acme/${fresh()}/x`, `manifests/${fresh()}`];
    await put(young);
    await put(foreign);
    await retentionPass();
    expect(await there(young)).toBe(true);
    await pass();
    expect([await there(young), await there(foreign)]).toEqual([false, true]);
  });

  it("payloads in R2 are scanned in consecutive slices of 1,000", async () => {
    const keys = Array.from({ length: 1100 }, (_, index) => `payloads/bulk/${String(index).padStart(5, "0")}/x`);
    for (let at = 0; at < keys.length; at += 50) await Promise.all(keys.slice(at, at + 50).map(put));
    const first = await pruneObjects(probeEnv, DAY_MS, "payloads/");
    const reached = keys.indexOf(first.next ?? "");
    // Objects of other tests may precede these objects.
    expect([first.removed, reached > 500]).toEqual([0, true]);
    expect(await pruneObjects(probeEnv, -1000, first.next)).toEqual({ removed: keys.length - 1 - reached, next: null });
    expect([await there(keys[reached] ?? ""), await there(keys[reached + 1] ?? "")]).toEqual([true, false]);
    expect((await pass()).removed).toBeGreaterThanOrEqual(reached + 1);
  });

  it("the references to payloads in R2 are found by an index, without a read of all instances", async () => {
    const plan = await rows<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT r.value FROM json_each('[]') r WHERE EXISTS (SELECT 1 FROM millrace_instances WHERE envelope->>'payload_ref' = r.value)",
    );
    expect(plan.map(({ detail }) => detail).join()).toContain("instances_by_payload");
  });
});

describe("Retention sweep", () => {
  const asked: Record<string, (string | null)[]> = {};
  /** A rule with this action. It queries the database first, because Date.now() changes only after I/O. */
  function rule(name: string, answer: Retention["prune"]): Retention {
    return {
      name,
      keepDays: 1,
      async prune(own, keepMs, from) {
        asked[name] = [...(asked[name] ?? []), from];
        await rows("SELECT 1");
        return answer(own, keepMs, from);
      },
    };
  }
  const sweepOf = (...rules: Retention[]) =>
    runInDurableObject(keeperOf(probeEnv), (_, { storage }) => sweep(storage, probeEnv as never, rules));

  it("the retention sweep runs the other rules when one rule fails, and later continues that rule from its position", async () => {
    const [broken, sound] = [fresh("broken"), fresh("sound")];
    const fails = rule(broken, async (_, __, from) => {
      if (from !== null) throw new Error("no");
      return { removed: 1, next: "half" };
    });
    const works = rule(sound, async () => (asked[sound]?.length === 1 ? 5 : 0));
    expect(await failing(() => sweepOf(fails, works))).toBe(6);
    expect(await sweepOf(fails, works)).toBe(0);
    expect(asked[broken]).toEqual([null, "half"]);
    await overdue();
    await failing(() => sweepOf(fails, works));
    expect(asked[broken]).toEqual([null, "half", "half"]);
  });

  it("the retention sweep interrupts an endless rule, and runs the other rules first in the next round", async () => {
    const [endless, patient] = [fresh("endless"), fresh("patient")];
    const never = rule(endless, async (_, __, from) => ({ removed: 0, next: String(Number(from ?? 0) + 1) }));
    await sweepOf(never);
    const slices = asked[endless]?.length ?? 0;
    expect(slices).toBeGreaterThan(0);
    expect(slices).toBeLessThanOrEqual(100);
    const order: string[] = [];
    const next = rule(patient, async () => order.push("patient") && 0);
    const traced = rule(endless, async (_, __, from) => {
      order.push("endless");
      return { removed: 0, next: from };
    });
    await sweepOf(traced, next);
    expect(order[0]).toBe("patient");
    expect(asked[endless]?.[slices]).toBe(String(slices));
  });

  it("the retention sweep takes at most two seconds of a keeper round, and continues in the next round", async () => {
    const [slow, later] = [fresh("slow"), fresh("later")];
    let clock = Date.now();
    const time = vi.spyOn(Date, "now").mockImplementation(() => clock);
    const drags = rule(slow, async (_, __, from) => {
      clock += 1500;
      return { removed: 1, next: String(Number(from ?? 0) + 1) };
    });
    const behind = rule(later, async () => 0);
    try {
      expect(await sweepOf(drags, behind)).toBe(2);
      expect([asked[slow], asked[later]]).toEqual([[null, "1"], undefined]);
      expect(await sweepOf(drags, behind)).toBe(2);
      expect([asked[slow], asked[later]]).toEqual([[null, "1", "2", "3"], [null]]);
    } finally {
      time.mockRestore();
    }
  });

  it("a retention rule runs once an hour or at its own interval, and writes nothing when it finds nothing", async () => {
    const [hourly, daily] = [fresh("hourly"), fresh("daily")];
    const rules = [rule(hourly, async () => 0), { ...rule(daily, async () => 0), everyHours: 24 }];
    await sweepOf(...rules);
    await sweepOf(...rules);
    expect([asked[hourly]?.length, asked[daily]?.length]).toEqual([1, 1]);
    await overdue(3_600_000);
    await sweepOf(...rules);
    expect([asked[hourly]?.length, asked[daily]?.length]).toEqual([2, 1]);

    // Rows of other tests may need several sweeps.
    const removed = () => overdue().then(() => sweepOf(...ENGINE_RETENTION));
    await until(removed, (count) => count === 0);
    await overdue();
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    expect(await sweepOf(...ENGINE_RETENTION)).toBe(0);
    const answers = (await Promise.all(batch.mock.results.map(({ value }) => value as Promise<D1Result[]>))).flat();
    batch.mockRestore();
    expect(answers.length).toBeGreaterThanOrEqual(ENGINE_RETENTION.length - 1);
    expect(answers.map(({ meta }) => meta.rows_written)).toEqual(answers.map(() => 0));
  });

  it("the retention sweep logs the number of deleted rows of each rule in one line", async () => {
    await retentionPass();
    await letter("replayed", 31);
    const log = vi.spyOn(console, "log");
    await retentionPass();
    const lines = log.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('"dead letters settled":'));
    log.mockRestore();
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        log: "retention",
        level: "info",
        removed: expect.objectContaining({ "dead letters settled": 1 }),
        // A slow platform needs several rounds, and so a round ends before some rules.
        unfinished: isSlow ? expect.any(Array) : [],
        ms: expect.any(Number),
      },
    ]);
  });

  /** Makes the rules due earlier by this duration. */
  const overdue = (ms = 30 * DAY_MS) =>
    runInDurableObject(keeperOf(probeEnv), async (_, { storage }) => {
      const turns = (await storage.get<Record<string, { dueAt: number }>>("retention")) ?? {};
      for (const turn of Object.values(turns)) turn.dueAt -= ms;
      await storage.put("retention", turns);
    });
});

it("an instance is unchanged after its deletion failed in the middle, and is deleted by the next retention scan", async () => {
  const id = await rowOf("complete", 31);
  await run("CREATE TRIGGER refuse BEFORE DELETE ON millrace_inbox BEGIN SELECT RAISE(ABORT, 'no'); END");
  await failing(() => retentionPass());
  expect([
    await statusOf(id),
    await count("millrace_inbox", "instance_id = ?1", id),
    await count("millrace_tombstones", "id = unhex(?1)", id),
  ]).toEqual(["complete", 1, 0]);
  await run("DROP TRIGGER refuse");
  await retentionPass();
  expect([
    await statusOf(id),
    await count("millrace_inbox", "instance_id = ?1", id),
    await count("millrace_tombstones", "id = unhex(?1)", id),
  ]).toEqual([undefined, 0, 1]);
});

it("an accepted command that was never sent is started at any age, and not deleted by retention", async () => {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "keyed", name: "act" }]).catch(() => undefined);
  await run("UPDATE millrace_instances SET accepted_at = ?2, updated_at = ?2, check_at = 0 WHERE subject = ?1", name, daysAgo(500));
  await retentionPass();
  const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
  expect(await happened(`${name}/act`)).toHaveLength(1);
});
