import { keeperOf } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Elsewhere, NOWHERE } from "../../../packages/millrace/src/contract/elsewhere.ts";
import { dueInstances } from "../../../packages/millrace/src/keeper/open-instances.ts";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { rowsRead } from "../../rows-read.ts";
import { deliver, event, fresh, probeEnv, reaches, rows, withKeeperAtRest } from "../harness.ts";
import { accepted, example, run } from "./crowd.ts";

/** The commands of one tenant that were accepted and not started. */
const MANY = IS_FULL_SIZE ? 50_000 : 3000;

/** Accepted commands of a tenant, due before all others. */
async function crowd(tenant: string, count: number): Promise<void> {
  onTestFinished(async () => void (await run("DELETE FROM millrace_instances WHERE tenant_id = ?1", tenant)));
  await run(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, queue, status, accepted_at, updated_at, check_at)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT substr(lower(hex(randomblob(16))), 1, 32), ?2, workflow, message_type, i, correlation_id, causation_id, ?2, fingerprint,
       json_set(envelope, '$.tenant_id', ?2), queue, 'accepted', 1, 1, i
     FROM n, millrace_instances WHERE id = ?3`,
    count,
    tenant,
    await example(),
  );
}

type Creation = { instances: { id: string; params: { tenant_id: string } }[] };

/** Limits the created instances of the workflow `probe`. Instances of `noisy` are counted, but do not run. */
function limited(noisy: string, most: number, shape: "whole" | "single") {
  const seen = { made: new Set<string>(), calls: 0, restore: () => spy.mockRestore() };
  const REFUSED = "You have exceeded the rate limit for creating instances of this workflow (429)";
  const prototype = Object.getPrototypeOf(probeEnv.PROBE) as Workflow;
  const real = prototype.createBatch;
  const create = async function (this: Workflow, { instances }: Creation) {
    if (instances.some(({ params }) => params.tenant_id === noisy)) seen.calls++;
    if (shape === "whole" && seen.made.size + instances.length > most) throw new Error(REFUSED);
    const room = instances.slice(0, most - seen.made.size);
    for (const { id } of room) seen.made.add(id);
    const others = room.filter(({ params }) => params.tenant_id !== noisy);
    if (others.length > 0) await real.call(this, { instances: others } as never);
    return {
      created: [],
      errors: instances.slice(room.length).map(({ id }, index) => ({ index: room.length + index, id, message: REFUSED })),
    };
  };
  const spy = vi.spyOn(prototype, "createBatch").mockImplementation(create as never);
  onTestFinished(() => spy.mockRestore());
  return seen;
}

describe("Fairness between tenants", () => {
  it.each(["whole", "single"] as const)(
    `K01 a command starts in the next round, beside ${MANY} accepted commands of another tenant, while the platform limits its rate (%s calls)`,
    async (shape) => {
      await withKeeperAtRest();
      const noisy = fresh("noisy");
      await crowd(noisy, MANY);
      const id = await accepted();
      const { made } = limited(noisy, 150, shape);
      await keeperOf(probeEnv).round();
      expect(made.has(id)).toBe(true);
      expect(await reaches(id, "complete")).toBe("complete");
      // The other tenant gets the rest of the rate.
      expect(made.size).toBeGreaterThan(100);
    },
    120_000,
  );

  it("K01 the keeper reads a page of due instances and no backlog", async () => {
    await withKeeperAtRest();
    const noisy = fresh("noisy");
    const others = Array.from({ length: 20 }, (_, index) => `${noisy}-${index}`);
    await crowd(noisy, MANY);
    for (const tenant of others) await crowd(tenant, 1);
    const { read, answer } = await rowsRead(() => dueInstances(probeEnv as never, "unseen", NOWHERE));
    const of = (tenant: string) => answer.rows.filter(({ tenant_id }) => tenant_id === tenant).length;
    expect(others.map(of)).toEqual(others.map(() => 1));
    expect(of(noisy)).toBeGreaterThan(4);
    expect(answer.more).toBe(true);
    console.log(`${answer.rows.length} of ${MANY} due instances: ${read} rows read.`);
    expect(read).toBeLessThan(2000);
  });

  it("K01 the keeper starts a command whose message waits in its queue behind another tenant's messages", async () => {
    await withKeeperAtRest();
    const noisy = fresh("noisy");
    await crowd(noisy, MANY);
    await run("UPDATE millrace_instances SET accepted_at = ?2 WHERE tenant_id = ?1", noisy, Date.now());
    const id = await accepted();
    const waits = { backlogCount: 1, backlogBytes: 1, oldestMessageTimestamp: new Date(Date.now() - 5000) };
    const spy = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_COMMANDS) as Queue, "metrics").mockResolvedValue(waits);
    onTestFinished(() => spy.mockRestore());
    const seen = limited(noisy, 1000, "single");
    await keeperOf(probeEnv).round();
    expect({ isStarted: seen.made.has(id), callsForNoisy: seen.calls }).toEqual({ isStarted: true, callsForNoisy: 0 });
    expect(await reaches(id, "complete")).toBe("complete");
  });

  it("K01 the keeper releases the instances of a resumed workflow, while another tenant's backlog exceeds the platform's rate", async () => {
    await withKeeperAtRest();
    const noisy = fresh("noisy");
    await crowd(noisy, MANY);
    const [id, pause] = [await accepted(), "workflow/probe/acme"];
    await run("UPDATE millrace_instances SET held_by = ?2, check_at = ?3 WHERE id = ?1", id, pause, Date.now() + 3_600_000);
    await run(
      "INSERT INTO millrace_pauses (id, tenant_id, actor, reason, since, resumed_at) VALUES (?1, 'acme', 'tess', 'test', 1, 2)",
      pause,
    );
    limited(noisy, 150, "single");
    await keeperOf(probeEnv).round();
    expect(await rows("SELECT held_by FROM millrace_instances WHERE id = ?1", id)).toEqual([{ held_by: null }]);
  });

  it("K01 a tenant with instances of another Worker's workflow takes no share of the page", async () => {
    await withKeeperAtRest();
    const [tenant, other] = [fresh("noisy"), fresh("other")];
    await crowd(tenant, 300);
    await crowd(other, 1);
    await run("UPDATE millrace_instances SET workflow = ?1 WHERE tenant_id = ?1", other);
    const share = async (elsewhere: Elsewhere) => {
      const { rows: page } = await dueInstances(probeEnv as never, "unseen", elsewhere);
      return page.filter(({ tenant_id }) => tenant_id === tenant).length;
    };
    expect(await share({ ...NOWHERE, workflows: new Set([other]) })).toBeGreaterThan(await share(NOWHERE));
  });

  it("A03 a consumer waits a limited time for one tenant's instances, and then starts the commands of other tenants", async () => {
    const noisy = fresh("noisy");
    const limit = limited(noisy, 0, "whole");
    const command = (tenant_id: string) => {
      const name = fresh("fair");
      return {
        ...event("probe.done", name, { name, steps: [] }, name),
        kind: "command",
        message_type: "probe.requested",
        schema_version: 2,
        tenant_id,
      };
    };
    onTestFinished(async () => void (await run("DELETE FROM millrace_instances WHERE tenant_id = ?1", noisy)));
    let before = -1;
    for (let batches = 0; batches < 4 && limit.calls > before; batches++) {
      before = limit.calls;
      const burst = Array.from({ length: 10 }, () => command(noisy));
      expect(await deliver("probe-commands", burst)).toEqual({ acked: 10, retried: 0 });
    }
    expect(limit.calls).toBe(before);
    limit.restore();
    const other = command("acme");
    expect(await deliver("probe-commands", [command(noisy), other])).toEqual({ acked: 2, retried: 0 });
    expect(limit.calls).toBe(before);
    const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", other.subject);
    expect(await reaches(id, "complete")).toBe("complete");
    expect(await rows("SELECT DISTINCT status FROM millrace_instances WHERE tenant_id = ?1", noisy)).toEqual([{ status: "queued" }]);
  }, 60_000);
});
