import { env } from "cloudflare:workers";
import { deadLetters, instances } from "millrace/operate";
import { describe, expect, it, vi } from "vitest";
import { app } from "../../probe/worker.ts";
import {
  behave,
  deliver,
  envelopeOf,
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
} from "../harness.ts";
import { age, count, DAY_MS, daysAgo, justBefore, letter, pruneFailed, reader, rowOf, run, slice } from "./aged.ts";

describe("Instances", () => {
  it.each(["complete", "terminated", "skipped"])(
    "%s instances are deleted after 30 days, with their inbox rows, and a tombstone remains",
    async (status) => {
      const old = await rowOf(status, 31);
      const young = await rowOf(status, 29);
      await retentionPass();
      expect(await statusOf(old)).toBeUndefined();
      expect(await count("millrace_inbox", "instance_id = ?1", old)).toBe(0);
      expect(await count("millrace_tombstones", "id = unhex(?1)", old)).toBe(1);
      expect(await statusOf(young)).toBe(status);
      expect(await count("millrace_inbox", "instance_id = ?1", young)).toBe(1);
      expect(await count("millrace_tombstones", "id = unhex(?1)", young)).toBe(0);
    },
  );

  it("a throttled instance is kept while its start counts", async () => {
    const ids = [await rowOf("complete", 31), await rowOf("complete", 31)] as const;
    const throttled =
      "UPDATE millrace_instances SET flow = json_object('throttle', id, 'starts', 1, 'ms', ?2), due_at = accepted_at WHERE id = ?1";
    await run(throttled, ids[0], 32 * DAY_MS);
    await run(throttled, ids[1], 30 * DAY_MS);
    await retentionPass();
    expect([await statusOf(ids[0]), await statusOf(ids[1])]).toEqual(["complete", undefined]);
  });

  it("an instance is kept while its callback is owed", async () => {
    const [owed, called] = [await rowOf("complete", 31), await rowOf("complete", 31)];
    await run("UPDATE millrace_instances SET callback = '' WHERE id = ?1", owed);
    await run("UPDATE millrace_instances SET callback = run || ':' || status WHERE id = ?1", called);
    await oldFirst();
    await slice("instances ended");
    expect([await statusOf(owed), await statusOf(called)]).toEqual(["complete", undefined]);
    await run("DELETE FROM millrace_instances WHERE id = ?1", owed);
  });

  it.each(["errored", "dead"])("%s instances without an operator's action are deleted after 90 days", async (status) => {
    const old = await rowOf(status, 91);
    const young = await rowOf(status, 89);
    await retentionPass();
    expect(await statusOf(old)).toBeUndefined();
    expect(await count("millrace_tombstones", "id = unhex(?1)", old)).toBe(1);
    expect(await statusOf(young)).toBe(status);
  });

  it("instances that never started are deleted together with their dead letter", async () => {
    const old = await rowOf("dead", 91);
    const [mine, others] = [await letter("open", 91, old), await letter("open", 89, old)];
    const waiting = await rowOf("dead", 89);
    const waitingLetter = await letter("open", 91, waiting);
    await retentionPass();
    expect(await statusOf(old)).toBeUndefined();
    expect(await rows("SELECT id FROM millrace_dead_letters WHERE id IN (?1, ?2, ?3) ORDER BY id", mine, others, waitingLetter)).toEqual(
      [others, waitingLetter].sort().map((id) => ({ id })),
    );
  });

  it("the dead letter of another payload with the same key is kept when the instance is deleted", async () => {
    const ended = await rowOf("complete", 31);
    const other = await letter("open", 40, ended);
    await retentionPass();
    expect(await statusOf(ended)).toBeUndefined();
    expect(await count("millrace_dead_letters", "id = ?1", other)).toBe(1);
  });

  it.each(["accepted", "queued", "running", "waiting", "paused", "in_doubt"])("%s instances are kept at any age", async (status) => {
    const open = await rowOf(status, 4000);
    await retentionPass();
    expect(await statusOf(open)).toBe(status);
    expect(await count("millrace_inbox", "instance_id = ?1", open)).toBe(1);
  });

  it("instances that ended recently are kept for any age of their start, and do not prevent the deletion of older ones", async () => {
    const began = await rowOf("complete", 500);
    await run("UPDATE millrace_instances SET updated_at = ?2 WHERE id = ?1", began, daysAgo(1));
    const old = await rowOf("complete", 400);
    await retentionPass();
    expect(await statusOf(began)).toBe("complete");
    expect(await statusOf(old)).toBeUndefined();
  });

  it("instances with an action that was not executed on the platform are kept until it is executed", async () => {
    const id = await rowOf("errored", 100);
    await run(
      `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at) VALUES (?1, 'acme', 'tess', 'retry', ?2, ?2, 'r', 'applied', 0)`,
      fresh("action"),
      id,
    );
    await pruneFailed();
    expect(await statusOf(id)).toBe("errored");
    await run("UPDATE millrace_actions SET applied_at = ?2 WHERE instance_id = ?1", id, Date.now());
    await pruneFailed();
    expect(await statusOf(id)).toBeUndefined();
  });

  it("instances with an unknown outcome are kept until an operator has answered", async () => {
    const id = await rowOf("errored", 100);
    await run("UPDATE millrace_inbox SET state = 'in_doubt' WHERE instance_id = ?1", id);
    await retentionPass();
    expect(await statusOf(id)).toBe("errored");
    await run("UPDATE millrace_inbox SET state = 'failed' WHERE instance_id = ?1", id);
    await retentionPass();
    expect(await statusOf(id)).toBeUndefined();
  });

  it("an instance that an operator retries at the moment of its deletion is kept with all its rows", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 400, times: 1 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", retries: 0 }]);
    await reaches(instanceId, "errored");
    // Old rows of other files are pruned first, so that the count includes this instance only.
    await pruneFailed();
    await age(instanceId, 91);
    const retry = () => instances.act(probeEnv, operator, "retry", instanceId, { reason: "just in time" });
    expect(await justBefore("INSERT INTO millrace_tombstones", retry, pruneFailed)).toEqual({ removed: 0, next: null });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await count("millrace_tombstones", "id = unhex(?1)", instanceId)).toBe(0);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("the retention scan of instances stops at the first instance that is too young to be deleted", async () => {
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT printf('f%031d', i), 'young', 'probe', 'probe.requested', i, 'c', 'c', 's', 'ff', '{}', 'complete', ?1, ?1 FROM n`,
      Date.now(),
    );
    await retentionPass();
    expect(await slice("instances ended")).toEqual({ removed: 0, next: null });
    await run("DELETE FROM millrace_instances WHERE tenant_id = 'young'");
  });

  it("10,000 old instances are deleted in bounded slices, and a later young instance is kept", async () => {
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT printf('%032d', i), 'bulk', 'probe', 'probe.requested', i, 'c', 'c', 's', 'ff', '{}', 'complete', i, i FROM n`,
    );
    await run(
      `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, updated_at) SELECT id, 's', 0, 'keyed', 'done', 1, 't', 0 FROM millrace_instances WHERE tenant_id = 'bulk'`,
    );
    const young = await rowOf("complete", 1);
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    await retentionPass();
    const removals = batch.mock.calls.filter(([statements]) => JSON.stringify(statements).includes("INSERT INTO millrace_tombstones"));
    batch.mockRestore();
    expect(await count("millrace_instances", "tenant_id = 'bulk'")).toBe(0);
    expect(await count("millrace_inbox", "instance_id LIKE '0000000000000000%'")).toBe(0);
    expect(await count("millrace_tombstones", "hex(id) LIKE '0000000000000000%'")).toBe(10_000);
    expect(await statusOf(young)).toBe("complete");
    expect(removals.length).toBeGreaterThanOrEqual(40);
  });
});

describe("Pruned keys", () => {
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

  it("a repeat with the key of a pruned instance is answered as replayed, and starts nothing", async () => {
    const { name, instanceId } = await pruned();
    expect(await start(name, [...charge])).toMatchObject({ instanceId, replayed: true });
    await expect(start(name, [{ do: "keyed", name: "other" }])).rejects.toMatchObject({ code: "idempotency_key_reused" });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A08 the key of a pruned instance is recognized for 400 days without a new run, and then deleted", async () => {
    const { name, instanceId, envelope } = await pruned();
    const prunedAgo = (days: number) =>
      run("UPDATE millrace_tombstones SET place = (unixepoch() - ?2 * 86400) * 1000 WHERE id = unhex(?1)", instanceId, days);
    await prunedAgo(399);
    await retentionPass();
    expect(await deliver("probe-commands", [envelope])).toEqual({ acked: 1, retried: 0 });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
    await prunedAgo(401);
    await retentionPass();
    expect(await count("millrace_tombstones", "id = unhex(?1)", instanceId)).toBe(0);
  });

  it("the replay of a dead letter with the key of a pruned instance does nothing, and returns the reason", async () => {
    const { name, instanceId, envelope } = await pruned();
    const id = await letter("open", 1);
    await run("UPDATE millrace_dead_letters SET body = ?2 WHERE id = ?1", id, JSON.stringify(envelope));
    const answer = await deadLetters.replay(probeEnv, app, reader, id, { reason: "late" });
    expect(answer).toMatchObject({ sent: false, instance_id: instanceId, why: expect.stringContaining("already pruned") });
    expect(await statusOf(instanceId)).toBeUndefined();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });
});

describe("Dead letters", () => {
  it("dead letters are deleted after 30 days when settled, and after 90 days when open", async () => {
    const gone = [await letter("replayed", 31), await letter("skipped", 31), await letter("open", 91)];
    const kept = [await letter("replayed", 29), await letter("skipped", 29), await letter("open", 89)];
    const late = await letter("replayed", 200);
    await run("UPDATE millrace_dead_letters SET settled_at = ?2 WHERE id = ?1", late, daysAgo(1));
    await retentionPass();
    const left = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE queue = 'probe-commands' AND body = '{}'");
    const ids = left.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining([...kept, late]));
    for (const id of gone) expect(ids).not.toContain(id);
  });
});
