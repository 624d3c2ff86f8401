import { env } from "cloudflare:workers";
import { type Envelope, ids, MillraceError } from "millrace";
import { describe, expect, it } from "vitest";
import { acceptance } from "../../../packages/millrace/src/intake/accept/accept.ts";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { prove } from "../../../packages/millrace/src/recorder/proof.ts";
import { labs } from "../../probe/lab.ts";
import { ProbeRequested } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { deliver, dieAt, envelopeOf, event, fresh, happened, keeperRound, probeEnv, reaches, rows, start, until } from "../harness.ts";
import { runLab } from "../lab.ts";

const tenant = { tenantId: "acme", source: "test" };

function command(key: string, name: string, what: string): Envelope {
  const payload = { name, steps: [{ do: "keyed", name: what }] };
  return { ...event("probe.done", name, payload, key), kind: "command", message_type: "probe.requested", schema_version: 2 };
}

/** Retries a failed attempt at once. */
const SOON = { retries: { limit: 5, delay: 10 } } as const;

const asking = (name: string, what: string) =>
  ProbeRequested.from(ProbeRequested.payload.parse({ name: `${name}/asked`, steps: [{ do: "keyed", name: what }] }));

const charged = (name: string, what: string) => happened(`${name}/${what}`).then((entries) => entries.length);
const ownerOf = async (key: string) =>
  (await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE idempotency_key = ?1", key))[0]?.id ?? "";
const lettersOf = (key: string) =>
  rows<{ reason: string; queue: string; body: string; instance_id: string | null }>(
    "SELECT reason, queue, body, instance_id FROM millrace_dead_letters WHERE idempotency_key = ?1",
    key,
  );

it.each([".", ".."])("the idempotency key %s is refused, because no URL path can contain it", async (key) => {
  const given = { type: "probe.requested", payload: { name: fresh(), steps: [] }, idempotencyKey: key };
  const answers = await acceptCommands(probeEnv, app, tenant, [given, { type: "lab.requested", payload: { name: key } }]);
  const issues = [{ path: "idempotency_key", message: 'must not be "." or "..", which a URL path cannot contain' }];
  for (const answer of answers) expect(answer).toMatchObject({ code: "invalid_payload", detail: { issues } });
  expect(await ownerOf(key)).toBe("");
});

describe("Reused keys", () => {
  it("A10 of two commands with one key and different payloads in one request, the first runs and the second is refused", async () => {
    const name = fresh();
    const ask = (what: string) => ({
      type: "probe.requested",
      idempotencyKey: name,
      payload: { name, steps: [{ do: "keyed", name: what }] },
    });
    const answers = await acceptCommands(probeEnv, app, tenant, [ask("accepted"), ask("accepted"), ask("refused")]);
    expect(answers).toMatchObject([{ replayed: false }, { replayed: true }, { code: "idempotency_key_reused" }]);
    expect(await reaches(await ownerOf(name), "complete", "errored")).toBe("complete");
    expect([await charged(name, "accepted"), await charged(name, "refused")]).toEqual([1, 0]);
  });

  it("A10 of two commands with one key in one delivery, the first runs and the second becomes a dead letter", async () => {
    const name = fresh();
    const [first, second] = [command(name, name, "first"), command(name, name, "second")];
    expect(await deliver("probe-commands", [first, second, first])).toEqual({ acked: 3, retried: 0 });
    expect(await reaches(await ownerOf(name), "complete", "errored")).toBe("complete");
    expect([await charged(name, "first"), await charged(name, "second")]).toEqual([1, 0]);
    expect((await lettersOf(name)).map(({ reason, body }) => ({ reason, body: JSON.parse(body) }))).toEqual([
      { reason: "idempotency_key_reused", body: second },
    ]);
    // Counts the two copies of the first message. The captured message is not counted.
    expect(await rows("SELECT deliveries FROM millrace_instances WHERE idempotency_key = ?1", name)).toEqual([{ deliveries: 2 }]);
  });

  it("A10 of two events that send a command with one key, one command runs and the other becomes a dead letter of the command queue", async () => {
    const name = fresh();
    const ran: string[] = [];
    labs.set(name, async ({ payload, step }) => {
      await step.commit("note", () => {
        ran.push(payload.note);
        return {};
      });
    });
    const burst = ["first", "second"].map((note) => event("lab.event" as never, name, { name, note }));
    expect(await deliver("probe-events", burst)).toEqual({ acked: 2, retried: 0 });
    const id = await ownerOf(name);
    expect(await reaches(id, "complete", "errored")).toBe("complete");
    expect((await envelopeOf(id)).payload_inline).toEqual({ name, note: "first" });
    expect(ran).toEqual(["first"]);
    expect(await lettersOf(name)).toMatchObject([{ reason: "idempotency_key_reused", queue: "probe-commands" }]);
  });

  it.each(["one delivery", "two deliveries"])(
    "A10 of two events for waits with one key in %s, the first is kept and the second becomes a dead letter",
    async (how) => {
      const name = fresh();
      const [first, second] = ["first", "second"].map((value) => event("probe.signal", name, { about: name, value }, `${name}/said`));
      if (first === undefined || second === undefined) throw new Error("There are two.");
      const batches = how === "one delivery" ? [[first, second, first]] : [[first], [second, first]];
      for (const batch of batches) expect(await deliver("probe-events", batch)).toEqual({ acked: batch.length, retried: 0 });
      const kept = await rows<{ envelope: string }>("SELECT envelope FROM millrace_signals WHERE subject = ?1", name);
      expect(kept.map(({ envelope }) => JSON.parse(envelope).payload_inline.value)).toEqual(["first"]);
      expect((await lettersOf(`${name}/said`)).map(({ reason, body }) => ({ reason, body: JSON.parse(body) }))).toEqual([
        { reason: "idempotency_key_reused", body: second },
      ]);
    },
  );

  it("A10 of two commands with one key that one step emits, one runs and the other becomes a dead letter when the relay dies", async () => {
    const name = fresh();
    const { died } = dieAt("O01 committed, not relayed", name);
    const { instanceId } = await runLab(
      ({ step }) => step.commit("ask", () => ({ emit: [asking(name, "first"), asking(name, "second"), asking(name, "first")] }), SOON),
      { name },
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(died()).toBe(true);
    await keeperRound();
    const letters = await until(
      () => lettersOf(`${name}/asked`),
      (found) => found.length > 0,
    );
    expect(letters).toMatchObject([{ reason: "idempotency_key_reused" }]);
    expect(await reaches(await ownerOf(`${name}/asked`), "complete", "errored")).toBe("complete");
    const [first, second] = [await charged(`${name}/asked`, "first"), await charged(`${name}/asked`, "second")];
    const captured = letters[0]?.body.includes("second") ? "second" : "first";
    expect([first, second]).toEqual(captured === "second" ? [1, 0] : [0, 1]);
  });

  it("A10 two commands that two items of a step emit are both sent by the keeper when the relay dies", async () => {
    const name = fresh();
    dieAt("O01 committed, not relayed", name);
    const { instanceId } = await runLab(
      async ({ step }) => {
        for (const key of ["first", "second"]) await step.commit("ask", () => ({ emit: [asking(name, key)] }), { key, ...SOON });
      },
      { name },
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await keeperRound();
    const known = async () => [
      ...(await lettersOf(`${name}/asked`)),
      ...(await rows("SELECT 1 FROM millrace_instances WHERE idempotency_key = ?1", `${name}/asked`)),
    ];
    expect(await until(known, (both) => both.length === 2)).toHaveLength(2);
  });

  it("A10 a command with the key of a pruned instance and another payload becomes a dead letter", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
    await reaches(instanceId, "complete");
    const late = { ...(await envelopeOf(instanceId)), payload_inline: { name, steps: [{ do: "keyed", name: "other" }] } };
    await env.DB.batch([
      env.DB.prepare(
        "INSERT INTO millrace_tombstones SELECT unhex(id), unhex(substr(fingerprint, 1, 12)), unixepoch() * 1000 FROM millrace_instances WHERE id = ?1",
      ).bind(instanceId),
      env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(instanceId),
    ]);
    expect(await deliver("probe-commands", [late], 2)).toEqual({ acked: 1, retried: 0 });
    expect((await lettersOf(name)).map(({ reason }) => reason)).toEqual(["idempotency_key_reused"]);
    expect(await charged(name, "other")).toBe(0);
  });

  it("A10 a dead letter with the key of another command does not change that command", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "wait", name: "hold", subject: name }], { delaySeconds: 600 });
    expect(await deliver("probe-commands-dlq", [command(name, name, "other")])).toEqual({ acked: 1, retried: 0 });
    expect(await rows("SELECT status FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([{ status: "accepted" }]);
    expect(await lettersOf(name)).toMatchObject([{ reason: "idempotency_key_reused", instance_id: null }]);
  });
});

describe("Deployments", () => {
  /** A command as an earlier deployment has accepted it, with its version of the payload. */
  async function acceptedAs(name: string, payload: object, schemaVersion: number): Promise<string> {
    const { instanceId } = await start(name, [], { idempotencyKey: name, delaySeconds: 600, payload: { name, steps: [] } });
    const envelope = { ...(await envelopeOf(instanceId)), payload_inline: payload, schema_version: schemaVersion };
    await env.DB.prepare("UPDATE millrace_instances SET envelope = ?2, fingerprint = ?3 WHERE id = ?1")
      .bind(instanceId, JSON.stringify(envelope), ids.fingerprint(payload))
      .run();
    return instanceId;
  }

  it("A02 a repeat of a command after a deployment that raised the payload version is a replay, and not a reused key", async () => {
    const name = fresh();
    const payload = { title: name, steps: [] };
    const instanceId = await acceptedAs(name, payload, 1);
    expect(await start(name, [], { idempotencyKey: name, schemaVersion: 1, payload })).toMatchObject({ instanceId, replayed: true });
    expect(await start(name, [], { idempotencyKey: name, payload: { name, steps: [] } })).toMatchObject({ instanceId, replayed: true });
  });

  it("A02 a repeat of a command after a deployment that added a default value is a replay; another payload is still refused", async () => {
    const name = fresh();
    const instanceId = await acceptedAs(name, { name, steps: [] }, 2);
    expect(await start(name, [], { idempotencyKey: name })).toMatchObject({ instanceId, replayed: true });
    await expect(start(name, [], { idempotencyKey: name, payload: { name, steps: [], note: "more" } })).rejects.toMatchObject({
      code: "idempotency_key_reused",
    });
  });

  it("A02 an event that is delivered again after a deployment changed the schema of its command leaves no dead letter", async () => {
    const name = fresh();
    const [answer] = await acceptCommands(probeEnv, app, tenant, [{ type: "lab.requested", payload: { name }, delaySeconds: 600 }]);
    if (answer instanceof MillraceError || answer === undefined) throw answer;
    await env.DB.prepare(
      "UPDATE millrace_instances SET envelope = json_remove(envelope, '$.payload_inline.note'), fingerprint = ?2 WHERE id = ?1",
    )
      .bind(answer.instanceId, ids.fingerprint({ name }))
      .run();
    expect(await deliver("probe-events", [event("lab.event" as never, name, { name })])).toEqual({ acked: 1, retried: 0 });
    expect(await lettersOf(name)).toEqual([]);
  });
});

describe("Acceptance proof", () => {
  it("Q02 a command with a forged acceptance proof delays no other message", async () => {
    const [odd, good] = [fresh(), fresh()];
    const forged = { ...command(odd, odd, "charge"), acceptance: "é".repeat(32) };
    expect(await deliver("probe-commands", [forged, command(good, good, "charge")])).toEqual({ acked: 2, retried: 0 });
    for (const name of [odd, good])
      await until(
        () => charged(name, "charge"),
        (count) => count === 1,
      );
  });

  it.each([
    ["when it is 61 seconds old", 61_000, 1],
    ["at the second delivery of its message", 0, 2],
  ])("Q01 an acceptance proof is not trusted %s: the consumer checks the database row", async (_, age, attempts) => {
    const name = fresh();
    const message = { ...command(name, name, "charge"), created_at: new Date(Date.now() - age).toISOString() };
    const proof = prove(probeEnv.MILLRACE_KEY, acceptance({ name: "probe" }, message, "probe-commands"));
    expect(await deliver("probe-commands", [{ ...message, acceptance: proof }], attempts)).toEqual({ acked: 1, retried: 0 });
    // With a trusted proof the command would have started without a row.
    expect(await rows("SELECT deliveries FROM millrace_instances WHERE idempotency_key = ?1", name)).toEqual([{ deliveries: 1 }]);
    await until(
      () => charged(name, "charge"),
      (count) => count === 1,
    );
  });
});
