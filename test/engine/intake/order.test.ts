import { call, defineConsumer, type Envelope, on, project } from "millrace";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ProbeRequested, ProbeRouted, probeCommands, probeEvents } from "../../probe/messages.ts";
import { routedRow } from "../../probe/routing.ts";
import { probe } from "../../probe/workflows.ts";
import { event, fresh, probeEnv, rows } from "../harness.ts";
import { lettersAbout } from "./routed.ts";

type Rule = NonNullable<Parameters<typeof defineConsumer>[0]["sequence"]>;

/** A consumer of numbered events with this rule for gaps, and the events that its route received, in order. */
function listening(sequence: Rule) {
  const heard: string[] = [];
  const failing = new Set<string>();
  /** Messages whose rows the database refuses, because the table is missing. */
  const tableless = new Set<string>();
  const keepRow = project<{ name: string }>(({ payload: { name }, envelope }) => {
    const row = routedRow(envelope.idempotency_key, name);
    return tableless.has(name) ? { ...row, text: row.text.replace("probe_rows", "later_rows") } : row;
  });
  const hear = call<{ name: string }>(async ({ payload: { name } }) => {
    await scheduler.wait(Math.random() * 3);
    if (failing.has(name)) throw new Error(`${name} failed.`);
    heard.push(name);
  });
  const consumer = defineConsumer({
    queue: probeEvents,
    sequence,
    retries: { limit: 2, initial: "1 second", max: "2 seconds" },
    batch: { size: 100, waitSeconds: 0 },
    routes: [on(ProbeRouted, keepRow, hear)],
  });
  const consume = dispatch(catalog({ consumers: [consumer] }));
  const deliver = (bodies: readonly Envelope[], attempts = 1) =>
    deliverTo((batch) => consume(batch, probeEnv as never), "probe-events", bodies, attempts);
  return { heard, failing, tableless, deliver };
}

/** Returns the numbered event `n` of a subject. Every delivery of it is the same message. */
function stream(subject = fresh(), source = "test") {
  const made = new Map<number, Envelope>();
  return (number: number, said: Partial<Envelope> = {}): Envelope => {
    const one = made.get(number) ?? { ...event("probe.routed", subject, { name: `${subject}#${number}` }), source, sequence: number };
    made.set(number, one);
    return { ...one, ...said };
  };
}

const numbers = (heard: readonly string[]) => heard.map((name) => Number(name.split("#")[1]));
const LONG_AGO = new Date(Date.now() - 3_600_000).toISOString();

describe.each<[string, Rule]>([
  ["wait", { gap: "wait", limit: "2 minutes" }],
  ["retry", { gap: "retry" }],
  ["skip", { gap: "skip" }],
])("Numbered messages (%s)", (_, rule) => {
  it("numbered messages are processed in their order, for any order within a batch, and once for any repeats", async () => {
    const { heard, deliver } = listening(rule);
    const nth = stream();
    expect(await deliver([3, 1, 2].map((number) => nth(number)))).toEqual({ acked: 3, retried: 0 });
    expect(await deliver([5, 2, 4, 1].map((number) => nth(number)))).toEqual({ acked: 4, retried: 0 });
    expect(numbers(heard)).toEqual([1, 2, 3, 4, 5]);
  });

  it("a numbered message that arrives twice in one batch is processed once; the repeat is acknowledged after the first copy", async () => {
    const { heard, failing, deliver } = listening(rule);
    const nth = stream();
    failing.add(`${nth(1).subject}#1`);
    expect(await deliver([nth(1), nth(1)])).toEqual({ acked: 0, retried: 2 });
    failing.clear();
    expect(await deliver([nth(1), nth(1)])).toEqual({ acked: 1, retried: 1 });
    expect(await deliver([nth(1)], 9)).toEqual({ acked: 1, retried: 0 });
    expect(numbers(heard)).toEqual([1]);
    expect(await lettersAbout(nth(1).subject)).toEqual([]);
  });

  it("numbered messages of each subject, source and tenant are a separate stream; messages without a number have no order", async () => {
    const { heard, deliver } = listening(rule);
    const subject = fresh();
    const [one, other] = [stream(subject), stream(subject, "another")];
    const free = { ...event("probe.routed", subject, { name: `${subject}#9` }) };
    const bodies = [one(2), one(1), other(1), stream(subject)(1, { tenant_id: fresh("tenant") }), stream()(1), free];
    expect(await deliver(bodies)).toEqual({ acked: 6, retried: 0 });
    expect(numbers(heard).toSorted()).toEqual([1, 1, 1, 1, 2, 9]);
  });

  it("the first numbered message of a stream is 1; a message 0 becomes a dead letter that names the option `first: 0`", async () => {
    const { heard, deliver } = listening(rule);
    const nth = stream();
    expect(await deliver([nth(1)])).toEqual({ acked: 1, retried: 0 });
    expect(await deliver([nth(0)])).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(nth(0).subject)).toMatchObject([{ reason: "out_of_order", error: expect.stringContaining("first: 0") }]);
    expect(await deliver([nth(0, { replay: "by-hand" }), nth(2)])).toEqual({ acked: 2, retried: 0 });
    expect(numbers(heard).toSorted()).toEqual([0, 1, 2]);
  });

  it("numbered messages wait when the first message of their stream cannot be written", async () => {
    const { tableless, deliver } = listening(rule);
    const nth = stream();
    tableless.add(`${nth(1).subject}#1`);
    expect(await deliver([1, 2, 3].map((number) => nth(number)))).toEqual({ acked: 0, retried: 3 });
    tableless.clear();
    expect(await deliver([1, 2, 3].map((number) => nth(number)))).toEqual({ acked: 3, retried: 0 });
    const kept = await rows<{ name: string }>("SELECT name FROM probe_rows WHERE name LIKE ?1", `${nth(1).subject}#%`);
    expect(numbers(kept.map(({ name }) => name)).toSorted()).toEqual([1, 2, 3]);
  });

  it("two concurrent batches of numbered messages do not both advance their stream: one batch is redelivered", async () => {
    const { deliver } = listening(rule);
    const nth = stream();
    expect(await deliver([nth(1)])).toEqual({ acked: 1, retried: 0 });
    const answers = await Promise.all([deliver([nth(2)]), deliver([nth(2, { idempotency_key: "another-two" }), nth(3)])]);
    expect(answers.map(({ retried }) => retried > 0).toSorted()).toEqual([false, true]);
    await deliver([nth(3)]);
    const subject = nth(1).subject;
    expect(await rows("SELECT count(*) AS count FROM probe_rows WHERE name = ?1", `${subject}#2`)).toEqual([{ count: 1 }]);
  });

  it("a stream of numbered messages keeps its position when the process dies before the messages are accepted", async () => {
    const { deliver } = listening(rule);
    const nth = stream();
    const fails = vi.spyOn(Object.getPrototypeOf(probeEnv.DB) as D1Database, "batch").mockRejectedValueOnce(new Error("died"));
    onTestFinished(() => fails.mockRestore());
    expect(await deliver([nth(1), nth(2)])).toEqual({ acked: 0, retried: 2 });
    expect(await deliver([nth(2), nth(1)], 2)).toEqual({ acked: 2, retried: 0 });
  });
});

describe("Gaps", () => {
  it("with the option `first: 0`, a missing message 0 is a gap in a stream of numbered messages", async () => {
    const { heard, deliver } = listening({ gap: "wait", limit: "2 minutes", first: 0 });
    const nth = stream();
    expect(await deliver([nth(1)])).toEqual({ acked: 0, retried: 1 });
    expect(await deliver([nth(0), nth(1)])).toEqual({ acked: 2, retried: 0 });
    expect(await deliver([nth(2, { created_at: LONG_AGO })])).toEqual({ acked: 1, retried: 0 });
    expect(numbers(heard)).toEqual([0, 1, 2]);
    const late = stream();
    expect(await deliver([late(1, { created_at: LONG_AGO })])).toEqual({ acked: 1, retried: 0 });
    expect(await deliver([late(0)])).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(late(0).subject)).toMatchObject([{ reason: "out_of_order", error: expect.stringContaining("too late") }]);
  });

  it("with the rule `wait`, later numbered messages wait for the missing message, and use no try for that", async () => {
    const back = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue, "send").mockResolvedValue(undefined as never);
    onTestFinished(() => back.mockRestore());
    const { heard, deliver } = listening({ gap: "wait", limit: "2 minutes" });
    const nth = stream();
    expect(await deliver([nth(1), nth(3), nth(4)])).toEqual({ acked: 1, retried: 2 });
    expect(await deliver([nth(3)], 2), "before its last try the message is requeued").toEqual({ acked: 1, retried: 0 });
    expect(await deliver([nth(3)], 3), "the same").toEqual({ acked: 1, retried: 0 });
    expect(back.mock.calls.map(([body]) => body)).toEqual([nth(3), nth(3)]);
    expect(await lettersAbout(nth(1).subject)).toEqual([]);
    expect(await deliver([nth(4), nth(2), nth(3)])).toEqual({ acked: 3, retried: 0 });
    expect(numbers(heard)).toEqual([1, 2, 3, 4]);
  });

  it("with the rule `wait`, a message continues after its maximum age; the missing message then becomes a dead letter", async () => {
    const { heard, deliver } = listening({ gap: "wait", limit: "2 minutes" });
    const nth = stream();
    expect(await deliver([nth(1), nth(4, { created_at: LONG_AGO })])).toEqual({ acked: 2, retried: 0 });
    expect(numbers(heard)).toEqual([1, 4]);
    expect(await deliver([nth(4), nth(1)]), "repeats are repeats").toEqual({ acked: 2, retried: 0 });
    expect(await lettersAbout(nth(1).subject)).toEqual([]);
    expect(await deliver([nth(3)])).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(nth(1).subject)).toMatchObject([
      { reason: "out_of_order", attempts: 1, error: expect.stringContaining("too late") },
    ]);
    expect(await deliver([nth(2, { replay: "by-hand" })])).toEqual({ acked: 1, retried: 0 });
    expect(numbers(heard)).toEqual([1, 4, 2]);
  });

  it("with the rule `retry`, later messages become dead letters after their tries; the missing message is still processed", async () => {
    const { heard, deliver } = listening({ gap: "retry" });
    const nth = stream();
    expect(await deliver([nth(2)]), "no stream begins with 2").toEqual({ acked: 0, retried: 1 });
    expect(await deliver([nth(2)], 3)).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(nth(1).subject)).toMatchObject([
      { reason: "out_of_order", attempts: 3, error: expect.stringContaining("gap") },
    ]);
    expect(await deliver([nth(1)])).toEqual({ acked: 1, retried: 0 });
    expect(await deliver([nth(2, { replay: "by-hand" })])).toEqual({ acked: 1, retried: 0 });
    expect(numbers(heard)).toEqual([1, 2]);
  });

  it("with the rule `skip`, later messages continue at once, and a late message is ignored", async () => {
    const { heard, deliver } = listening({ gap: "skip" });
    const nth = stream();
    expect(await deliver([nth(1), nth(5)])).toEqual({ acked: 2, retried: 0 });
    expect(await deliver([nth(3)])).toEqual({ acked: 1, retried: 0 });
    expect(numbers(heard)).toEqual([1, 5]);
    expect(await lettersAbout(nth(1).subject)).toEqual([]);
  });

  it("a stream of numbered messages stops at a message with failing code, and no message is lost", async () => {
    const { heard, failing, deliver } = listening({ gap: "wait", limit: "2 minutes" });
    const nth = stream();
    failing.add(`${nth(2).subject}#2`);
    expect(await deliver([nth(1), nth(2), nth(3)])).toEqual({ acked: 1, retried: 2 });
    failing.clear();
    expect(await deliver([nth(3), nth(2)], 2)).toEqual({ acked: 2, retried: 0 });
    expect(numbers(heard)).toEqual([1, 2, 3]);
  });
});

it("numbered commands start once each, in their order", async () => {
  const subject = fresh();
  const consumer = defineConsumer({ queue: probeCommands, sequence: { gap: "wait", limit: "2 minutes" }, starts: [probe] });
  const consume = dispatch(catalog({ consumers: [consumer] }));
  const command = (number: number): Envelope => ({
    ...event("probe.done", subject, { name: `${subject}#${number}`, steps: [{ do: "keyed", name: "charge" }] }, `${subject}#${number}`),
    schema_version: ProbeRequested.version,
    message_type: ProbeRequested.type,
    kind: "command",
    sequence: number,
  });
  const deliver = (...all: number[]) => deliverTo((batch) => consume(batch, probeEnv as never), "probe-commands", all.map(command), 1);
  expect(await deliver(3, 1)).toEqual({ acked: 1, retried: 1 });
  expect(await deliver(1, 3, 2)).toEqual({ acked: 3, retried: 0 });
  const started = await rows<{ key: string }>(
    "SELECT envelope->>'idempotency_key' AS key FROM millrace_instances WHERE subject = ?1 ORDER BY rowid",
    subject,
  );
  expect(started.map(({ key }) => Number(key.split("#")[1]))).toEqual([1, 2, 3]);
});
