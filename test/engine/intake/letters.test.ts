import { env } from "cloudflare:workers";
import { deadLetters } from "millrace/operate";
import { keeperOf, outbox } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { LabOrphan } from "../../probe/lab.ts";
import { ProbeRouted } from "../../probe/messages.ts";
import { routing } from "../../probe/routing.ts";
import { app } from "../../probe/worker.ts";
import {
  deliver,
  dieAt,
  envelopeOf,
  event,
  fresh,
  happened,
  keeperRound,
  probeEnv,
  reaches,
  rows,
  start,
  statusOf,
  until,
} from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { failing, firstLetter, kept, lettersAbout, outboxAbout, reader, sentAbout } from "./letter.ts";

describe("Invalid messages", () => {
  it("Q10 an invalid message of the engine becomes one dead letter, and leaves the outbox in the same write", async () => {
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      await step.commit("say", () => ({ emit: [LabOrphan.from({ name: payload.name })] }));
    });
    const letter = await firstLetter(`"name":"${name}"`);
    expect(letter).toMatchObject({ reason: "unknown_message_type", attempts: 1, error: expect.stringContaining("lab.orphan") });
    expect(await outboxAbout(name)).toEqual([]);
    await reaches(instanceId, "complete");
    await keeperRound();
    expect(await lettersAbout(`"name":"${name}"`)).toHaveLength(1);
  });

  it("Q11 a copy of a skipped dead letter has no effect, also when the copy is valid after a deployment", async () => {
    const name = fresh();
    const message = { ...event("probe.routed", name, { name: 7 }), created_at: new Date(Date.now() - 120_000).toISOString() };
    await deliver("probe-events", [message]);
    const letter = await firstLetter(message.idempotency_key);
    expect(letter.reason).toBe("invalid_payload");
    expect(await deadLetters.skip(probeEnv, app, reader, letter.id, "not wanted")).toMatchObject({ skipped: true });
    await env.DB.prepare("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'probe-events', ?2, 0)")
      .bind(outbox.messageId(message), JSON.stringify(message))
      .run();
    // Delivers a valid message instead of a deployment that accepts the invalid one.
    const good = { ...message, payload_inline: { name, parts: [] } };
    await deliver("probe-events-dlq", [good]);
    const [exhausted] = (await lettersAbout(message.idempotency_key)).filter(({ state }) => state === "open");
    await deadLetters.skip(probeEnv, app, reader, exhausted?.id ?? "", "not wanted");
    expect(await deliver("probe-events", [good])).toEqual({ acked: 1, retried: 0 });
    expect(await deliver("probe-events", [message], 3)).toEqual({ acked: 1, retried: 0 });
    expect(await kept(name)).toEqual([]);
    expect(await outboxAbout(message.idempotency_key)).toEqual([]);
    expect((await lettersAbout(message.idempotency_key)).map(({ state }) => state)).toEqual(["skipped", "skipped"]);
  });
});

describe("Failing routes", () => {
  it("Q10 the keeper does not send a failing event again during its back-off; its dead letter has the real error and number of tries", async () => {
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      failing(payload.name);
      await step.commit("say", () => ({ emit: [ProbeRouted.from({ name: payload.name, parts: [] })] }));
    });
    const sent = sentAbout(name);
    await reaches(instanceId, "complete");
    // The consumer has tried the event once, and has set the time of the next try.
    const noted = ([row]: { due_at: number }[]) => row !== undefined && row.due_at > Date.now() + 10_000;
    expect(noted(await until(() => outboxAbout(name), noted, 2000))).toBe(true);
    // After ten seconds, a message without a recorded failure would count as lost.
    await env.DB.prepare("UPDATE millrace_outbox SET due_at = due_at - 10500 WHERE body LIKE ?1").bind(`%${name}%`).run();
    const before = sent();
    await keeperOf(probeEnv).round();
    expect(sent()).toBe(before);
    const [row] = await rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`);
    await deliver("probe-events", [JSON.parse(row?.body ?? "null")], 3);
    expect(await lettersAbout(name)).toMatchObject([
      { reason: "exhausted", error: `The call of ${name} failed.`, attempts: 3, state: "open" },
    ]);
    expect(await outboxAbout(name)).toEqual([]);
  });

  it("Q10 all copies of a failing event become one dead letter", async () => {
    const name = failing(fresh());
    const message = event("probe.routed", name, { name });
    for (let copy = 1; copy <= 3; copy++) expect(await deliver("probe-events", [message, message], 3)).toEqual({ acked: 2, retried: 0 });
    await deliver("probe-events-dlq", [message]);
    expect(await lettersAbout(name)).toMatchObject([{ error: `The call of ${name} failed.`, attempts: 3 }]);
  });

  it("Q11 a replayed event is processed as a separate message, and its older copies are ignored", async () => {
    const name = failing(fresh());
    const message = event("probe.routed", name, { name });
    await deliver("probe-events", [message], 3);
    const letter = await firstLetter(name);
    routing.failing.delete(name);
    expect(await deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "mended" })).toMatchObject({ sent: true });
    expect(
      await until(
        () => kept(name),
        (found) => found.length === 1,
      ),
    ).toHaveLength(1);
    await env.DB.prepare("DELETE FROM probe_rows WHERE name = ?1").bind(name).run();
    expect(await deliver("probe-events", [message], 2)).toEqual({ acked: 1, retried: 0 });
    expect(await kept(name)).toEqual([]);
    expect((await lettersAbout(name)).map(({ state }) => state)).toEqual(["replayed"]);
  });

  it("Q11 an event that is replayed and fails again becomes a dead letter again", async () => {
    const name = failing(fresh());
    await deliver("probe-events", [event("probe.routed", name, { name })], 3);
    const letter = await firstLetter(name);
    await deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "too early" });
    const [again] = await rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`);
    await deliver("probe-events", [JSON.parse(again?.body ?? "null")], 3);
    expect((await lettersAbout(name)).map(({ state }) => state).sort()).toEqual(["open", "replayed"]);
    expect(await outboxAbout(name)).toEqual([]);
  });

  it("Q09 an event whose route throws a final error becomes a dead letter at its first attempt", async () => {
    const name = fresh();
    const body = { ...event("probe.routed", name, {}), payload_inline: undefined, payload_ref: "r2://payloads/acme/nowhere" };
    expect(await deliver("probe-events", [body])).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(body.idempotency_key)).toMatchObject([{ reason: "payload_missing", attempts: 1 }]);
  });
});

describe("Committed commands", () => {
  it("I17 a running command whose message arrives in the dead-letter queue continues, and gets no dead letter", async () => {
    let go = false;
    const { instanceId, name } = await runLab(async ({ step }) => {
      await step.read("slow first step", async () => {
        while (!go) await scheduler.wait(10);
      });
      await step.commit("effect", () => ({}));
    });
    await platformReaches(instanceId, "running");
    await deliver("probe-commands-dlq", [await envelopeOf(instanceId)]);
    expect(await statusOf(instanceId)).not.toBe("dead");
    // A late copy arrives after a deployment that has removed the message type. The running instance is unchanged.
    await env.DB.prepare(
      "UPDATE millrace_instances SET message_type = 'lab.renamed', envelope = json_set(envelope, '$.message_type', 'lab.renamed') WHERE id = ?1",
    )
      .bind(instanceId)
      .run();
    expect(await deliver("probe-commands", [await envelopeOf(instanceId)], 2)).toEqual({ acked: 1, retried: 0 });
    expect(await statusOf(instanceId)).not.toBe("dead");
    go = true;
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await lettersAbout(name)).toEqual([]);
  });

  it.each(["while the command has the status accepted", "while the command has the status queued"])(
    "A03 the keeper starts a command whose message arrived in the dead-letter queue before the start (%s)",
    async (state) => {
      const name = fresh();
      dieAt("A03 accept committed, not enqueued");
      await start(name, [{ do: "keyed", name: "charge" }]).catch(() => undefined);
      const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
      if (state !== "while the command has the status accepted")
        await env.DB.prepare("UPDATE millrace_instances SET status = 'queued', check_at = NULL WHERE id = ?1").bind(row?.id).run();
      expect(await deliver("probe-commands-dlq", [await envelopeOf(row?.id ?? "")])).toEqual({ acked: 1, retried: 0 });
      expect(await lettersAbout(name)).toEqual([]);
      const looked = async () => {
        await keeperRound();
        return statusOf(row?.id ?? "");
      };
      expect(await until(looked, (status) => status === "complete")).toBe("complete");
      expect(await happened(`${name}/charge`)).toHaveLength(1);
    },
  );

  it("I16 a command of a type without a handler has one dead letter and the status `dead`; a skip ends it", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await start(name, [{ do: "keyed", name: "charge" }]).catch(() => undefined);
    await env.DB.prepare(
      "UPDATE millrace_instances SET message_type = 'probe.retired', workflow = 'retired', envelope = json_set(envelope, '$.message_type', 'probe.retired') WHERE subject = ?1",
    )
      .bind(name)
      .run();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    await deliver("probe-commands", [await envelopeOf(row?.id ?? "")]);
    expect(await statusOf(row?.id ?? "")).toBe("dead");
    const letter = await firstLetter(name);
    expect(letter.reason).toBe("unknown_message_type");
    await deadLetters.skip(probeEnv, app, reader, letter.id, "retired");
    expect(await statusOf(row?.id ?? "")).toBe("skipped");
  });
});

describe("Unprocessable messages", () => {
  it.each([
    ["a message nested 3,000 levels deep", () => JSON.parse(`${"[".repeat(3000)}${"]".repeat(3000)}`)],
    ["a message with half of a surrogate pair", () => ({ idempotency_key: "\ud800", payload_inline: "\udfff" })],
    ["a message with bytes and a map", () => ({ bytes: new Uint8Array([1, 2]), map: new Map([["a", 1n]]) })],
  ])("Q02 %s becomes a dead letter, and the other messages continue", async (_, poison) => {
    const name = fresh();
    expect(await deliver("probe-events", [{ mark: name, poison: poison() }, event("probe.routed", name, { name })])).toEqual({
      acked: 2,
      retried: 0,
    });
    expect(await kept(name)).toHaveLength(1);
    expect(await rows("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%"mark":"${name}"%`)).toHaveLength(1);
  });
});

it("I18 Q02 a message of bytes becomes its own dead letter, with its content", async () => {
  const orders = [fresh("order"), fresh("order")];
  const bytes = orders.map((order) => new TextEncoder().encode(order).buffer);
  expect(await deliver("probe-events", [...bytes, bytes[0]])).toEqual({ acked: 3, retried: 0 });
  for (const order of orders) expect(await lettersAbout(Buffer.from(order).toString("base64"))).toHaveLength(1);
});

it("a message with NUL in a subject or a key becomes a dead letter, because SQL functions would cut the text there", async () => {
  const name = fresh();
  const payload = { about: name, value: "v" };
  const messages = [event("probe.signal", `${name}\0other`, payload), event("probe.signal", name, payload, `${name}\0key`)];
  expect(await deliver("probe-events", messages)).toEqual({ acked: 2, retried: 0 });
  expect((await lettersAbout(name)).map(({ reason }) => reason)).toEqual(["invalid_envelope", "invalid_envelope"]);
  expect(await rows("SELECT id FROM millrace_signals WHERE subject LIKE ?1", `${name}%`)).toEqual([]);
});

describe("Lost messages", () => {
  it("O02 an event that its queue loses is sent again, because it leaves the outbox only when a consumer has accepted it", async () => {
    const name = fresh();
    const queue = Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue;
    const real = queue.sendBatch;
    let forgotten = 0;
    const spy = vi.spyOn(queue, "sendBatch").mockImplementation(async function (this: Queue, ...args) {
      const sent = [...args[0]].map(({ body }) => body as { message_type: string; subject: string });
      if (forgotten > 0 || !sent.some((one) => one.subject === name && one.message_type === "probe.done")) return real.apply(this, args);
      forgotten++;
      return { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } } as never;
    });
    onTestFinished(() => spy.mockRestore());
    const { instanceId } = await start(name, [{ do: "commit", name: "note", emit: true }]);
    await reaches(instanceId, "complete");
    await until(
      async () => forgotten,
      (count) => count === 1,
    );
    expect(await outboxAbout(name)).toHaveLength(1);
    await keeperRound();
    const applied = () => rows("SELECT id FROM probe_rows WHERE name = ?1 AND kind = 'event'", name);
    expect(await until(applied, (found) => found.length === 1)).toHaveLength(1);
    expect(
      await until(
        () => outboxAbout(name),
        (left) => left.length === 0,
      ),
    ).toEqual([]);
  });
});
