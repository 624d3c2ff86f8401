import { tokens } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { event, fresh, probeEnv, retentionPass, rows } from "../harness.ts";
import { age, count, DAY_MS, daysAgo, failing, justBefore, rowOf, run, slice } from "./aged.ts";

describe("Outbox", () => {
  const put = (id: string, body: string, attempts: number, error: string | null) =>
    run(
      "INSERT INTO millrace_outbox (id, queue, body, attempts, error, due_at) VALUES (?1, 'no-such-queue', ?2, ?3, ?4, ?5)",
      id,
      body,
      attempts,
      error,
      Date.now() + DAY_MS,
    );

  it("an outbox message that no queue accepted for 14 days becomes a dead letter, and leaves the outbox", async () => {
    const [stuck, trying, unconfirmed, broken] = [fresh("stuck"), fresh("trying"), fresh("unconfirmed"), fresh("broken")];
    const message = event("probe.done", stuck, { name: stuck, step: "s" });
    await put(stuck, JSON.stringify(message), 2100, "NO_SUCH_QUEUE");
    await put(trying, "{}", 1900, "NO_SUCH_QUEUE");
    await put(unconfirmed, "{}", 9999, null);
    await put(broken, "{not json", 2100, "no JSON");
    await retentionPass();
    expect(await rows("SELECT id FROM millrace_outbox WHERE queue = 'no-such-queue' ORDER BY id")).toEqual(
      [trying, unconfirmed].sort().map((id) => ({ id })),
    );
    expect(
      await rows(
        "SELECT tenant_id, message_type, reason, error, attempts, state, body, first_at FROM millrace_dead_letters WHERE idempotency_key = ?1",
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
    expect(await rows("SELECT tenant_id, body FROM millrace_dead_letters WHERE error = 'no JSON'")).toEqual([
      { tenant_id: null, body: JSON.stringify("{not json") },
    ]);
    await run("DELETE FROM millrace_outbox");
  });

  it("an outbox message that its queue accepts at its last attempt becomes no dead letter", async () => {
    const name = fresh("taken");
    await put(name, "{}", 2100, "NO_SUCH_QUEUE");
    const taken = () => run("UPDATE millrace_outbox SET error = NULL WHERE id = ?1", name);
    expect(await justBefore("INSERT INTO millrace_dead_letters", taken, async () => slice("outbox"))).toBe(0);
    expect(await count("millrace_outbox", "id = ?1", name)).toBe(1);
    await run("DELETE FROM millrace_outbox");
  });

  it("a replayed outbox message that no queue accepts becomes a dead letter again", async () => {
    const name = fresh("again");
    const message = event("probe.done", name, { name, step: "s" });
    for (const body of [message, { ...message, replay: "the first time" }, { ...message, replay: "the second time" }].map((one) =>
      JSON.stringify(one),
    )) {
      await put(name, body, 2100, "NO_SUCH_QUEUE");
      await retentionPass();
      expect(await count("millrace_outbox", "id = ?1", name)).toBe(0);
      expect(await count("millrace_dead_letters", "body = ?1 AND state = 'open'", body)).toBe(1);
      await run("UPDATE millrace_dead_letters SET state = 'replayed', settled_at = ?2 WHERE body = ?1", body, Date.now());
    }
  });

  it("an undeliverable message stays in the outbox when the write of its dead letter fails", async () => {
    const name = fresh("refused");
    await put(name, JSON.stringify(event("probe.done", name, {})), 2100, "NO_SUCH_QUEUE");
    await run("CREATE TRIGGER refuse BEFORE DELETE ON millrace_outbox BEGIN SELECT RAISE(ABORT, 'no'); END");
    await failing(() => retentionPass());
    expect(await count("millrace_outbox", "id = ?1", name)).toBe(1);
    expect(await count("millrace_dead_letters", "body LIKE ?1", `%${name}%`)).toBe(0);
    await run("DROP TRIGGER refuse");
    await retentionPass();
    expect(await count("millrace_dead_letters", "body LIKE ?1", `%${name}%`)).toBe(1);
  });
});

describe("Signals", () => {
  const tenant = () => fresh("t");
  async function signal(tenantId: string, days: number): Promise<string> {
    const id = fresh("signal");
    await run(
      "INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at) VALUES (?1, ?2, 'probe.signal', 's', '{}', ?3)",
      id,
      tenantId,
      daysAgo(days),
    );
    return id;
  }
  const kept = (id: string) => count("millrace_signals", "id = ?1", id);
  async function instanceOf(tenantId: string, status: string, days: number): Promise<string> {
    const id = await rowOf(status, days);
    await run("UPDATE millrace_instances SET tenant_id = ?2, updated_at = ?3 WHERE id = ?1", id, tenantId, Date.now());
    return id;
  }

  it("signals are deleted after 30 days", async () => {
    const mine = tenant();
    const [old, young] = [await signal(mine, 31), await signal(mine, 29)];
    await instanceOf(mine, "running", 30);
    await retentionPass();
    expect([await kept(old), await kept(young)]).toEqual([0, 1]);
  });

  it.each(["accepted", "running", "waiting", "in_doubt", "errored", "terminated", "dead"])(
    "signals are kept while an older instance of the same tenant with the status %s could still accept them",
    async (status) => {
      const [mine, other] = [tenant(), tenant()];
      const [could, foreign] = [await signal(mine, 31), await signal(other, 31)];
      const instance = await instanceOf(mine, status, 32);
      await retentionPass();
      expect([await kept(could), await kept(foreign)]).toEqual([1, 0]);
      await run("UPDATE millrace_instances SET status = 'complete' WHERE id = ?1", instance);
      await retentionPass();
      expect(await kept(could)).toBe(0);
    },
  );

  it("signals are deleted after 400 days although an old run is in doubt, unless a wait has accepted them", async () => {
    const mine = tenant();
    const [forgotten, held, young] = [await signal(mine, 401), await signal(mine, 401), await signal(mine, 399)];
    const instance = await instanceOf(mine, "in_doubt", 500);
    await run(
      `INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, signal_id, since_at)
       VALUES (?1, 'w', 'probe', ?2, 'probe.signal', 's', 'e', ?3, 1)`,
      instance,
      mine,
      held,
    );
    await retentionPass();
    expect([await kept(forgotten), await kept(held), await kept(young)]).toEqual([0, 1, 1]);
  });

  it("signals are kept when an older instance is retried at the moment of their deletion", async () => {
    const mine = tenant();
    const old = await signal(mine, 31);
    const retried = () => instanceOf(mine, "running", 32);
    // Starts the scan directly before this signal, because other tests may have more rows than one slice.
    const beforeIt = old.slice(0, -1);
    await justBefore("DELETE FROM millrace_signals", retried, async () => slice("signals", beforeIt));
    expect(await kept(old)).toBe(1);
  });

  it("signals that a wait has accepted are kept until the instance is deleted", async () => {
    const mine = tenant();
    const [held, free] = [await signal(mine, 31), await signal(mine, 31)];
    const instance = await instanceOf(mine, "complete", 32);
    await run(
      "INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, signal_id, since_at) VALUES (?1, 'w', 'probe', ?2, 'probe.signal', 's', 'e', ?3, 0)",
      instance,
      mine,
      held,
    );
    await retentionPass();
    expect([await kept(held), await kept(free)]).toEqual([1, 0]);
    await age(instance, 31);
    await retentionPass();
    expect([await kept(held), await count("millrace_waits", "instance_id = ?1", instance)]).toEqual([0, 0]);
  });
});

describe("Audit and tokens", () => {
  it("audit actions are deleted after 400 days, except actions that were not executed", async () => {
    const act = (id: string, days: number, applied: boolean) =>
      run(
        `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at, applied_at) VALUES (?1, 'acme', 'tess', 'skip', 'x', 'r', 'applied', ?2, ?3)`,
        id,
        daysAgo(days),
        applied ? daysAgo(days) : null,
      );
    const [old, young, open] = [fresh(), fresh(), fresh()];
    await act(old, 401, true);
    await act(young, 399, true);
    await act(open, 401, false);
    await retentionPass();
    expect(await rows("SELECT id FROM millrace_actions WHERE target = 'x' ORDER BY id")).toEqual(
      [young, open].sort().map((id) => ({ id })),
    );
  });

  it("tokens are deleted 30 days after their expiry; tokens without an expiry are kept", async () => {
    const actor = fresh("actor");
    const mint = (expiresAt?: number) => tokens.mint(probeEnv, { tenantId: "acme", actor, scopes: ["read"], expiresAt });
    await mint(daysAgo(31));
    const kept = [await mint(daysAgo(29)), await mint()];
    await retentionPass();
    const ids = (await rows<{ id: string }>("SELECT id FROM millrace_tokens WHERE actor = ?1", actor)).map(({ id }) => id);
    expect(ids.sort()).toEqual(kept.map((token) => token.split("_")[1]).sort());
  });
});
