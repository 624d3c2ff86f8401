import { codeOf, laneOf, sendToLanes } from "millrace";
import { laneObjectOf } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { sendInLanes } from "../../../packages/millrace/src/lanes/relay.ts";
import { howMany } from "../../full-size.ts";
import { blocking, impatient, letterTakers, misspelt, parking, small } from "../../probe/lanes.ts";
import { fresh, until } from "../harness.ts";
import { LabLane, type LaneBatch, laneEnv, numbers } from "./lab.ts";

/** The error of something that is refused. */
function refusal(work: () => unknown): Promise<{ code: string; message: string; detail: object }> {
  return (async () => work())().then(
    () => expect.unreachable("It was not refused."),
    (error) => error,
  );
}

describe("a sender", () => {
  it("gets an error for a lane that is not deployed, with the most similar name", async () => {
    const { code, message, detail } = await refusal(() => new LabLane(misspelt).send(0));
    expect({ code, detail }).toMatchObject({ code: "config_invalid", detail: { didYouMean: "holding" } });
    expect(message).toContain('Perhaps "holding" is meant.');
  });

  it("gets an error for a body over 128 KB, and none for a smaller one", async () => {
    const lane = new LabLane(blocking);
    const sized = (bytes: number) => ({ n: 0, note: lane.key, text: "ü".repeat((bytes - 100) / 2) });
    const { code, message } = await refusal(() => lane.client.send(sized(131_400)));
    expect(code).toBe("payload_too_large");
    expect(message).toContain("send a reference to it");
    await lane.client.send(sized(130_900));
    await lane.is("empty");
    expect(lane.calls).toEqual([[0]]);
  });

  it("gets an error for a batch of more than 16 MB, and nothing of it is stored", async () => {
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
  ])("gets an error for a body with %s", async (_, body) => {
    const lane = new LabLane(blocking);
    expect(await refusal(() => lane.client.send(body as never))).toMatchObject({
      code: "invalid_payload",
      detail: { issues: [{ path: "body" }] },
    });
  });

  it("gets an error that names the invalid key, idempotency key or delay", async () => {
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

  it("gets an error for a body that is nested too deeply to be read again", async () => {
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

  it("gets no error for names with surrogate pairs, because characters are counted as in envelopes", async () => {
    const key = fresh("k").padEnd(30, "x") + "😀".repeat(240);
    expect(await laneOf(laneEnv, blocking, key).send({ n: 0 }, { idempotencyKey: "😀".repeat(500) })).toMatchObject({ duplicate: false });
  });

  it("gets the outcome for each of very many keys: the invalid key is refused alone, and no other message is lost", {
    timeout: 300_000,
  }, async () => {
    // The local runtime has files open for each object, and may have few: ten thousand at once end it.
    const many = howMany(200, 1000);
    const base = fresh("many");
    const messages = numbers(many).map((n) => ({ key: n === 7 ? "k".repeat(501) : `${base}/${n}`, body: { n } }));
    const answers = await sendToLanes(laneEnv, parking, messages);
    expect(answers.map(({ key }) => key)).toEqual(messages.map(({ key }) => key));
    const refused = answers.flatMap((one) => ("error" in one ? [{ key: one.key, code: codeOf(one.error) }] : []));
    expect(refused).toEqual([{ key: "k".repeat(501), code: "invalid_payload" }]);
    const last = laneObjectOf(laneEnv, { lane: parking.name, tenant: null, key: `${base}/${many - 1}` });
    const seen = await until(
      () => last.look(),
      ({ state }) => state === "empty",
    );
    expect(seen).toMatchObject({ state: "empty", letters: 0 });
  });

  it("gets an error for a full lane, which still delivers its messages", async () => {
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

describe("a handler", () => {
  it("that never settles is aborted at its deadline, and its later answer is ignored", async () => {
    const hung: LaneBatch[] = [];
    const errors: (string | null)[] = [];
    const lane = new LabLane(impatient, (batch) => {
      // The second call lets the first, aborted one settle.
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

  it("that throws a value other than an error, or synchronously, is retried", async () => {
    const thrown: unknown[] = [null, undefined, "a text", Object.create(null)];
    const lane = new LabLane(blocking, () => {
      if (thrown.length > 0) throw thrown.pop();
    });
    await lane.send(0);
    await lane.is("empty");
    expect(lane.calls.length).toBe(5);
  });

  it("with an invalid name, retries, batch or deadline is refused where its object is defined, with the value to change", async () => {
    const { laneObject } = await import("millrace/worker");
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

it("an invalid message of the outbox is answered with its error, and the other messages are sent", async () => {
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
