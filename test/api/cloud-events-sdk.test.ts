import { CloudEvent, CONSTANTS, emitterFor, HTTP, Mode } from "cloudevents";
import { describe, expect, it } from "vitest";
import { type Answer, type Caller, callerWith, expectProblem, fresh, research } from "./client.ts";

describe("The CloudEvents SDK", () => {
  const made = (keyword: string) => {
    const { type, payload: data } = research(keyword);
    return new CloudEvent({
      id: fresh("sdk"),
      source: "https://shop.example/orders",
      type,
      data,
      subject: "s",
      time: "2026-10-01T00:00:00Z",
    });
  };

  /** Sends events as the SDK's emitters do. */
  const emitter = (caller: Caller, mode: Mode) =>
    emitterFor((message) => caller.call("POST", "/v1/commands", String(message.body), message.headers as Record<string, string>), { mode });

  it("the CloudEvents SDK sends one event in structured and binary mode, and both are the same instance", async () => {
    const caller = await callerWith();
    const event = made(fresh());
    const structured = (await emitter(caller, Mode.STRUCTURED)(event)) as Answer;
    expect([structured.status, structured.body.replayed]).toEqual([202, false]);
    const binary = (await emitter(caller, Mode.BINARY)(event)) as Answer;
    expect([binary.status, binary.body]).toEqual([202, { ...structured.body, replayed: true, instance_status: expect.any(String) }]);
  });

  it("the CloudEvents SDK sends JSON of a custom type in binary mode", async () => {
    const caller = await callerWith();
    const event = made(fresh()).cloneWith({ datacontenttype: "application/vnd.shop+json" });
    expect((await emitter(caller, Mode.BINARY)(event)) as Answer).toMatchObject({ status: 202 });
  });

  it("the CloudEvents SDK sends a batch whose events the engine reads as the SDK does", async () => {
    const caller = await callerWith();
    const events = [made(fresh()), made(fresh())];
    const headers = { "content-type": CONSTANTS.MIME_CE_BATCH };
    const body = JSON.stringify(events);
    expect(HTTP.toEvent({ headers, body })).toHaveLength(2);
    const { body: answered } = await caller.post("/v1/commands/batch", body, headers);
    expect(answered.results).toMatchObject([
      { status: 202, replayed: false },
      { status: 202, replayed: false },
    ]);
    for (const [index, event] of events.entries()) {
      const again = (await emitter(caller, Mode.BINARY)(event)) as Answer;
      expect(again.body).toMatchObject({ replayed: true, instance_id: answered.results[index].instance_id });
    }
  });

  it("the CloudEvents SDK does not encode a % in binary mode, so a source with a % is refused (422), and an id with a % becomes a different key", async () => {
    const caller = await callerWith();
    const spaced = made(fresh()).cloneWith({ source: "https://shop.example/a%20b" });
    expectProblem((await emitter(caller, Mode.BINARY)(spaced)) as Answer, 422, "invalid_payload");
    const event = made(fresh()).cloneWith({ id: "a%20b" });
    const sent = [Mode.STRUCTURED, Mode.BINARY].map(async (mode) => ((await emitter(caller, mode)(event)) as Answer).body);
    const [structured, binary] = await Promise.all(sent);
    expect(binary.instance_id).not.toBe(structured.instance_id);
  });

  it("the CloudEvents SDK sends a non-ASCII id unchanged in binary mode, which is refused; structured mode is accepted", async () => {
    const caller = await callerWith();
    const event = made(fresh()).cloneWith({ id: "ü1" });
    expectProblem((await emitter(caller, Mode.BINARY)(event)) as Answer, 422, "invalid_payload");
    expect((await emitter(caller, Mode.STRUCTURED)(event)) as Answer).toMatchObject({ status: 202 });
  });
});
