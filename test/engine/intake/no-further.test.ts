import { env } from "cloudflare:workers";
import { call, ids, on } from "millrace";
import { deliverTo } from "millrace/testing";
import { dispatch } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { REDACTED } from "../../../packages/millrace/src/contract/redact.ts";
import { ProbeRouted } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { deliver, envelopeOf, event, fresh, probeEnv, reaches, rows, start } from "../harness.ts";
import { lettersAbout, routed } from "./routed.ts";

describe("Unprocessable messages", () => {
  const command = (key: string, payload: object) =>
    ({ ...event("probe.done", key, payload, key), kind: "command", message_type: "probe.requested", schema_version: 2 }) as const;

  it.each(["probe-commands", "probe-commands-dlq"])(
    "I16 a message on %s with half of a surrogate pair and a used key becomes a dead letter",
    async (queue) => {
      const name = fresh();
      const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const cut = command(name, { name, steps: [], note: "cut \ud83d" });
      const neighbours = [{ neighbour: name }, { ...command(fresh(), {}), schema_version: 0, subject: name }];
      expect(await deliver(queue, [cut, ...neighbours])).toEqual({ acked: 3, retried: 0 });
      expect(await lettersAbout(name)).toHaveLength(3);
    },
  );

  it.each([
    ["1e999 (Infinity)", JSON.parse("1e999"), "Refused at payload_inline.number: Infinity, which is no number in JSON"],
    ["NaN", Number.NaN, "Refused at payload_inline.number: NaN, which is no number in JSON"],
    ["a BigInt", 10n ** 30n, "Refused at payload_inline.number: 1000000000000000000000000000000, which is no number in JSON"],
    ["half a character", "\ud83d", "Refused at payload_inline.number: half of a surrogate pair"],
  ])(
    "Q02 a command or event with %s as a number becomes a dead letter at its first attempt, and the other messages continue",
    async (_, number, error) => {
      const name = fresh();
      const good = command(name, { name, steps: [] });
      const bad = command(`${name}/bad`, { name, steps: [], number });
      expect(await deliver("probe-commands", [good, bad])).toEqual({ acked: 2, retried: 0 });
      expect(await rows("SELECT deliveries FROM millrace_instances WHERE idempotency_key = ?1", name)).toEqual([{ deliveries: 1 }]);
      expect(await lettersAbout(name)).toMatchObject([{ reason: "invalid_payload", attempts: 1, error: expect.stringContaining(error) }]);
      const about = fresh();
      const said = [about, "bad"].map((value, index) => event("probe.signal", about, { about, value, ...(index === 1 && { number }) }));
      expect(await deliver("probe-events", said)).toEqual({ acked: 2, retried: 0 });
      expect(await rows("SELECT 1 FROM millrace_signals WHERE subject = ?1", about)).toHaveLength(1);
      expect(await lettersAbout(about)).toMatchObject([{ reason: "invalid_payload", attempts: 1, error: expect.stringContaining(error) }]);
      await env.DB.prepare("DELETE FROM millrace_signals WHERE subject = ?1").bind(about).run();
    },
  );

  it.each([
    ["a BigInt", 10n],
    ["a cycle", cycle()],
    ["an object with a secret", { password: "hunter2" }],
    ["50,000 characters", "hunter2".padStart(50_000)],
  ])(
    "Q02 a message with %s as its subject and type becomes a dead letter, and the log line does not contain that value",
    async (_, subject) => {
      const name = fresh();
      const said = vi.spyOn(console, "error");
      onTestFinished(() => said.mockRestore());
      const bad = { ...command(name, {}), subject, message_type: subject, schema_version: 0 };
      expect(await deliver("probe-commands", [bad, command(`${name}/good`, { name, steps: [] })])).toEqual({ acked: 2, retried: 0 });
      expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key = ?1", name)).toHaveLength(1);
      const [line] = said.mock.calls.map(String).filter((text) => text.includes('"log":"delivery"') && text.includes('"captured"'));
      // Sensitive values cannot be found in a cyclic body, so its key is hidden too.
      const key = line?.includes(name) ? name : REDACTED;
      expect(JSON.parse(line ?? "null")).toMatchObject({ log: "delivery", outcome: "captured", idempotency_key: key });
      expect(line).not.toContain("hunter2");
      expect(line?.length).toBeLessThan(1500);
    },
  );

  it.each([
    ["a list of ten million holes", "A value of the type object that holds more than 500000 values", () => holes(10_000_000)],
    ["an object that contains itself 2^30 times", "A value of the type object that holds more than 500000 values", doubled],
    ["a megabyte", "A value of the type object that has 1000", () => "x".repeat(1_000_000)],
    ["wide characters in a megabyte", "A value of the type object that has 18", () => "\u0001".repeat(300_000)],
  ])("Q02 a message with %s becomes a dead letter that describes the value, and the other messages continue", async (_, kept, large) => {
    const name = fresh();
    const bad = { ...command(name, {}), subject: large(), schema_version: 0 };
    expect(await deliver("probe-commands", [bad, command(`${name}/good`, { name, steps: [] })])).toEqual({ acked: 2, retried: 0 });
    const letters = await rows<{ reason: string; body: string }>(
      "SELECT reason, body FROM millrace_dead_letters WHERE idempotency_key = ?1",
      name,
    );
    expect(letters).toMatchObject([{ reason: expect.stringContaining("invalid_"), body: expect.stringContaining(kept) }]);
    expect(await rows("SELECT deliveries FROM millrace_instances WHERE idempotency_key = ?1", `${name}/good`)).toEqual([{ deliveries: 1 }]);
  });

  it("Q08 a message whose dead letter the database refuses is redelivered alone; the other dead letters are stored", async () => {
    const name = fresh();
    const prototype = Object.getPrototypeOf(env.DB) as D1Database;
    const real = prototype.batch;
    const spy = vi.spyOn(prototype, "batch").mockImplementation(function (this: D1Database, statements) {
      const refused = JSON.stringify(statements).includes(`${name}/refused`);
      return refused ? Promise.reject(new Error("D1_ERROR: string or blob too big: SQLITE_TOOBIG")) : real.call(this, statements);
    } as typeof real);
    onTestFinished(() => spy.mockRestore());
    const messages = ["one", "two", "refused", "three"].map((mark) => ({ mark: `${name}/${mark}` }));
    expect(await deliver("probe-events", messages)).toEqual({ acked: 3, retried: 1 });
    expect(await deliver("probe-events-dlq", messages)).toEqual({ acked: 3, retried: 1 });
    expect(await lettersAbout(name)).toHaveLength(3);
  });

  it("Q02 a message with 10,000 unknown fields becomes a dead letter with fifty issues", async () => {
    const name = fresh();
    const unknown = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`${index}`, 0]));
    expect(await deliver("probe-events", [{ ...command(name, {}), ...unknown }])).toEqual({ acked: 1, retried: 0 });
    const [letter] = await rows<{ issues: string }>("SELECT issues FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    expect(JSON.parse(letter?.issues ?? "[]")).toHaveLength(50);
  });

  it("Q09 an event whose route throws a value without a message is redelivered, and the other messages are settled", async () => {
    const name = fresh();
    const handle = routed(
      on(
        ProbeRouted,
        call(({ payload }) => (payload.name === name ? Promise.reject(Object.create(null)) : Promise.resolve())),
      ),
    );
    const events = [name, fresh()].map((one) => event("probe.routed", one, { name: one }));
    expect(await handle(events)).toEqual({ acked: 1, retried: 1 });
    expect(await handle(events.slice(0, 1), 3)).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(name)).toMatchObject([{ reason: "exhausted", error: "A thrown object that has no text." }]);
  });

  it("I16 an invalid command whose platform status cannot be read is redelivered alone", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [], { delaySeconds: 600 });
    const refused = { ...(await envelopeOf(instanceId)), payload_inline: { name, steps: "none" } };
    await env.DB.prepare("UPDATE millrace_instances SET envelope = ?2, fingerprint = ?3 WHERE id = ?1")
      .bind(instanceId, JSON.stringify(refused), ids.fingerprint(refused.payload_inline))
      .run();
    const PROBE = { get: () => Promise.reject(new Error("Network connection lost.")) };
    const consume = (batch: MessageBatch) => dispatch(app)(batch, { ...probeEnv, PROBE } as never);
    expect(await deliverTo(consume, "probe-commands", [refused, { neighbour: name }])).toEqual({ acked: 1, retried: 1 });
    expect(await lettersAbout(name)).toMatchObject([{ reason: "invalid_envelope" }]);
    await env.DB.prepare("UPDATE millrace_instances SET status = 'terminated', check_at = NULL WHERE id = ?1").bind(instanceId).run();
  });
});

/** A value that has no JSON text. */
function cycle(): object {
  const itself: { itself?: object } = {};
  itself.itself = itself;
  return itself;
}

/** A list without items that claims this length. */
function holes(length: number): unknown[] {
  const list: unknown[] = [];
  list.length = length;
  return list;
}

/** A few objects that would be a thousand million objects in JSON. */
function doubled(): unknown {
  let one: unknown = [];
  for (let level = 0; level < 30; level++) one = [one, one];
  return one;
}
