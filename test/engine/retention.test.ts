import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { mintToken, replayDeadLetter, retryInstance, SCOPES } from "millrace/operate";
import { keeperOf, type Retention } from "millrace/worker";
import { describe, expect, it, vi } from "vitest";
import { pruneObjects } from "../../src/engine/keeper/prune-objects.ts";
import { engineRetention } from "../../src/engine/keeper/retention.ts";
import { sweep } from "../../src/engine/keeper/sweep.ts";
import { app } from "../probe/worker.ts";
import {
  behave,
  deliver,
  dieAt,
  envelopeOf,
  event,
  fresh,
  happened,
  oldFirst,
  operator,
  probeEnv,
  reaches,
  retentionPass,
  rows,
  start,
  statusOf,
} from "./harness.ts";

const ENGINE_RETENTION = engineRetention(app);
const reader = { ...operator, scopes: SCOPES };
const DAY_MS = 86_400_000;
const daysAgo = (days: number) => Date.now() - days * DAY_MS;

async function run(sql: string, ...params: unknown[]): Promise<void> {
  await env.DB.prepare(sql)
    .bind(...params)
    .run();
}

/** Makes an instance look as if nothing had happened to it for so long. */
const age = (id: string, days: number) =>
  run("UPDATE instances SET accepted_at = ?2, updated_at = ?2, check_at = NULL WHERE id = ?1", id, daysAgo(days));

const count = async (table: string, where: string, ...params: unknown[]) =>
  (await rows<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE ${where}`, ...params))[0]?.n;

/** An instance that nothing was ever started for, as a row of so many days ago. */
async function rowOf(status: string, days: number, subject = fresh(status)): Promise<string> {
  const id = crypto.randomUUID().replaceAll("-", "");
  await run(
    `INSERT INTO instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     VALUES (?1, 'acme', 'probe', 'probe.requested', ?2, 'c', 'c', ?2, 'ff', '{}', ?3, ?4, ?4)`,
    id,
    subject,
    status,
    daysAgo(days),
  );
  await run(
    `INSERT INTO inbox (instance_id, step, position, class, state, epoch, token, updated_at) VALUES (?1, 's', 0, 'keyed', 'done', 1, 't', 0)`,
    id,
  );
  return id;
}

/** One slice of a rule alone, without the repairs of a whole round. */
function slice(name: string, from: string | null = null): ReturnType<Retention["prune"]> | undefined {
  const rule = ENGINE_RETENTION.find((one) => one.name === name);
  return rule?.prune(probeEnv, rule.keepDays * DAY_MS, from);
}
const pruneFailed = async () => {
  await oldFirst();
  return slice("instances failed");
};

async function letter(state: string, days: number, instanceId: string | null = null): Promise<string> {
  const id = crypto.randomUUID();
  await run(
    `INSERT INTO dead_letters (id, tenant_id, queue, instance_id, body, reason, attempts, first_at, captured_at, state, settled_at)
     VALUES (?1, 'acme', 'probe-commands', ?2, '{}', 'exhausted', 3, ?3, ?3, ?4, iif(?4 = 'open', NULL, ?3))`,
    id,
    instanceId,
    daysAgo(days),
    state,
  );
  return id;
}

describe("Instances", () => {
  it.each(["complete", "terminated", "skipped"])("%s leave after 30 days, with their entries, and a tombstone stays", async (status) => {
    const old = await rowOf(status, 31);
    const young = await rowOf(status, 29);
    await retentionPass();
    expect(await statusOf(old)).toBeUndefined();
    expect(await count("inbox", "instance_id = ?1", old)).toBe(0);
    expect(await count("tombstones", "id = unhex(?1)", old)).toBe(1);
    expect(await statusOf(young)).toBe(status);
    expect(await count("inbox", "instance_id = ?1", young)).toBe(1);
    expect(await count("tombstones", "id = unhex(?1)", young)).toBe(0);
  });

  it.each(["errored", "dead"])("%s that nobody looked after leave after 90 days", async (status) => {
    const old = await rowOf(status, 91);
    const young = await rowOf(status, 89);
    await retentionPass();
    expect(await statusOf(old)).toBeUndefined();
    expect(await count("tombstones", "id = unhex(?1)", old)).toBe(1);
    expect(await statusOf(young)).toBe(status);
  });

  it("a command that never started leaves together with its letter, neither before the other", async () => {
    const old = await rowOf("dead", 91);
    const [mine, others] = [await letter("open", 91, old), await letter("open", 89, old)];
    const waiting = await rowOf("dead", 89);
    const waitingLetter = await letter("open", 91, waiting);
    await retentionPass();
    expect(await statusOf(old)).toBeUndefined();
    expect(await rows("SELECT id FROM dead_letters WHERE id IN (?1, ?2, ?3) ORDER BY id", mine, others, waitingLetter)).toEqual(
      [others, waitingLetter].sort().map((id) => ({ id })),
    );
  });

  it("a letter about a key's other payload does not leave with the instance that has the key", async () => {
    const ended = await rowOf("complete", 31);
    const other = await letter("open", 40, ended);
    await retentionPass();
    expect(await statusOf(ended)).toBeUndefined();
    expect(await count("dead_letters", "id = ?1", other)).toBe(1);
  });

  it.each(["accepted", "queued", "running", "waiting", "paused", "in_doubt"])("%s stay, however old", async (status) => {
    const open = await rowOf(status, 4000);
    await retentionPass();
    expect(await statusOf(open)).toBe(status);
    expect(await count("inbox", "instance_id = ?1", open)).toBe(1);
  });

  it("one that ended lately stays, however long ago it began; and it does not hide the old ones behind it", async () => {
    const began = await rowOf("complete", 500);
    await run("UPDATE instances SET updated_at = ?2 WHERE id = ?1", began, daysAgo(1));
    const old = await rowOf("complete", 400);
    await retentionPass();
    expect(await statusOf(began)).toBe("complete");
    expect(await statusOf(old)).toBeUndefined();
  });

  it("one with an action that the platform has not heard of yet is left alone until it has", async () => {
    const id = await rowOf("errored", 100);
    await run(
      `INSERT INTO actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at) VALUES (?1, 'acme', 'tess', 'retry', ?2, ?2, 'r', 'applied', 0)`,
      fresh("action"),
      id,
    );
    await pruneFailed();
    expect(await statusOf(id)).toBe("errored");
    await run("UPDATE actions SET applied_at = ?2 WHERE instance_id = ?1", id, Date.now());
    await pruneFailed();
    expect(await statusOf(id)).toBeUndefined();
  });

  it("one with an effect whose outcome nobody knows is left alone until a person has answered", async () => {
    const id = await rowOf("errored", 100);
    await run("UPDATE inbox SET state = 'in_doubt' WHERE instance_id = ?1", id);
    await retentionPass();
    expect(await statusOf(id)).toBe("errored");
    await run("UPDATE inbox SET state = 'failed' WHERE instance_id = ?1", id);
    await retentionPass();
    expect(await statusOf(id)).toBeUndefined();
  });

  it("one that an operator retries in the moment it would leave stays whole", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 400, times: 1 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", retries: 0 }]);
    await reaches(instanceId, "errored");
    await age(instanceId, 91);
    const retry = () => retryInstance(probeEnv, operator, instanceId, { reason: "just in time" });
    expect(await justBefore("INSERT INTO tombstones", retry, pruneFailed)).toEqual({ removed: 0, next: null });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await count("tombstones", "id = unhex(?1)", instanceId)).toBe(0);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("a pass ends at the first young one: it does not read what is young", async () => {
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
       INSERT INTO instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT printf('f%031d', i), 'young', 'probe', 'probe.requested', i, 'c', 'c', 's', 'ff', '{}', 'complete', ?1, ?1 FROM n`,
      Date.now(),
    );
    await retentionPass();
    expect(await slice("instances ended")).toEqual({ removed: 0, next: null });
    await run("DELETE FROM instances WHERE tenant_id = 'young'");
  });

  it("10,000 old ones go in bounded slices, and the young one behind them stays", async () => {
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
       INSERT INTO instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT printf('%032d', i), 'bulk', 'probe', 'probe.requested', i, 'c', 'c', 's', 'ff', '{}', 'complete', i, i FROM n`,
    );
    await run(
      `INSERT INTO inbox (instance_id, step, position, class, state, epoch, token, updated_at) SELECT id, 's', 0, 'keyed', 'done', 1, 't', 0 FROM instances WHERE tenant_id = 'bulk'`,
    );
    const young = await rowOf("complete", 1);
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    await retentionPass();
    const removals = batch.mock.calls.filter(([statements]) => JSON.stringify(statements).includes("INSERT INTO tombstones"));
    batch.mockRestore();
    expect(await count("instances", "tenant_id = 'bulk'")).toBe(0);
    expect(await count("inbox", "instance_id LIKE '0000000000000000%'")).toBe(0);
    expect(await count("tombstones", "hex(id) LIKE '0000000000000000%'")).toBe(10_000);
    expect(await statusOf(young)).toBe("complete");
    expect(removals.length).toBeGreaterThanOrEqual(40);
  });
});

describe("A key whose instance was pruned", () => {
  const charge = [{ do: "keyed", name: "charge" }] as const;

  async function pruned() {
    const name = fresh();
    const { instanceId } = await start(name, [...charge]);
    await reaches(instanceId, "complete");
    const envelope = await envelopeOf(instanceId);
    await age(instanceId, 31);
    await retentionPass();
    expect(await statusOf(instanceId)).toBeUndefined();
    return { name, instanceId, envelope };
  }

  it("is answered as replayed when it is asked for again, and nothing runs", async () => {
    const { name, instanceId } = await pruned();
    expect(await start(name, [...charge])).toMatchObject({ instanceId, replayed: true });
    await expect(start(name, [{ do: "keyed", name: "other" }])).rejects.toMatchObject({ code: "idempotency_key_reused" });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A08 is taken from its queue without a new run for 400 days more, and is forgotten then", async () => {
    const { name, instanceId, envelope } = await pruned();
    const prunedAgo = (days: number) =>
      run("UPDATE tombstones SET pruned_day = unixepoch() / 86400 - ?2 WHERE id = unhex(?1)", instanceId, days);
    await prunedAgo(399);
    await retentionPass();
    expect(await deliver("probe-commands", [envelope])).toEqual({ acked: 1, retried: 0 });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
    await prunedAgo(401);
    await retentionPass();
    expect(await count("tombstones", "id = unhex(?1)", instanceId)).toBe(0);
  });

  it("lets a dead letter be replayed to no effect, and says why", async () => {
    const { name, instanceId, envelope } = await pruned();
    const id = await letter("open", 1);
    await run("UPDATE dead_letters SET body = ?2 WHERE id = ?1", id, JSON.stringify(envelope));
    const answer = await replayDeadLetter(probeEnv, app, reader, id, { reason: "late" });
    expect(answer).toMatchObject({ sent: false, instanceId, why: expect.stringContaining("already pruned") });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });
});

describe("Dead letters", () => {
  it("settled ones leave after 30 days, open ones after 90", async () => {
    const gone = [await letter("replayed", 31), await letter("skipped", 31), await letter("open", 91)];
    const kept = [await letter("replayed", 29), await letter("skipped", 29), await letter("open", 89)];
    const late = await letter("replayed", 200);
    await run("UPDATE dead_letters SET settled_at = ?2 WHERE id = ?1", late, daysAgo(1));
    await retentionPass();
    const left = await rows<{ id: string }>("SELECT id FROM dead_letters WHERE queue = 'probe-commands' AND body = '{}'");
    const ids = left.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining([...kept, late]));
    for (const id of gone) expect(ids).not.toContain(id);
  });
});

describe("The outbox", () => {
  const put = (id: string, body: string, attempts: number, error: string | null) =>
    run(
      "INSERT INTO outbox (id, queue, body, attempts, error, due_at) VALUES (?1, 'no-such-queue', ?2, ?3, ?4, ?5)",
      id,
      body,
      attempts,
      error,
      Date.now() + DAY_MS,
    );

  it("gives a message up that no queue took for 14 days: it becomes a dead letter with its reason, and only then leaves", async () => {
    const [stuck, trying, unconfirmed, broken] = [fresh("stuck"), fresh("trying"), fresh("unconfirmed"), fresh("broken")];
    const message = event("probe.done", stuck, { name: stuck, step: "s" });
    await put(stuck, JSON.stringify(message), 2100, "NO_SUCH_QUEUE");
    await put(trying, "{}", 1900, "NO_SUCH_QUEUE");
    await put(unconfirmed, "{}", 9999, null);
    await put(broken, "{not json", 2100, "no JSON");
    await retentionPass();
    expect(await rows("SELECT id FROM outbox WHERE queue = 'no-such-queue' ORDER BY id")).toEqual(
      [trying, unconfirmed].sort().map((id) => ({ id })),
    );
    expect(
      await rows(
        "SELECT tenant_id, message_type, reason, error, attempts, state, body, first_at FROM dead_letters WHERE idempotency_key = ?1",
        message.idempotency_key,
      ),
    ).toEqual([
      {
        tenant_id: "acme",
        message_type: "probe.done",
        reason: "undeliverable",
        error: "NO_SUCH_QUEUE",
        attempts: 2100,
        state: "open",
        body: JSON.stringify(message),
        first_at: Date.parse(message.created_at),
      },
    ]);
    expect(await rows("SELECT tenant_id, body FROM dead_letters WHERE error = 'no JSON'")).toEqual([
      { tenant_id: null, body: JSON.stringify("{not json") },
    ]);
    await run("DELETE FROM outbox");
  });

  it("leaves a message alone that its queue takes in the moment it would be given up", async () => {
    const name = fresh("taken");
    await put(name, "{}", 2100, "NO_SUCH_QUEUE");
    const taken = () => run("UPDATE outbox SET error = NULL WHERE id = ?1", name);
    expect(await justBefore("INSERT INTO dead_letters", taken, async () => slice("outbox"))).toBe(0);
    expect(await count("outbox", "id = ?1", name)).toBe(1);
    await run("DELETE FROM outbox");
  });

  it("gives one up again that was replayed and is still not taken: its earlier letter does not swallow it", async () => {
    const name = fresh("again");
    const message = event("probe.done", name, { name, step: "s" });
    for (const body of [message, { ...message, replay: "the first time" }, { ...message, replay: "the second time" }].map((one) =>
      JSON.stringify(one),
    )) {
      await put(name, body, 2100, "NO_SUCH_QUEUE");
      await retentionPass();
      expect(await count("outbox", "id = ?1", name)).toBe(0);
      expect(await count("dead_letters", "body = ?1 AND state = 'open'", body)).toBe(1);
      await run("UPDATE dead_letters SET state = 'replayed', settled_at = ?2 WHERE body = ?1", body, Date.now());
    }
  });

  it("changes nothing when the write that captures fails: nothing leaves without a letter", async () => {
    const name = fresh("refused");
    await put(name, JSON.stringify(event("probe.done", name, {})), 2100, "NO_SUCH_QUEUE");
    await run("CREATE TRIGGER refuse BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'no'); END");
    await failing(() => retentionPass());
    expect(await count("outbox", "id = ?1", name)).toBe(1);
    expect(await count("dead_letters", "body LIKE ?1", `%${name}%`)).toBe(0);
    await run("DROP TRIGGER refuse");
    await retentionPass();
    expect(await count("dead_letters", "body LIKE ?1", `%${name}%`)).toBe(1);
  });
});

describe("Signals", () => {
  const tenant = () => fresh("t");
  async function signal(tenantId: string, days: number): Promise<string> {
    const id = fresh("signal");
    await run(
      "INSERT INTO signals (id, tenant_id, type, subject, envelope, received_at) VALUES (?1, ?2, 'probe.signal', 's', '{}', ?3)",
      id,
      tenantId,
      daysAgo(days),
    );
    return id;
  }
  const kept = (id: string) => count("signals", "id = ?1", id);
  async function instanceOf(tenantId: string, status: string, days: number): Promise<string> {
    const id = await rowOf(status, days);
    await run("UPDATE instances SET tenant_id = ?2, updated_at = ?3 WHERE id = ?1", id, tenantId, Date.now());
    return id;
  }

  it("leave after 30 days", async () => {
    const mine = tenant();
    const [old, young] = [await signal(mine, 31), await signal(mine, 29)];
    await instanceOf(mine, "running", 30);
    await retentionPass();
    expect([await kept(old), await kept(young)]).toEqual([0, 1]);
  });

  it.each(["accepted", "running", "waiting", "in_doubt", "errored", "terminated", "dead"])(
    "stay while an older instance that is %s could still take them, but not for another tenant's",
    async (status) => {
      const [mine, other] = [tenant(), tenant()];
      const [could, foreign] = [await signal(mine, 31), await signal(other, 31)];
      const instance = await instanceOf(mine, status, 32);
      await retentionPass();
      expect([await kept(could), await kept(foreign)]).toEqual([1, 0]);
      await run("UPDATE instances SET status = 'complete' WHERE id = ?1", instance);
      await retentionPass();
      expect(await kept(could)).toBe(0);
    },
  );

  it("leave after 400 days though a run of long ago is in doubt, unless a wait holds them", async () => {
    const mine = tenant();
    const [forgotten, held, young] = [await signal(mine, 401), await signal(mine, 401), await signal(mine, 399)];
    const instance = await instanceOf(mine, "in_doubt", 500);
    await run(
      `INSERT INTO waits (instance_id, name, workflow, tenant_id, type, subject, event_type, signal_id, since_at)
       VALUES (?1, 'w', 'probe', ?2, 'probe.signal', 's', 'e', ?3, 1)`,
      instance,
      mine,
      held,
    );
    await retentionPass();
    expect([await kept(forgotten), await kept(held), await kept(young)]).toEqual([0, 1, 1]);
  });

  it("stay when an instance comes to hold them in the moment they would leave", async () => {
    const mine = tenant();
    const old = await signal(mine, 31);
    const retried = () => instanceOf(mine, "running", 32);
    // Other tests may have left more than one slice walks.
    const beforeIt = old.slice(0, -1);
    await justBefore("DELETE FROM signals", retried, async () => slice("signals", beforeIt));
    expect(await kept(old)).toBe(1);
  });

  it("stay while a wait holds them, for as long as its instance is there", async () => {
    const mine = tenant();
    const [held, free] = [await signal(mine, 31), await signal(mine, 31)];
    const instance = await instanceOf(mine, "complete", 32);
    await run(
      "INSERT INTO waits (instance_id, name, workflow, tenant_id, type, subject, event_type, signal_id, since_at) VALUES (?1, 'w', 'probe', ?2, 'probe.signal', 's', 'e', ?3, 0)",
      instance,
      mine,
      held,
    );
    await retentionPass();
    expect([await kept(held), await kept(free)]).toEqual([1, 0]);
    await age(instance, 31);
    await retentionPass();
    expect([await kept(held), await count("waits", "instance_id = ?1", instance)]).toEqual([0, 0]);
  });
});

describe("The audit and the tokens", () => {
  it("actions leave after 400 days, but none that is not carried out", async () => {
    const act = (id: string, days: number, applied: boolean) =>
      run(
        `INSERT INTO actions (id, tenant_id, actor, verb, target, reason, result, at, applied_at) VALUES (?1, 'acme', 'tess', 'skip', 'x', 'r', 'applied', ?2, ?3)`,
        id,
        daysAgo(days),
        applied ? daysAgo(days) : null,
      );
    const [old, young, open] = [fresh(), fresh(), fresh()];
    await act(old, 401, true);
    await act(young, 399, true);
    await act(open, 401, false);
    await retentionPass();
    expect(await rows("SELECT id FROM actions WHERE target = 'x' ORDER BY id")).toEqual([young, open].sort().map((id) => ({ id })));
  });

  it("tokens leave 30 days after they expired; those that never do stay", async () => {
    const actor = fresh("actor");
    const mint = (expiresAt?: number) => mintToken(probeEnv, { tenantId: "acme", actor, scopes: ["read"], expiresAt });
    await mint(daysAgo(31));
    const kept = [await mint(daysAgo(29)), await mint()];
    await retentionPass();
    const ids = (await rows<{ id: string }>("SELECT id FROM tokens WHERE actor = ?1", actor)).map(({ id }) => id);
    expect(ids.sort()).toEqual(kept.map((token) => token.split("_")[1]).sort());
  });
});

describe("Payloads and outputs in R2", () => {
  /** One pass in which everything that was written before now is old. */
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

  it("an output goes when its instance has gone, and not before, whichever attempt wrote it", async () => {
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

  it("a payload stays while an instance, a kept event, an unconfirmed message or an open letter refers to it", async () => {
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
    await run("UPDATE instances SET envelope = ?2 WHERE id = ?1", row, body(instance));
    await run(
      "INSERT INTO signals (id, tenant_id, type, subject, envelope, received_at) VALUES (?1, 'acme', 't', 's', ?2, ?3)",
      fresh(),
      body(signal),
      Date.now(),
    );
    await run("INSERT INTO outbox (id, queue, body, due_at) VALUES (?1, 'q', ?2, ?3)", fresh(), body(outbox), Date.now() + DAY_MS);
    await run("UPDATE dead_letters SET body = ?2 WHERE id = ?1", await letter("open", 1), body(open));
    await run("UPDATE dead_letters SET body = ?2 WHERE id = ?1", await letter("replayed", 1), body(settled));
    await run("UPDATE dead_letters SET body = ?2 WHERE id = ?1", await letter("open", 1), JSON.stringify("r2:// in a text"));
    await run("INSERT INTO outbox (id, queue, body, due_at) VALUES (?1, 'q', '{r2:// and no JSON', ?2)", fresh(), Date.now() + DAY_MS);
    await pass();
    expect(await Promise.all([instance, signal, outbox, open, settled, nobody].map(there))).toEqual([true, true, true, true, false, false]);
    await run("DELETE FROM outbox");
  });

  it("young objects stay, and so does what others keep in the bucket", async () => {
    const [young, foreign] = [`payloads/acme/${fresh()}/x`, `manifests/${fresh()}`];
    await put(young);
    await put(foreign);
    await retentionPass();
    expect(await there(young)).toBe(true);
    await pass();
    expect([await there(young), await there(foreign)]).toEqual([false, true]);
  });

  it("goes through a large bucket in slices of 1,000, and each slice goes on behind the one before", async () => {
    const keys = Array.from({ length: 1100 }, (_, index) => `payloads/bulk/${String(index).padStart(5, "0")}/x`);
    for (let at = 0; at < keys.length; at += 50) await Promise.all(keys.slice(at, at + 50).map(put));
    const first = await pruneObjects(probeEnv, DAY_MS, "payloads/");
    const reached = keys.indexOf(first.next ?? "");
    // Other tests' objects may stand before these.
    expect([first.removed, reached > 500]).toEqual([0, true]);
    expect(await pruneObjects(probeEnv, -1000, first.next)).toEqual({ removed: keys.length - 1 - reached, next: null });
    expect([await there(keys[reached] ?? ""), await there(keys[reached + 1] ?? "")]).toEqual([true, false]);
    expect((await pass()).removed).toBeGreaterThanOrEqual(reached + 1);
  });

  it("finds who refers to a payload by an index, not by reading all instances", async () => {
    const plan = await rows<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT r.value FROM json_each('[]') r WHERE EXISTS (SELECT 1 FROM instances WHERE envelope->>'payload_ref' = r.value)",
    );
    expect(plan.map(({ detail }) => detail).join()).toContain("instances_by_payload");
  });
});

describe("A sweep", () => {
  const asked: Record<string, (string | null)[]> = {};
  /** A rule that does what it is told, after a look at the database: time passes only with one. */
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

  it("a rule that fails leaves the others their turn, and goes on later from where it stood", async () => {
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

  it("a rule without an end does not hold a round for ever, and the others come first in the next", async () => {
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

  it("spends two seconds of a round at most: the rest of a slow pass, and what comes behind it, goes on in the next", async () => {
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

  it("is due once an hour, or as often as the rule says, and a look that finds nothing writes nothing", async () => {
    const [hourly, daily] = [fresh("hourly"), fresh("daily")];
    const rules = [rule(hourly, async () => 0), { ...rule(daily, async () => 0), everyHours: 24 }];
    await sweepOf(...rules);
    await sweepOf(...rules);
    expect([asked[hourly]?.length, asked[daily]?.length]).toEqual([1, 1]);
    await overdue(3_600_000);
    await sweepOf(...rules);
    expect([asked[hourly]?.length, asked[daily]?.length]).toEqual([2, 1]);

    await retentionPass();
    await overdue();
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    expect(await sweepOf(...ENGINE_RETENTION)).toBe(0);
    const answers = (await Promise.all(batch.mock.results.map(({ value }) => value as Promise<D1Result[]>))).flat();
    batch.mockRestore();
    expect(answers.length).toBeGreaterThanOrEqual(ENGINE_RETENTION.length - 1);
    expect(answers.map(({ meta }) => meta.rows_written)).toEqual(answers.map(() => 0));
  });

  it("says what it removed in one log line, by names and numbers", async () => {
    await letter("replayed", 31);
    const log = vi.spyOn(console, "log");
    await retentionPass();
    const lines = log.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('"retention"'));
    log.mockRestore();
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { log: "retention", removed: { "dead letters settled": 1 }, unfinished: [], ms: expect.any(Number) },
    ]);
  });

  /** Makes rules look as if their last turn had been so long ago. */
  const overdue = (ms = 30 * DAY_MS) =>
    runInDurableObject(keeperOf(probeEnv), async (_, { storage }) => {
      const turns = (await storage.get<Record<string, { dueAt: number }>>("retention")) ?? {};
      for (const turn of Object.values(turns)) turn.dueAt -= ms;
      await storage.put("retention", turns);
    });
});

it("a pass after a death in the middle of a removal finds everything as it was", async () => {
  const id = await rowOf("complete", 31);
  await run("CREATE TRIGGER refuse BEFORE DELETE ON inbox BEGIN SELECT RAISE(ABORT, 'no'); END");
  await failing(() => retentionPass());
  expect([await statusOf(id), await count("inbox", "instance_id = ?1", id), await count("tombstones", "id = unhex(?1)", id)]).toEqual([
    "complete",
    1,
    0,
  ]);
  await run("DROP TRIGGER refuse");
  await retentionPass();
  expect([await statusOf(id), await count("inbox", "instance_id = ?1", id), await count("tombstones", "id = unhex(?1)", id)]).toEqual([
    undefined,
    0,
    1,
  ]);
});

it("an accepted command that a dead process left behind is started, not pruned, however long ago that was", async () => {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "keyed", name: "act" }]).catch(() => undefined);
  await run("UPDATE instances SET accepted_at = ?2, updated_at = ?2, check_at = 0 WHERE subject = ?1", name, daysAgo(500));
  await retentionPass();
  const [row] = await rows<{ id: string }>("SELECT id FROM instances WHERE subject = ?1", name);
  expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
  expect(await happened(`${name}/act`)).toHaveLength(1);
});

/** Does something in the moment before the database is given a statement: what was looked at is true no more. */
async function justBefore<T>(
  statement: string,
  meanwhile: () => Promise<unknown>,
  act: () => Promise<T> | undefined,
): Promise<T | undefined> {
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const real = database.batch;
  let came = false;
  database.batch = async function (this: D1Database, statements) {
    if (!came && JSON.stringify(statements).includes(statement)) {
      came = true;
      await meanwhile();
    }
    return real.call(this, statements) as never;
  };
  try {
    return await act();
  } finally {
    database.batch = real;
    expect(came).toBe(true);
  }
}

/** Something that is expected to log errors. */
async function failing<T>(act: () => Promise<T>): Promise<T> {
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    return await act();
  } finally {
    error.mockRestore();
  }
}
