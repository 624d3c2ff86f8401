import { call, defineConsumer, MillraceError, on, retryAfter } from "millrace";
import { deadLetters } from "millrace/operate";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import { describe, expect, it } from "vitest";
import { outboxId } from "../../../packages/millrace/src/contract/ids.ts";
import { ProbeRouted, probeEvents } from "../../probe/messages.ts";
import { dieAt, event, fresh, probeEnv, rows } from "../harness.ts";
import { lettersAbout, reader } from "./letter.ts";

/** A queue with a route that throws the error set for the name of a message. */
const failures = new Map<string, unknown>();
const app = catalog({
  consumers: [
    defineConsumer({
      queue: probeEvents,
      retries: { limit: 3, initial: "1 second", max: "2 seconds" },
      routes: [
        on(
          ProbeRouted,
          call(({ payload: { name } }) => {
            if (failures.has(name)) throw failures.get(name);
          }),
        ),
      ],
    }),
  ],
});
const consume = dispatch(app);
const deliver = (bodies: unknown[], attempts: number, env: object = probeEnv, queue = "probe-events") =>
  deliverTo((batch) => consume(batch, env as never), queue, bodies, attempts);
const message = (name: string) => event("probe.routed", name, { name });
const noted = (name: string) => rows("SELECT * FROM millrace_failed_deliveries WHERE error LIKE ?1", `%${name}%`);

const letterOf = async (name: string) => {
  const [letter] = await lettersAbout(name);
  return deadLetters.get(probeEnv, reader, letter?.id ?? "");
};

describe("Last failure", () => {
  it("a dead letter shows the last recorded failure of its message when the process of the last delivery died without an error", async () => {
    const name = fresh();
    const one = message(name);
    failures.set(name, new MillraceError("upstream_refused", `${name} was refused.`, { upstreamStatus: 503, step: "tell them" }));
    expect(await deliver([one], 1)).toEqual({ acked: 0, retried: 1 });
    failures.set(name, retryAfter(1000, `${name} is asked too often.`, 429));
    expect(await deliver([one], 2)).toEqual({ acked: 0, retried: 1 });
    expect(await noted(name)).toMatchObject([{ code: "retry_after", upstream_status: 429, failures: 2 }]);
    await deliver([one], 1, probeEnv, "probe-events-dlq");
    const letter = await letterOf(name);
    expect(letter).toMatchObject({ reason: "retry_after", error: `${name} is asked too often.`, upstream_status: 429, attempts: 4 });
    const times = [letter.first_attempt_at, letter.last_attempt_at, letter.captured_at];
    expect(times).toEqual(times.toSorted());
    expect(times).not.toContain(null);
    expect(await noted(name)).toEqual([]);
  });

  it("a dead letter shows the failure of the last try, the upstream status and the time of the first failure", async () => {
    const name = fresh();
    failures.set(name, new MillraceError("upstream_refused", `${name} was refused.`, { upstreamStatus: 503 }));
    const one = message(name);
    for (const attempt of [1, 2, 3]) expect(await deliver([one], attempt)).toEqual({ acked: 0, retried: 1 });
    const [first] = await noted(name);
    expect(await deliver([one], 4)).toEqual({ acked: 1, retried: 0 });
    const letter = await letterOf(name);
    const first_attempt_at = new Date(Number(first?.first_at)).toISOString();
    expect(letter).toMatchObject({ reason: "upstream_refused", upstream_status: 503, attempts: 4, first_attempt_at });
    expect(Date.parse(letter.last_attempt_at ?? "")).toBeGreaterThanOrEqual(Number(first?.last_at));
    expect(await noted(name)).toEqual([]);
  });

  it("Q05 a dead letter shows the last failure, also when the consumer of the dead-letter queue died before it stored the row", async () => {
    const name = fresh();
    failures.set(name, new MillraceError("upstream_refused", `${name} was refused.`));
    const one = message(name);
    await deliver([one], 1);
    const death = dieAt("Q05 dead letter not yet stored");
    expect(await deliver([one], 1, probeEnv, "probe-events-dlq")).toEqual({ acked: 0, retried: 1 });
    expect(death.died()).toBe(true);
    expect(await deliver([one, one], 2, probeEnv, "probe-events-dlq")).toEqual({ acked: 2, retried: 0 });
    expect(await lettersAbout(name)).toMatchObject([{ reason: "upstream_refused", error: `${name} was refused.` }]);
  });

  it("a dead letter shows that no failure was recorded for its message", async () => {
    const name = fresh();
    await deliver([message(name)], 1, probeEnv, "probe-events-dlq");
    expect(await letterOf(name)).toMatchObject({
      reason: "exhausted",
      error: expect.stringContaining("recorded no error"),
      first_attempt_at: null,
    });
  });

  it("a dead letter of an error without a known code has the code `exhausted` and the error's message", async () => {
    const name = fresh();
    failures.set(name, new TypeError(`${name} is undefined.`));
    const one = message(name);
    await deliver([one], 3);
    await deliver([one], 1, probeEnv, "probe-events-dlq");
    expect(await letterOf(name)).toMatchObject({ reason: "exhausted", error: `${name} is undefined.` });
  });
});

it("a dead letter that failed at its first delivery has the same time for its first and last attempt", async () => {
  const name = fresh();
  await deliver([{ ...message(name), payload_inline: { name, parts: 7 } }], 1);
  const letter = await letterOf(name);
  expect(letter.reason).toBe("invalid_payload");
  const [first, last] = [letter.first_attempt_at, letter.last_attempt_at].map((at) => Date.parse(at ?? ""));
  expect((last ?? 0) - (first ?? 0)).toBeLessThan(5000);
});

it("no failed delivery is recorded for a successful message, or when the payload bucket is unavailable", async () => {
  const [good, away] = [fresh(), fresh()];
  const one = { ...message(away), payload_inline: undefined, payload_ref: `r2://payloads/acme/${away}` };
  const PAYLOADS = { get: () => Promise.reject(new Error(`${away} has no bucket.`)) };
  await deliver([message(good), one], 1, { ...probeEnv, PAYLOADS });
  expect(await noted(good)).toEqual([]);
  expect(await noted(away)).toEqual([]);
});

describe("Unavailable", () => {
  const busy = (name: string) => new MillraceError("unavailable", `${name} is too busy.`, { delayMs: 1000 });

  it("a message whose route throws the code `unavailable` is retried, and becomes a dead letter after its last try", async () => {
    const name = fresh();
    failures.set(name, busy(name));
    const one = message(name);
    const sent: unknown[] = [];
    const PROBE_EVENTS = { send: async (body: unknown) => void sent.push(body) };
    for (const attempt of [1, 2, 3]) {
      expect(await deliver([one], attempt, { ...probeEnv, PROBE_EVENTS })).toEqual({ acked: 0, retried: 1 });
    }
    expect(await noted(name)).toMatchObject([{ code: "unavailable", failures: 3 }]);
    expect(await deliver([one], 4, { ...probeEnv, PROBE_EVENTS })).toEqual({ acked: 1, retried: 0 });
    expect([await letterOf(name), sent]).toMatchObject([{ reason: "unavailable", error: `${name} is too busy.`, attempts: 4 }, []]);
  });

  it("the keeper does not send a message again while the queue delays its retry", async () => {
    const name = fresh();
    failures.set(name, busy(name));
    const one = message(name);
    const soon = Date.now() + 1000;
    await rows("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'probe-events', '{}', ?2)", outboxId(one), soon);
    await deliver([one], 1);
    const [kept] = await rows<{ due_at: number }>("DELETE FROM millrace_outbox WHERE id = ?1 RETURNING due_at", outboxId(one));
    expect(kept?.due_at).toBeGreaterThan(soon);
  });
});

it("I18 a message that is replayed and fails again has one open dead letter, of the same cause", async () => {
  const name = fresh();
  failures.set(name, new MillraceError("upstream_refused", "They refused order 4711."));
  const one = message(name);
  await deliver([one], 4);
  const letter = await letterOf(name);
  await deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "too early" });
  const [again] = await rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`);
  failures.set(name, new MillraceError("upstream_refused", "They refused order 17."));
  for (let copy = 0; copy < 2; copy++) await deliver([JSON.parse(again?.body ?? "null"), one], 4);
  const all = (await deadLetters.list(probeEnv, reader, { cause: letter.cause ?? "" })).items.filter(
    ({ idempotency_key }) => idempotency_key === one.idempotency_key,
  );
  expect(all).toMatchObject([{ error: "They refused order 17.", state: "open" }]);
  expect((await lettersAbout(name)).map(({ state }) => state).sort()).toEqual(["open", "replayed"]);
});
