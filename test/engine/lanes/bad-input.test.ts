import { errors } from "millrace";
import { laneOf, sendToLanes } from "millrace/lanes";
import { lanes } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { sendInLanes } from "../../../packages/millrace/src/lanes/relay.ts";
import { howMany } from "../../full-size.ts";
import { blocking, impatient, letterTakers, misspelt, parking, small } from "../../probe/lanes.ts";
import { fresh, until } from "../harness.ts";
import { LabLane, type LaneBatch, laneEnv, numbers } from "./lab.ts";

/** Returns the error of a function that must fail. */
function refusal(work: () => unknown): Promise<{ code: string; message: string; detail: object }> {
  return (async () => work())().then(
    () => expect.unreachable("It was not refused."),
    (error) => error,
  );
}

describe("Senders", () => {
  it("a message to a lane that is not deployed is refused, and the error suggests the most similar name", async () => {
    const { code, message, detail } = await refusal(() => new LabLane(misspelt).send(0));
    expect({ code, detail }).toMatchObject({ code: "config_invalid", detail: { didYouMean: "holding" } });
    expect(message).toContain('Perhaps "holding" is meant.');
  });

  it("a lane refuses a message body over 128 KB, and accepts a smaller one", async () => {
    const lane = new LabLane(blocking);
    const sized = (bytes: number) => ({ n: 0, note: lane.key, text: "ü".repeat((bytes - 100) / 2) });
    const { code, message } = await refusal(() => lane.client.send(sized(131_400)));
    expect(code).toBe("payload_too_large");
    expect(message).toContain("send a reference to it");
    await lane.client.send(sized(130_900));
    await lane.is("empty");
    expect(lane.calls).toEqual([[0]]);
  });

  it("a lane refuses a batch of more than 16 MB, and stores nothing of it", async () => {
    const lane = new LabLane(blocking);
    const body = { n: 0, text: "x".repeat(130_000) };
    expect((await refusal(() => lane.client.sendBatch(numbers(140).map(() => ({ body }))))).code).toBe("payload_too_large");
    expect(await lane.object.look()).toMatchObject({ state: "empty", depth: 0 });
  });

  it.each([
    ["no JSON", undefined],
    ["no JSON", () => undefined],
    ["no JSON", 10n],
    ["NaN", { n: 0 / 0 }],
    ["undefined in a list", { n: [undefined] }],
  ])("a lane refuses a message body with %s", async (_, body) => {
    const lane = new LabLane(blocking);
    expect(await refusal(() => lane.client.send(body as never))).toMatchObject({
      code: "invalid_payload",
      detail: { issues: [{ path: "body" }] },
    });
  });

  it("a lane refuses an invalid key, idempotency key or delay, and the error names the field", async () => {
    const send = (key: string, options = {}) => refusal(() => laneOf(laneEnv, blocking, key).send({ n: 0 }, options));
    for (const key of ["", "k".repeat(501), "half \ud800", ".", ".."]) {
      expect(await send(key)).toMatchObject({ code: "invalid_payload", detail: { issues: [{ path: "key" }] } });
    }
    for (const idempotencyKey of ["", "k".repeat(501), "😀".repeat(501), "half \ud800", 7]) {
      expect(await send("k", { idempotencyKey })).toMatchObject({ detail: { issues: [{ path: "idempotencyKey" }] } });
    }
    for (const delaySeconds of [-1, 43_201, Number.NaN, "1"]) {
      expect(await send("k", { delaySeconds })).toMatchObject({ detail: { issues: [{ path: "delaySeconds" }] } });
    }
    const ofNobody = await refusal(() => laneOf(laneEnv, blocking, "k", { tenant: "" }));
    expect(ofNobody).toMatchObject({ message: expect.stringContaining("The tenant of"), detail: { issues: [{ path: "tenant" }] } });
  });

  it("a lane refuses a message body that is nested too deeply to be read again", async () => {
    const nested = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels)) as never;
    const client = laneOf(laneEnv, blocking, fresh("deep"));
    expect(await client.send(nested(64))).toMatchObject({ duplicate: false });
    for (const levels of [65, 4_000]) {
      expect(await refusal(() => client.send(nested(levels)))).toMatchObject({
        code: "invalid_payload",
        detail: { issues: [{ path: "body" }] },
      });
    }
  });

  it("a lane accepts keys of 500 characters with surrogate pairs, because a pair counts as one character", async () => {
    const key = fresh("k").padEnd(30, "x") + "😀".repeat(240);
    expect(await laneOf(laneEnv, blocking, key).send({ n: 0 }, { idempotencyKey: "😀".repeat(500) })).toMatchObject({ duplicate: false });
  });

  it("a batch to very many lane keys returns an outcome for each key: only the invalid key is refused", {
    timeout: 300_000,
  }, async () => {
    // The local runtime opens files for each object, and fails with ten thousand objects at once.
    const many = howMany(200, 1000);
    const base = fresh("many");
    const messages = numbers(many).map((n) => ({ key: n === 7 ? "k".repeat(501) : `${base}/${n}`, body: { n } }));
    const answers = await sendToLanes(laneEnv, parking, messages);
    expect(answers.map(({ key }) => key)).toEqual(messages.map(({ key }) => key));
    const refused = answers.flatMap((one) => ("error" in one ? [{ key: one.key, code: errors.codeOf(one.error) }] : []));
    expect(refused).toEqual([{ key: "k".repeat(501), code: "invalid_payload" }]);
    const last = lanes.objectOf(laneEnv, { lane: parking.name, tenant: null, key: `${base}/${many - 1}` });
    const seen = await until(
      () => last.look(),
      ({ state }) => state === "empty",
    );
    expect(seen).toMatchObject({ state: "empty", letters: 0 });
  });

  it("a full lane refuses new messages, and still delivers the stored messages", async () => {
    const lane = new LabLane(small);
    await lane.object.pause();
    expect(await lane.send(0)).toHaveLength(1);
    await lane.object.pause();
    const body = { n: 1, note: lane.key, text: "x".repeat(100_000) };
    await lane.client.sendBatch(numbers(3).map(() => ({ body })));
    const { code, message } = await refusal(() => lane.send(2));
    expect({ code, message }).toMatchObject({ code: "unavailable", message: expect.stringContaining("is full (200000 bytes)") });
    await lane.object.resume();
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual([0, 1, 1, 1]);
  });
});

describe("Handlers", () => {
  it("a lane handler that never settles is aborted at its deadline, and its later answer is ignored", async () => {
    const hung: LaneBatch[] = [];
    const errors: (string | null)[] = [];
    const lane = new LabLane(impatient, (batch) => {
      // The second call settles the batch of the first, aborted call.
      for (const batch of hung) batch.ackAll();
      hung.push(batch);
      return new Promise(() => undefined);
    });
    letterTakers.set(lane.key, ({ error }) => void errors.push(error));
    await lane.send(0);
    await lane.is("empty");
    expect(lane.calls.length).toBe(4);
    await until(
      () => Promise.resolve(errors),
      (seen) => seen.length > 0,
    );
    expect(errors).toEqual([expect.stringContaining("did not end within 0.1 seconds")]);
  });

  it("a lane handler that throws synchronously, or throws a value that is not an error, is retried", async () => {
    const thrown: unknown[] = [null, undefined, "a text", Object.create(null)];
    const lane = new LabLane(blocking, () => {
      if (thrown.length > 0) throw thrown.pop();
    });
    await lane.send(0);
    await lane.is("empty");
    expect(lane.calls.length).toBe(5);
  });

  it("a lane definition with an invalid option is refused, and the error names the value to change", async () => {
    const { laneObject } = await import("millrace/lanes");
    const wrong = [
      { ...blocking, name: "Orders" },
      { ...blocking, onFailure: "drop" as never },
      { ...blocking, retries: { limit: -1 } },
      { ...blocking, batch: { size: 101 } },
      { ...blocking, deadline: 0 },
      { ...blocking, remember: "a while" as never },
      { ...blocking, retries: { max: "13 hours" as const } },
      { ...blocking, maxBytes: Number.NaN },
      { ...blocking, maxBytes: -1 },
    ];
    for (const lane of wrong) expect((await refusal(() => laneObject([lane]))).code).toBe("config_invalid");
    expect(await refusal(() => laneObject([blocking, { ...small, name: "blocking" }]))).toMatchObject({
      code: "config_invalid",
      message: 'Two lanes are named "blocking": rename one.',
    });
  });
});

it("an invalid outbox message for a lane gets its error, and the other messages are sent", async () => {
  const lane = new LabLane(blocking);
  const names = { tenant_id: "acme", message_type: "probe.signal", idempotency_key: lane.key, causation_id: "test" };
  const good = JSON.stringify({ ...names, subject: lane.key, n: 1, note: lane.key });
  const messages = ["{", "null", good].map((body, index) => ({ id: String(index), body, delaySeconds: 0 }));
  const failed = await sendInLanes(laneEnv, "lane:blocking", messages);
  expect(failed).toMatchObject([
    { id: "0", error: expect.stringContaining("JSON") },
    { id: "1", error: expect.stringContaining("null") },
  ]);
  await until(
    async () => lane.calls,
    (calls) => calls.length > 0,
  );
  expect(lane.calls).toEqual([[1]]);
});
