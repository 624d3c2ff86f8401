import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { dieAt, envelopeOf, fresh, happened, keeperRound, probeEnv, reaches, retentionPass, rows, start, until } from "../harness.ts";

const charge = [{ do: "keyed", name: "charge" }] as const;

describe("Commands", () => {
  it("A01 a command whose API process dies before the commit is accepted by the client's retry, with one effect", async () => {
    const name = fresh();
    dieAt("A01 before accept commits");
    await expect(start(name, [...charge])).rejects.toThrow("Died");
    expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", name)).toEqual([]);
    const { instanceId, replayed } = await start(name, [...charge]);
    expect(replayed).toBe(false);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A02 a retry of a command with a lost answer returns the same instance id, marked as replayed", async () => {
    const name = fresh();
    dieAt("A02 accept committed, not answered");
    await expect(start(name, [...charge])).rejects.toThrow("Died");
    const { instanceId, replayed } = await start(name, [...charge]);
    expect(replayed).toBe(true);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ id: instanceId }]);
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A03 the keeper starts a command that was committed and not enqueued", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await expect(start(name, [...charge])).rejects.toThrow("Died");
    expect(await rows("SELECT status FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ status: "accepted" }]);
    await keeperRound();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A04 a command that was enqueued twice becomes one instance", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [...charge]);
    const envelope = await envelopeOf(instanceId);
    await probeEnv.PROBE_COMMANDS.sendBatch([{ body: envelope }, { body: envelope }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(
      await until(
        () => rows("SELECT deliveries FROM millrace_instances WHERE id = ?1", instanceId),
        ([row]) => row?.deliveries === 3,
      ),
    ).toEqual([{ deliveries: 3 }]);
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("A08 a command that is sent again after its instance was pruned is answered as replayed, and causes no second effect", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [...charge]);
    await reaches(instanceId, "complete");
    await env.DB.prepare("UPDATE millrace_instances SET accepted_at = 0, updated_at = 0 WHERE id = ?1").bind(instanceId).run();
    await retentionPass();
    expect(await rows("SELECT id FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([]);

    const again = await start(name, [...charge]);
    expect(again).toMatchObject({ instanceId, replayed: true });
    await probeEnv.PROBE_COMMANDS.send({ ...(await pruned(name)), idempotency_key: name });
    await keeperRound();
    expect(await happened(`${name}/charge`)).toHaveLength(1);
    await expect(start(name, [{ do: "keyed", name: "other" }])).rejects.toMatchObject({ code: "idempotency_key_reused" });
  });

  it("W30 a command with a payload too large for a queue is sent by reference, and the payload is kept after the end", async () => {
    const name = fresh();
    const payload = { name, steps: [{ do: "commit", name: "note" }], note: "n".repeat(300_000) };
    const { instanceId } = await start(name, [], { payload });
    const { payload_inline, payload_ref = "" } = await envelopeOf(instanceId);
    expect(payload_inline).toBeUndefined();
    expect(payload_ref).toMatch(/^r2:\/\/payloads\/acme\//);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect((await start(name, [], { payload })).replayed).toBe(true);
    expect((await env.PAYLOADS.head(payload_ref.slice("r2://".length)))?.size).toBeGreaterThan(300_000);
  });

  it("a command with a payload of an older version is upcast; a newer version is refused", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [], { schemaVersion: 1, payload: { title: name, steps: [{ do: "commit", name: "note" }] } });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await expect(start(fresh(), [], { schemaVersion: 3 })).rejects.toMatchObject({ code: "invalid_envelope" });
  });
});

async function pruned(name: string) {
  const other = await start(fresh(), [{ do: "keyed", name: "charge", subject: `${name}/charge` }], { delaySeconds: 600 });
  const message = await envelopeOf(other.instanceId);
  // Deletes the row, because the keeper would start the command.
  await env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(other.instanceId).run();
  return message;
}
