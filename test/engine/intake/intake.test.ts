import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { deadLetters, SCOPES } from "millrace/operate";
import { describe, expect, it, vi } from "vitest";
import { acceptance } from "../../../packages/millrace/src/intake/accept/accept.ts";
import { outgoing } from "../../../packages/millrace/src/recorder/proof.ts";
import { app } from "../../probe/worker.ts";
import {
  deliver,
  dieAt,
  envelopeOf,
  event,
  fresh,
  happened,
  keeperRound,
  operator,
  probeEnv,
  reaches,
  rows,
  start,
  until,
} from "../harness.ts";

const reader = { ...operator, scopes: SCOPES };

/** Accepts a command without sending it. Returns its queue message. */
async function accepted(name: string) {
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "keyed", name: "charge" }]).catch(() => undefined);
  const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  return envelopeOf(row?.id ?? "");
}

async function command(name: string, steps: unknown[] = [{ do: "keyed", name: "charge" }]) {
  return { ...event("probe.done", name, { name, steps }, name), kind: "command", message_type: "probe.requested", schema_version: 2 };
}

describe("Command consumers", () => {
  it("Q01 a command consumer creates one instance for any number of deliveries, and counts the deliveries", async () => {
    const name = fresh();
    const body = await command(name);
    for (let delivery = 0; delivery < 5; delivery++) expect(await deliver("probe-commands", [body])).toEqual({ acked: 1, retried: 0 });
    const found = await rows<{ id: string; deliveries: number }>("SELECT id, deliveries FROM millrace_instances WHERE subject = ?1", name);
    expect(found).toMatchObject([{ deliveries: 5 }]);
    expect(await reaches(found[0]?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("Q03 a command whose start the platform refuses temporarily is logged as deferred, and started by the keeper", async () => {
    const name = fresh();
    const create = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE) as Workflow, "createBatch").mockRejectedValue(new Error("Out of reach."));
    const log = vi.spyOn(console, "warn");
    await deliver("probe-commands", [await command(name)]);
    const said = log.mock.calls.map(([line]) => JSON.parse(String(line)) as Record<string, unknown>);
    create.mockRestore();
    log.mockRestore();
    expect(said.filter((line) => line.log === "delivery")).toMatchObject([{ queue: "probe-commands", outcome: "put off", subject: name }]);
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    await rows("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1", row?.id ?? "");
    await keeperRound();
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
  });

  it("Q02 an invalid message of a batch becomes a dead letter at once with its issues, and the other commands start", async () => {
    const names = [fresh(), fresh(), fresh()];
    const good = await Promise.all(names.map((name) => command(name)));
    const poison = { ...(await command(fresh("poison"))), payload_inline: { name: "", steps: "none" } };
    const unknown = { ...(await command(fresh("unknown"))), message_type: "probe.requestd" };
    const bad = [poison, unknown, `${fresh()} is no envelope`, null];
    expect(await deliver("probe-commands", [...good, ...bad])).toEqual({ acked: 7, retried: 0 });
    for (const name of names)
      expect(await rows("SELECT deliveries FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ deliveries: 1 }]);
    const letters = await rows<{ reason: string; issues: string; body: string }>(
      "SELECT reason, issues, body FROM millrace_dead_letters WHERE queue = 'probe-commands' AND body IN (SELECT value FROM json_each(?1))",
      JSON.stringify(bad.map((body) => JSON.stringify(body))),
    );
    expect(letters.map((letter) => letter.reason).sort()).toEqual([
      "invalid_envelope",
      "invalid_envelope",
      "invalid_payload",
      "unknown_message_type",
    ]);
    const payload = letters.find((letter) => letter.reason === "invalid_payload");
    expect(JSON.parse(payload?.issues ?? "[]").map((issue: { path: string }) => issue.path)).toEqual(["payload.name", "payload.steps"]);
    expect(JSON.parse(payload?.body ?? "null")).toEqual(poison);
  });

  it("Q03 a redelivered command of a created instance is acknowledged, and creates no second instance", async () => {
    const name = fresh();
    const body = await command(name);
    dieAt("Q03 created, not acknowledged");
    expect(await deliver("probe-commands", [body])).toEqual({ acked: 0, retried: 1 });
    expect(await deliver("probe-commands", [body], 2)).toEqual({ acked: 1, retried: 0 });
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("Q04 the keeper creates an instance again that the platform did not save", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await start(name, [{ do: "keyed", name: "charge" }]).catch(() => undefined);
    await env.DB.prepare("UPDATE millrace_instances SET status = 'queued' WHERE subject = ?1").bind(name).run();
    await keeperRound();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("a command consumer starts a recently accepted command without a database query, and rejects its proof for another payload", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await start(name, [{ do: "keyed", name: "charge" }]).catch(() => undefined);
    const [row] = await rows<{ id: string; envelope: string }>("SELECT id, envelope FROM millrace_instances WHERE subject = ?1", name);
    const message = JSON.parse(
      outgoing(probeEnv.MILLRACE_KEY, acceptance({ name: "probe" }, JSON.parse(row?.envelope ?? "null"), "probe-commands")).body,
    );
    const forged = { ...message, payload_inline: { ...message.payload_inline, note: "another" } };

    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    expect(await deliver("probe-commands", [message])).toEqual({ acked: 1, retried: 0 });
    const asked = batch.mock.calls
      .map(([statements]) => JSON.stringify(statements))
      .filter((text) => text.includes("INTO millrace_instances"));
    batch.mockRestore();
    expect(asked).toEqual([]);
    expect(await deliver("probe-commands", [forged])).toEqual({ acked: 1, retried: 0 });
    expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key = ?1", name)).toEqual([
      { reason: "idempotency_key_reused" },
    ]);
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("a command with the key of another payload becomes a dead letter, and the first command is unchanged", async () => {
    const name = fresh();
    await deliver("probe-commands", [await command(name)]);
    expect(await deliver("probe-commands", [await command(name, [{ do: "keyed", name: "other" }])])).toEqual({ acked: 1, retried: 0 });
    expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key = ?1", name)).toEqual([
      { reason: "idempotency_key_reused" },
    ]);
    expect(await rows("SELECT deliveries FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ deliveries: 1 }]);
  });
});

describe("Dead letters", () => {
  it("Q05 a dead letter has one row with its original queue, also when the consumer dies before it stores the row", async () => {
    const name = fresh();
    const body = await command(name);
    dieAt("Q05 dead letter not yet stored");
    expect(await deliver("probe-commands-dlq", [body])).toEqual({ acked: 0, retried: 1 });
    expect(await deliver("probe-commands-dlq", [body], 2)).toEqual({ acked: 1, retried: 0 });
    expect(await deliver("probe-commands-dlq", [body], 3)).toEqual({ acked: 1, retried: 0 });
    expect(await rows("SELECT queue, reason, attempts FROM millrace_dead_letters WHERE idempotency_key = ?1", name)).toEqual([
      { queue: "probe-commands", reason: "exhausted", attempts: 3 },
    ]);
  });

  it("Q06 two concurrent replays of one dead letter replay it once", async () => {
    const name = fresh();
    const id = await letterOf(name);
    const answers = await Promise.all([1, 2].map(() => deadLetters.replay(probeEnv, app, reader, id, { reason: "fixed" })));
    expect(answers.map((answer) => answer.sent).sort()).toEqual([false, true]);
    const instanceId = answers.find((answer) => answer.sent)?.instance_id ?? "";
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
    expect(await rows("SELECT result FROM millrace_actions WHERE target = ?1 ORDER BY result", id)).toEqual([
      { result: "applied" },
      { result: "no_change" },
    ]);
  });

  it("Q07 the replay of a dead letter whose command is complete sends nothing, and is in the audit", async () => {
    const name = fresh();
    const id = await letterOf(name);
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
    await reaches(instanceId, "complete");
    const answer = await deadLetters.replay(probeEnv, app, reader, id, { reason: "again" });
    expect(answer).toMatchObject({ sent: false, instance_id: instanceId, why: expect.stringContaining("complete") });
    expect(await happened(`${name}/charge`)).toHaveLength(1);
    expect(await rows("SELECT verb, actor, reason FROM millrace_actions WHERE target = ?1", id)).toEqual([
      { verb: "replay", actor: "tess", reason: "again" },
    ]);
  });

  it("a dead letter can be corrected and replayed, and remains open after an invalid correction", async () => {
    const name = fresh();
    const body = { ...(await command(name)), payload_inline: { name, steps: "none" } };
    await deliver("probe-commands", [body]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    const id = letter?.id ?? "";
    await expect(deadLetters.replay(probeEnv, app, reader, id, { reason: "as it was" })).rejects.toMatchObject({ code: "invalid_payload" });
    expect((await deadLetters.get(probeEnv, reader, id)).state).toBe("open");
    const { instance_id: instanceId } = await deadLetters.replay(probeEnv, app, reader, id, { reason: "fixed", body: await command(name) });
    expect(await reaches(instanceId ?? "", "complete")).toBe("complete");
  });

  it.each([
    ["skipped", (id: string) => deadLetters.skip(probeEnv, app, reader, id, "not wanted"), { skipped: true }],
    ["replayed", (id: string, body: unknown) => deadLetters.replay(probeEnv, app, reader, id, { reason: "mended", body }), { sent: true }],
  ])("I16 a dead letter with half of a surrogate pair can be %s", async (_, settle, settled) => {
    const name = fresh();
    const mended = await command(name);
    await deliver("probe-commands", [{ ...mended, payload_inline: { name, steps: [], note: "cut \ud83d" } }]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    expect(await settle(letter?.id ?? "", mended)).toMatchObject(settled);
  });

  it.each([["Acme Corp"], [""], ["a".repeat(65)], ["acme\0"], [7]])(
    "I16 a dead letter with the invalid tenant %j is visible only to operators who may read unattributed items",
    async (tenant) => {
      const name = fresh();
      await deliver("probe-commands", [{ ...(await command(name)), tenant_id: tenant }]);
      const [letter] = await rows<{ id: string; tenant_id: null }>(
        "SELECT id, tenant_id FROM millrace_dead_letters WHERE idempotency_key = ?1",
        name,
      );
      expect(letter?.tenant_id).toBeNull();
      expect(await deadLetters.get(probeEnv, reader, letter?.id ?? "")).toMatchObject({ reason: "invalid_envelope" });
      await expect(deadLetters.get(probeEnv, { ...reader, scopes: [] }, letter?.id ?? "")).rejects.toMatchObject({
        code: "dead_letter_not_found",
      });
    },
  );

  it.each([
    ["version", { schema_version: 9 }],
    ["kind", { kind: "event" }],
    ["reference", { payload_inline: undefined, payload_ref: `r2://payloads/acme/nowhere/${"a".repeat(64)}` }],
  ])("Q11 a dead letter with the wrong %s can be skipped; the correct message with the same key is executed", async (_, wrong) => {
    const name = fresh();
    const payload_inline = { name, steps: [{ do: "keyed", name: "charge" }] };
    const created_at = new Date(Date.now() - 120_000).toISOString();
    const right = { ...(await command(name)), payload_inline, created_at };
    await deliver("probe-commands-dlq", [{ ...right, ...wrong }]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    await deadLetters.skip(probeEnv, app, reader, letter?.id ?? "", "its sender has sent a correct message");
    expect(await deliver("probe-commands", [{ ...right, ...wrong }])).toEqual({ acked: 1, retried: 0 });
    expect(await happened(`${name}/charge`)).toEqual([]);
    expect(await deliver("probe-commands", [right])).toEqual({ acked: 1, retried: 0 });
    expect(
      await until(
        () => happened(`${name}/charge`),
        (found) => found.length === 1,
      ),
    ).toHaveLength(1);
  });

  it.each([
    ["9,000 characters", "k".repeat(9000)],
    ["half a character", "\ud83d"],
    ["empty key", ""],
  ])("I16 a dead letter with the invalid key %s can be replayed under another key", async (_, wrong) => {
    const name = fresh();
    const key = wrong && `${name}${wrong}`;
    await deliver("probe-commands", [{ ...(await command(name)), idempotency_key: key }]);
    const [letter] = await rows<{ id: string; length: number }>(
      "SELECT id, length(idempotency_key) AS length FROM millrace_dead_letters WHERE body LIKE ?1",
      `%${name}%`,
    );
    expect(letter?.length).toBeLessThanOrEqual(500);
    const body = await command(name);
    const { instance_id: instanceId } = await deadLetters.replay(probeEnv, app, reader, letter?.id ?? "", { reason: "mended", body });
    expect(await reaches(instanceId ?? "", "complete")).toBe("complete");
  });

  it("the command of a skipped dead letter never runs, and its row has the status `skipped`", async () => {
    const name = fresh();
    const message = await accepted(name);
    // As after a deployment that requires more fields than this command has.
    const refused = { ...message, payload_inline: { name, steps: "none" } };
    await env.DB.prepare("UPDATE millrace_instances SET envelope = ?2, fingerprint = ?3 WHERE subject = ?1")
      .bind(name, JSON.stringify(refused), ids.fingerprint(refused.payload_inline))
      .run();
    expect(await deliver("probe-commands", [refused])).toEqual({ acked: 1, retried: 0 });
    const [letter] = await rows<{ id: string; instance_id: string }>(
      "SELECT l.id, l.instance_id FROM millrace_dead_letters l JOIN millrace_instances i ON i.id = l.instance_id AND i.status = 'dead' WHERE i.subject = ?1",
      name,
    );
    expect(await deadLetters.skip(probeEnv, app, reader, letter?.id ?? "", "not wanted")).toMatchObject({ skipped: true });
    await keeperRound();
    expect(await rows("SELECT status FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ status: "skipped" }]);
    expect(await happened(`${name}/charge`)).toEqual([]);
  });

  /** A dead letter of a command that has failed at all tries. */
  async function letterOf(name: string): Promise<string> {
    await deliver("probe-commands-dlq", [await command(name)]);
    const found = await until(
      () => rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name),
      (letters) => letters.length > 0,
    );
    return found[0]?.id ?? "";
  }
});
