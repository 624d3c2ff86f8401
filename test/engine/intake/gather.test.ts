import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Accepted, MillraceError } from "millrace";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { actOnWork } from "../../../packages/millrace/src/operate/pause-work.ts";
import { acceptGathered, Gatherer } from "../../../packages/millrace/src/recorder/gather.ts";
import { deathAt } from "../../../packages/millrace/src/testing/crashes.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, fresh, happened, keeperRound, pauseAt, probeEnv, reaches, rows, start, statusOf, until } from "../harness.ts";

const charge = [{ do: "keyed", name: "charge" }] as const;
const gatherer = () => probeEnv.RECORDER.getByName("gatherer-0");
const prototype = Object.getPrototypeOf(env.DB) as D1Database;
const { batch } = prototype;

afterEach(() => {
  prototype.batch = batch;
});

/** Counts the D1 batches that insert commands. */
function countWrites(): { count: number } {
  const writes = { count: 0 };
  prototype.batch = function <T>(this: D1Database, statements: D1PreparedStatement[]) {
    if (statements.some((one) => JSON.stringify(one).includes("INTO millrace_instances"))) writes.count++;
    return batch.call(this, statements) as Promise<D1Result<T>[]>;
  };
  return writes;
}

const startAll = (names: readonly string[]) => Promise.all(names.map((name) => start(name, [...charge])));
const turnOf = (key: string) => ({ type: "turn.blocked", payload: { key, name: "one" } });
const names = (count: number) => Array.from({ length: count }, () => fresh());

/** Commands without the fields that the database requires. */
function arrivalsOf(count: number, padding = ""): { id: string; row: string }[] {
  return Array.from({ length: count }, (_, nth) => ({ id: String(nth), row: JSON.stringify({ id: String(nth), padding }) }));
}

const rowsOf = (arrivals: readonly { row: string }[]) => arrivals.map(({ row }) => row).join(",");

async function eachRanOnce(all: readonly string[], accepted: readonly { instanceId: string }[]): Promise<void> {
  for (const { instanceId } of accepted) expect(await reaches(instanceId, "complete")).toBe("complete");
  for (const name of all) expect(await happened(`${name}/charge`)).toHaveLength(1);
}

describe("Concurrent commands", () => {
  it("A04 thirty concurrent commands need at most five D1 batches, and each command runs once", async () => {
    const all = names(30);
    const writes = countWrites();
    const accepted = await startAll(all);
    expect(writes.count).toBeGreaterThan(0);
    expect(writes.count).toBeLessThanOrEqual(5);
    expect(accepted.map(({ replayed, status }) => ({ replayed, status }))).toEqual(
      all.map(() => ({ replayed: false, status: "accepted" })),
    );
    await eachRanOnce(all, accepted);
  });

  it("A06 of concurrent requests with one key one is new; a request with another payload is refused alone", async () => {
    const name = fresh();
    const [others, same, [conflict]] = await Promise.all([
      startAll(names(5)),
      startAll(Array.from({ length: 10 }, () => name)),
      Promise.allSettled([start(name, [{ do: "keyed", name: "other" }])]),
    ]);
    expect(others.every(({ replayed }) => !replayed)).toBe(true);
    expect(same.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(conflict).toMatchObject({ status: "rejected", reason: { code: "idempotency_key_reused" } });
    await eachRanOnce([name], same);
  });

  it("A07 concurrent requests of two tenants with one key become two instances", async () => {
    const name = fresh();
    const asked = { type: "probe.requested", payload: { name, steps: [...charge] } };
    const answers = await Promise.all(
      ["acme", "globex", "acme", "globex"].map((tenantId) => acceptCommands(probeEnv, app, { tenantId, source: "test" }, [asked])),
    );
    const accepted = answers.flat().filter((one): one is Accepted => !(one instanceof MillraceError));
    expect(new Set(accepted.map(({ instanceId }) => instanceId)).size).toBe(2);
    expect(accepted.map(({ replayed }) => replayed)).toEqual([false, false, true, true]);
    for (const { instanceId } of accepted) expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("concurrent commands of a paused workflow are accepted and held, and each runs once after the resume", async () => {
    const by = { tenantId: fresh("tenant"), actor: "tess", scopes: ["operate"] as never };
    const work = { kind: "workflow", name: "probe", allTenants: false } as const;
    await actOnWork(probeEnv, app, by, "pause", work, { reason: "closed" });
    const all = names(6);
    const answers = await Promise.all(
      all.map((name) =>
        acceptCommands(probeEnv, app, { ...by, source: "test" }, [{ type: "probe.requested", payload: { name, steps: [...charge] } }]),
      ),
    );
    const accepted = answers.flat().filter((one): one is Accepted => !(one instanceof MillraceError));
    expect(accepted).toHaveLength(all.length);
    await keeperRound();
    for (const { instanceId } of accepted) expect(await statusOf(instanceId)).toBe("accepted");
    await actOnWork(probeEnv, app, by, "resume", work, { reason: "open" });
    await keeperRound();
    await eachRanOnce(all, accepted);
  });

  it("a command with a statement that D1 refuses is refused alone", async () => {
    const all = names(5);
    prototype.batch = function <T>(this: D1Database, statements: D1PreparedStatement[]) {
      if (JSON.stringify(statements).includes("poison")) throw new Error("D1_ERROR: malformed JSON: SQLITE_ERROR");
      return batch.call(this, statements) as Promise<D1Result<T>[]>;
    };
    const [accepted, [poisoned]] = await Promise.all([startAll(all), Promise.allSettled([start(`poison-${fresh()}`, [...charge])])]);
    expect(poisoned?.status).toBe("rejected");
    await eachRanOnce(all, accepted);
  });

  it("callers get `unavailable` when the database fails, and their repeats are accepted", async () => {
    const all = names(5);
    prototype.batch = async () => {
      throw new Error("D1_ERROR: D1 DB is overloaded. Requests queued for too long.");
    };
    const failed = await Promise.allSettled(all.map((name) => start(name, [...charge])));
    expect(failed.map((one) => one.status === "rejected" && one.reason.code)).toEqual(all.map(() => "unavailable"));
    prototype.batch = batch;
    await eachRanOnce(all, await startAll(all));
  });

  it.each([1, 6])("A02 after a lost answer of D1, %i new commands are answered as new and enqueued without the keeper", async (count) => {
    const all = names(count);
    const lost = new Set(all);
    prototype.batch = async function <T>(this: D1Database, statements: D1PreparedStatement[]) {
      const answer = (await batch.call(this, statements)) as D1Result<T>[];
      const text = JSON.stringify(statements);
      const found = text.includes("INTO millrace_instances") ? [...lost].filter((name) => text.includes(name)) : [];
      for (const name of found) lost.delete(name);
      if (found.length > 0) throw new Error("D1_ERROR: Network connection lost.");
      return answer;
    };
    const accepted = await startAll(all);
    expect(lost.size).toBe(0);
    expect(accepted.map(({ replayed }) => replayed)).toEqual(all.map(() => false));
    await eachRanOnce(all, accepted);
    // A message without a proof counts as another delivery. The keeper's start does not.
    for (const { instanceId } of accepted)
      expect(await rows("SELECT deliveries FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([{ deliveries: 2 }]);
    prototype.batch = batch;
    expect((await startAll(all)).map(({ replayed }) => replayed)).toEqual(all.map(() => true));
  });

  it("a caller does not wait for the queue of another caller's commands", async () => {
    const all = names(4);
    const queues = Object.getPrototypeOf(probeEnv.PROBE_COMMANDS) as Queue;
    const { sendBatch } = queues;
    onTestFinished(() => {
      queues.sendBatch = sendBatch;
    });
    const hangs = fresh("hangs");
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    queues.sendBatch = async function (this: Queue, ...given) {
      if (JSON.stringify(given[0]).includes(hangs)) await released;
      return sendBatch.apply(this, given);
    };
    const held = pauseAt("A11 commands gathered, not committed");
    const first = startAll(all.slice(0, 2));
    expect(await until(async () => held.reached(), Boolean)).toBe(true);
    const slow = start(hangs, [...charge]);
    const quick = all.slice(2).map((key) => acceptCommands(probeEnv, app, { tenantId: "acme", source: "test" }, [turnOf(key)]));
    held.release();
    expect((await Promise.all(quick)).flat()).toEqual([
      expect.objectContaining({ replayed: false }),
      expect.objectContaining({ replayed: false }),
    ]);
    expect(await Promise.race([slow, "waits"])).toBe("waits");
    release();
    await eachRanOnce([...all.slice(0, 2), hangs], [...(await first), await slow]);
  });

  it("a command of a tenant that lives in another cell is refused alone", async () => {
    const [all, tenantId] = [names(12), fresh("left").toLowerCase()];
    await probeEnv.DB.prepare("INSERT INTO millrace_moved (tenant_id, cell) VALUES (?, 2)").bind(tenantId).run();
    const request = { type: "probe.requested", payload: { name: fresh(), steps: [] } };
    const by = { tenantId, source: "a test" };
    const [first, ...others] = all.map((name) => start(name, [...charge]));
    const refusal = { code: "unavailable", message: expect.stringContaining("lives in another cell") };
    await expect(acceptCommands(probeEnv, app, by, [request])).rejects.toMatchObject(refusal);
    await eachRanOnce(all, await Promise.all([first, ...others] as Promise<Accepted>[]));
  });

  it("A04 commands that reach a gatherer together are committed by one D1 batch, also if no batch is in progress", async () => {
    const writes = countWrites();
    const gatherer = new Gatherer(probeEnv);
    // D1 refuses these rows, so that no message is sent.
    const answers = await Promise.all(arrivalsOf(3).map(({ row }) => gatherer.accept(row)));
    expect({ answers, writes: writes.count }).toEqual({ answers: [null, null, null], writes: 1 });
  });

  it("commands beyond the bounds of a gatherer are not gathered", async () => {
    const never = { batch: () => new Promise(() => {}), prepare: () => ({ bind: () => ({}) }) };
    const full = new Gatherer({ ...probeEnv, DB: never as unknown as D1Database });
    const rows = rowsOf(arrivalsOf(1000));
    for (let time = 0; time < 3; time++) full.accept(rows).catch(() => undefined);
    expect(await full.accept(rows)).toBeNull();
  });

  it.each([[arrivalsOf(201)], [arrivalsOf(6, "r".repeat(100_000))]])(
    "commands that fill a group alone are not sent to a gatherer",
    async (all) => {
      const sent: unknown[] = [];
      const object = { accept: async (commands: unknown) => void sent.push(commands) };
      const RECORDER = { idFromName: () => "gatherer-0", get: () => object } as unknown as DurableObjectNamespace;
      expect(await acceptGathered({ ...probeEnv, RECORDER }, all)).toEqual({ isUnclear: false });
      expect(sent).toEqual([]);
    },
  );
});

const POINTS = [
  "A11 commands gathered, not committed",
  "A12 gathered commands committed, not enqueued",
  "A13 gathered commands enqueued, not answered",
] as const;

describe("A gatherer that ends", () => {
  // After a failure, the callers of an isolate avoid the gatherer for a second.
  afterEach(() => scheduler.wait(1100));

  it.each(POINTS)("A11 A12 A13 if a gatherer dies at %s, its callers write their commands, and each command runs once", async (point) => {
    const all = names(6);
    const death = dieAt(point);
    const accepted = await startAll(all);
    expect(death.died()).toBe(true);
    expect(accepted.map(({ replayed }) => replayed)).toEqual(all.map(() => false));
    await eachRanOnce(all, accepted);
  });

  it.each(POINTS)(
    "A11 A12 A13 if a gatherer is killed at %s, its callers write their commands, and each command runs once",
    async (point) => {
      const all = names(6);
      const held = pauseAt(point);
      const accepting = startAll(all);
      expect(await until(async () => held.reached(), Boolean)).toBe(true);
      await runInDurableObject(gatherer(), (_, state) => state.abort("It died.")).catch(() => undefined);
      const accepted = await accepting;
      held.release();
      expect(accepted.map(({ replayed }) => replayed)).toEqual(all.map(() => false));
      await eachRanOnce(all, accepted);
    },
  );

  it("A06 A12 if a gatherer dies after the commit, one of two concurrent requests with one key is new", async () => {
    const [name, ...others] = [fresh(), ...names(3)];
    let deaths = 0;
    globalThis.millraceCrashPoint = (point) => {
      if (!point.startsWith("A12")) return;
      deaths++;
      throw deathAt(point);
    };
    const [accepted, ...same] = await Promise.all([
      startAll(others),
      ...["first", "second"].map((correlationId) => start(name, [...charge], { correlationId })),
    ]);
    globalThis.millraceCrashPoint = undefined;
    expect(deaths).toBeGreaterThan(0);
    expect(accepted.map(({ replayed }) => replayed)).toEqual(others.map(() => false));
    expect(same.map(({ replayed, correlationId }) => ({ replayed, correlationId }))).toEqual([
      { replayed: false, correlationId: "first" },
      { replayed: true, correlationId: "first" },
    ]);
    await eachRanOnce([name, ...others], [...accepted, ...same]);
  });

  it("A03 A12 the keeper starts gathered commands if the gatherer and its callers die after the commit", async () => {
    const all = names(4);
    globalThis.millraceCrashPoint = (point) => {
      if (point.startsWith("A12") || point.startsWith("A03")) throw deathAt(point);
    };
    const answers = await Promise.allSettled(all.map((name) => start(name, [...charge])));
    globalThis.millraceCrashPoint = undefined;
    expect(answers.map(({ status }) => status)).toEqual(all.map(() => "rejected"));
    await keeperRound();
    const found = await rows<{ instanceId: string }>(
      "SELECT id AS instanceId FROM millrace_instances WHERE subject IN (SELECT value FROM json_each(?1))",
      JSON.stringify(all),
    );
    expect(found).toHaveLength(all.length);
    await eachRanOnce(all, found);
  });
});
