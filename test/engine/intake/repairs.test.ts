import { call, defineConsumer, MillraceError, on } from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import { actions, deadLetters, type Repair } from "millrace/operate";
import { deliverTo, settleCounts } from "millrace/testing";
import { catalog, dispatch, keeperOf } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { RepairableLetter } from "../../../packages/millrace/src/topology/hooks.ts";
import { ProbeRouted, probeCommands, probeEvents } from "../../probe/messages.ts";
import { probe } from "../../probe/workflows.ts";
import { dieAt, event, fresh, keeperRound, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { lettersAbout, reader } from "./letter.ts";

const payloadOf = ({ payload_inline }: RepairableLetter["message"]) => payload_inline as Record<string, unknown>;

/** A repair for messages of a producer that wrote `title` instead of `name`. */
const titled: Repair = {
  name: "title-for-name",
  when: ({ reason, message }) => reason === "invalid_payload" && typeof payloadOf(message)?.title === "string",
  fix: (message) => ({ ...message, payload_inline: { name: payloadOf(message).title, parts: [] } }),
};

/** A consumer with these repairs, and the messages that its route received. */
function repairing(...repairs: Repair[]) {
  const heard: string[] = [];
  const failing = new Set<string>();
  const hear = call<{ name: string }>(({ payload: { name } }) => {
    if (failing.has(name)) throw new Error(`${name} failed.`);
    heard.push(name);
  });
  const app = catalog({
    consumers: [
      defineConsumer({ queue: probeEvents, repairs, routes: [on(ProbeRouted, hear)] }),
      defineConsumer({ queue: probeCommands, repairs, starts: [probe] }),
    ],
  });
  const consume = dispatch(app);
  const deliver = (bodies: unknown[], attempts = 1, queue = "probe-events") =>
    deliverTo((batch) => consume(batch, probeEnv as never), queue, bodies, attempts);
  return { app, heard, failing, deliver };
}

const broken = (name: string) => ({ ...event("probe.routed", name, {}), payload_inline: { title: name } });
const letterOf = async (name: string) => deadLetters.get(probeEnv, reader, (await lettersAbout(name))[0]?.id ?? "");
/** The messages for a name that are in the outbox. */
const waiting = async (name: string) =>
  (await rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`)).map(({ body }) => JSON.parse(body));
/** Keeps messages in the outbox until the end of the test, because another consumer would process them. */
function nobodyElseTakes(): void {
  const sent = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue, "sendBatch").mockResolvedValue(undefined as never);
  onTestFinished(() => sent.mockRestore());
}
const repairsOf = async (id: string) =>
  (await actions.list(probeEnv, operator, { limit: 200 })).items.filter(({ verb, target }) => verb === "repair" && target === id);

describe("Repairs", () => {
  it("a dead letter with a matching repair is repaired when it is captured, and shows the repair and the changed fields", async () => {
    const name = fresh();
    const { heard, deliver } = repairing(titled);
    const one = broken(name);
    nobodyElseTakes();
    expect(await deliver([one, one])).toEqual({ acked: 2, retried: 0 });
    const letter = await letterOf(name);
    expect(letter).toMatchObject({
      state: "replayed",
      repair: { name: "title-for-name", outcome: "sent", changed: ["payload_inline.title", "payload_inline.name", "payload_inline.parts"] },
    });
    expect(await repairsOf(letter.id)).toMatchObject([
      { actor: "millrace", result: "applied", detail: { repair: "title-for-name", changed: letter.repair?.changed } },
    ]);
    const [mended] = await waiting(name);
    expect(mended).toMatchObject({ idempotency_key: one.idempotency_key, payload_inline: { name } });
    await deliver([mended]);
    expect(heard).toEqual([name]);
    // Older copies of the message are ignored.
    expect(await deliver([one], 2)).toEqual({ acked: 1, retried: 0 });
    expect(heard).toEqual([name]);
    expect(await lettersAbout(name)).toHaveLength(1);
  });

  it("a dead letter of a command is repaired, and the command starts under its key", async () => {
    const name = fresh();
    const { deliver } = repairing({
      name: "no-steps",
      when: ({ reason }) => reason === "invalid_payload",
      fix: (message) => ({ ...message, payload_inline: { ...payloadOf(message), steps: [{ do: "commit", name: "a" }] } }),
    });
    const came = { message_type: "probe.requested", kind: "command", schema_version: 2, payload_inline: { name } };
    const command = { ...event("probe.routed", name, {}), ...came };
    await deliver([command], 1, "probe-commands");
    const letter = await letterOf(name);
    expect(letter).toMatchObject({ state: "replayed", repair: { outcome: "sent", changed: ["payload_inline.steps"] } });
    const [action] = await repairsOf(letter.id);
    expect(await reaches(action?.instance_id ?? "", "complete")).toBe("complete");
  });

  it("a dead letter is repaired only by the first matching repair", async () => {
    const name = fresh();
    const second = vi.fn(() => true);
    const { deliver } = repairing({ ...titled, name: "not-this", when: () => false }, titled, { ...titled, name: "third", when: second });
    await deliver([broken(name)]);
    expect((await letterOf(name)).repair?.name).toBe("title-for-name");
    expect(second).not.toHaveBeenCalled();
  });

  it("repairs are counted by queue, repair and outcome", async () => {
    const name = fresh();
    const { deliver } = repairing({ ...titled, name: "a-counted-one" });
    const series = ["probe-events", "a-counted-one", "sent"];
    await deliver([broken(name)]);
    await settleCounts(probeEnv);
    const { ever } = await keeperOf(probeEnv).vitals();
    expect(ever.dead_letter_repairs_total?.[JSON.stringify(series)]).toBe(1);
  });
});

describe("Failing repairs", () => {
  it.each<[string, Pick<Repair, "fix"> & Partial<Repair>, object]>([
    [
      "throws",
      {
        fix: () => {
          throw new TypeError("no such field");
        },
      },
      { outcome: "failed", error: "no such field", changed: [] },
    ],
    [
      "throws null",
      {
        fix: () => {
          throw null;
        },
      },
      { outcome: "failed", error: "null" },
    ],
    [
      "a repair that throws in its condition",
      {
        when: () => {
          throw new Error("who is it?");
        },
        fix: (message) => message,
      },
      { outcome: "failed", error: "who is it?" },
    ],
    ["a repair that returns no message", { fix: () => "mended" }, { outcome: "refused" }],
    ["a repair that returns nothing", { fix: () => undefined }, { outcome: "refused" }],
    [
      "a repair that returns a cycle",
      {
        fix: (message) => {
          const all: Record<string, unknown> = { ...message };
          all.self = all;
          return all;
        },
      },
      { outcome: "failed" },
    ],
    ["a repair that returns the message unchanged", { fix: (message) => message }, { outcome: "refused", changed: [] }],
    [
      "a repair that returns an unknown field",
      { fix: (message) => ({ ...message, payload_inline: { name: "x", colour: "red" } }) },
      { outcome: "refused", error: expect.stringContaining("colour") },
    ],
    [
      "a repair that changes the idempotency key",
      { fix: (message) => ({ ...message, idempotency_key: "another", payload_inline: { name: "x" } }) },
      { outcome: "refused", changed: ["idempotency_key", "payload_inline.title", "payload_inline.name"] },
    ],
    [
      "a repair that changes the tenant of the message",
      { fix: (message) => ({ ...message, tenant_id: "globex", payload_inline: { name: "x" } }) },
      { outcome: "refused" },
    ],
    [
      "a repair that sets a field of the engine",
      { fix: (message) => ({ ...message, replay: "made-up", payload_inline: { name: "x" } }) },
      { outcome: "refused" },
    ],
  ])("a dead letter with %s remains open with the reason, and is not repaired again", async (_, repair, said) => {
    const name = fresh();
    const asked = vi.fn(repair.when ?? (() => true));
    const { deliver } = repairing({ name: "a-bad-one", fix: repair.fix, when: asked });
    const one = broken(name);
    expect(await deliver([one])).toEqual({ acked: 1, retried: 0 });
    const letter = await letterOf(name);
    expect(letter).toMatchObject({ state: "open", repair: { name: "a-bad-one", ...said } });
    expect(await waiting(name)).toEqual([]);
    expect(await repairsOf(letter.id)).toEqual([]);
    await deliver([one]);
    expect((await letterOf(name)).repair).toEqual(letter.repair);
    expect(asked).toHaveBeenCalledTimes(1);
  });
});

it("a dead letter is not repaired again after its repaired message failed or an operator replayed it", async () => {
  const name = fresh();
  const asked = vi.fn(() => true);
  const { app, failing, deliver } = repairing({ ...titled, when: asked });
  failing.add(name);
  nobodyElseTakes();
  await deliver([broken(name)]);
  const [mended] = await waiting(name);
  await deliver([mended], 4);
  expect(asked).toHaveBeenCalledTimes(1);
  const open = () =>
    rows<{ id: string; repair: string | null }>(
      "SELECT id, repair FROM millrace_dead_letters WHERE body LIKE ?1 AND state = 'open'",
      `%${name}%`,
    );
  const [again] = await open();
  expect(again?.repair).toBeNull();
  await deadLetters.replay(probeEnv, app, reader, again?.id ?? "", { reason: "once more" });
  const third = (await waiting(name)).find(({ replay }) => replay !== mended.replay);
  await deliver([third], 4);
  expect(asked).toHaveBeenCalledTimes(1);
  expect(await open()).toHaveLength(1);
});

it("Q12 a repaired message is sent once when the process dies between the write of the repair and the send", async () => {
  const name = fresh();
  const { deliver } = repairing(titled);
  const one = { ...broken(name), created_at: new Date(Date.now() - 120_000).toISOString() };
  const death = dieAt("Q12 repaired, not sent");
  expect(await deliver([one])).toEqual({ acked: 0, retried: 1 });
  expect(death.died()).toBe(true);
  expect(await letterOf(name)).toMatchObject({ state: "replayed", repair: { outcome: "sent" } });
  expect(await waiting(name)).toHaveLength(1);
  // The invalid message is delivered again, and the repair is already recorded.
  expect(await deliver([one], 2)).toEqual({ acked: 1, retried: 0 });
  expect(await waiting(name)).toHaveLength(1);
  await keeperRound();
  expect(
    await until(
      () => waiting(name),
      (left) => left.length === 0,
    ),
  ).toEqual([]);
  expect(await repairsOf((await letterOf(name)).id)).toHaveLength(1);
});

it("Q12 a dead letter is repaired when its message is delivered again after a database error", async () => {
  const name = fresh();
  const { app, deliver } = repairing(titled);
  const one = { ...broken(name), created_at: new Date(Date.now() - 120_000).toISOString() };
  const away = new Proxy(probeEnv.DB, {
    get: (db, method) => {
      if (method !== "prepare") return Reflect.get(db, method).bind(db);
      return (text: string) => {
        if (text.includes("settled_at = ")) throw new MillraceError("unavailable", "The database is unavailable.");
        return db.prepare(text);
      };
    },
  });
  const without = (batch: MessageBatch) => dispatch(app)(batch, { ...probeEnv, DB: away } as never);
  expect(await deliverTo(without, "probe-events", [one], 1)).toEqual({ acked: 0, retried: 1 });
  expect(await letterOf(name)).toMatchObject({ state: "open", repair: null });
  expect(await deliver([one], 2)).toEqual({ acked: 1, retried: 0 });
  expect(await letterOf(name)).toMatchObject({ state: "replayed", repair: { outcome: "sent" } });
});

it("repairs are refused for the queue of a lane, because a repaired message would arrive after later messages", () => {
  const queue = defineLaneQueue({ name: "any-lane" });
  expect(() => defineConsumer({ queue, onFailure: "park", repairs: [titled], routes: [] })).toThrow("remove the repairs");
});

it.each<[string, Repair[], string]>([
  ["a repair with an invalid name", [{ ...titled, name: "Title for name" }], "lower case letters"],
  ["two repairs with one name", [titled, titled], "rename one"],
])("%s: the definition of the consumer is refused", (_, repairs, said) => {
  expect(() => defineConsumer({ queue: probeEvents, repairs, routes: [] })).toThrow(said);
});
