import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, research } from "./client.ts";

const STRUCTURED = { "content-type": "application/cloudevents+json; charset=utf-8" };

function event(keyword: string, extra: object = {}) {
  const { type, payload: data } = research(keyword);
  return { specversion: "1.0", id: fresh("e"), source: "/shop/1", type, data, ...extra };
}

describe("A CloudEvent", () => {
  it("a CloudEvent is accepted in structured mode, with its source and id as the key", async () => {
    const caller = await callerWith();
    const sent = event(fresh(), { subject: "ignored", time: "2026-10-01T00:00:00Z", anything: 1, correlationid: "job 9" });
    const first = await caller.post("/v1/commands", sent, STRUCTURED);
    expect([first.status, first.body.replayed, first.body.correlation_id]).toEqual([202, false, "job 9"]);
    expect((await caller.post("/v1/commands", sent, STRUCTURED)).body).toEqual({ ...first.body, replayed: true });
    const { body } = await caller.get(`/v1/instances/${first.body.instance_id}`);
    expect(body.idempotency_key).toBe(`/shop/1 ${sent.id}`);
  });

  it("a CloudEvent with another source is another event", async () => {
    const caller = await callerWith();
    const sent = event(fresh());
    const first = await caller.post("/v1/commands", sent, STRUCTURED);
    const other = await caller.post("/v1/commands", { ...sent, source: "/shop/2" }, STRUCTURED);
    expect(other.body.instance_id).not.toBe(first.body.instance_id);
  });

  it("a CloudEvent gets the key of the Idempotency-Key header if the request has one", async () => {
    const caller = await callerWith();
    const { body } = await caller.post("/v1/commands", event(fresh()), { ...STRUCTURED, "idempotency-key": "mine" });
    expect((await caller.get(`/v1/instances/${body.instance_id}`)).body.idempotency_key).toBe("mine");
  });

  it("a CloudEvent is the same event in binary mode", async () => {
    const caller = await callerWith();
    const { data, id, source, type, specversion } = event(fresh());
    const structured = await caller.post("/v1/commands", { data, id, source, type, specversion }, STRUCTURED);
    const headers = { "ce-id": id, "ce-source": "%2Fshop%2F1", "ce-type": type, "ce-specversion": specversion };
    expect((await caller.post("/v1/commands", data, headers)).body).toEqual({ ...structured.body, replayed: true });
  });

  it.each([
    ["no id", { id: undefined }, "id"],
    ["no data", { data: undefined }, "data"],
    ["another version", { specversion: "0.3" }, "specversion"],
    ["binary data", { data_base64: "AAAA" }, "data_base64"],
    ["data that is not JSON", { datacontenttype: "text/xml" }, "datacontenttype"],
    ["a source with a space", { source: "a b" }, "source"],
    ["an id that is too long", { id: "i".repeat(500) }, "id"],
  ])("a CloudEvent with %s is refused, and the error names the attribute", async (_, extra, path) => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/commands", event("x", extra), STRUCTURED), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path }]);
  });

  it("a CloudEvent in binary mode without required headers is refused, and the error names the headers", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/commands", {}, { "ce-type": "research.requested" }), 422, "invalid_payload");
    expect(issues.map(({ path }: { path: string }) => path).sort()).toEqual(["id", "source", "specversion"]);
  });

  it("a CloudEvent with a null attribute is read as without that attribute", async () => {
    const caller = await callerWith();
    const nulls = {
      correlationid: null,
      causationid: null,
      traceparent: null,
      datacontenttype: null,
      data_base64: null,
      subject: null,
      mine: null,
    };
    expect((await caller.post("/v1/commands", event(fresh(), nulls), STRUCTURED)).status).toBe(202);
    const { issues } = expectProblem(await caller.post("/v1/commands", event("x", { id: null }), STRUCTURED), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "id", message: "must be of type string, not null" }]);
    expectProblem(await caller.post("/v1/commands", event("x", { data: null }), STRUCTURED), 422, "invalid_payload");
  });

  const BINARY = { "ce-specversion": "1.0", "ce-source": "/shop/1", "ce-type": "research.requested" };

  it.each(["application/json; charset=utf-8", "application/vnd.shop.keyword+json", "text/json"])(
    "a CloudEvent in binary mode is read as %s",
    async (type) => {
      const caller = await callerWith();
      const headers = { ...BINARY, "ce-id": fresh(), "content-type": type };
      const { status, body } = await caller.post("/v1/commands", research(fresh()).payload, headers);
      expect([status, body.replayed]).toEqual([202, false]);
    },
  );

  it.each([
    ["percent-encoded", "%C3%BC1%20a%22", 'ü1 a"'],
    ["percent-encoded without need", "%61", "a"],
    ["in quotes, as an earlier version of the standard required", '"a, \\"b\\" c"', 'a, "b" c'],
  ])("a CloudEvent in binary mode can have an id that is %s", async (_, header, id) => {
    const caller = await callerWith();
    const { body } = await caller.post("/v1/commands", research(fresh()).payload, { ...BINARY, "ce-id": header });
    expect((await caller.get(`/v1/instances/${body.instance_id}`)).body.idempotency_key).toBe(`/shop/1 ${id}`);
  });

  it.each([
    ["non-ASCII, which arrives as U+FFFD", "\ufffd1", /percent-encoded/],
    ["non-ASCII, in UTF-8", "\u00fc1", /percent-encoded/],
    ["percent-encoded Latin-1", "%FC1", /%25/],
    ["an overlong encoding", "%C0%A0", /%25/],
    ["a lone percent sign", "50%", /%25/],
    ["sent twice", "a, a", /was sent twice/],
  ])("a CloudEvent in binary mode with an id that is %s is refused, and the error names the header", async (_, id, said) => {
    const caller = await callerWith();
    const answer = await caller.post("/v1/commands", research("x").payload, { ...BINARY, "ce-id": id });
    const { issues } = expectProblem(answer, 422, "invalid_payload");
    expect(issues).toEqual([{ path: "ce-id", message: expect.stringMatching(said) }]);
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });

  it("a CloudEvent with only some of its headers is refused, and not read as another format", async () => {
    const caller = await callerWith();
    for (const header of ["ce-id", "ce-source"])
      expectProblem(await caller.post("/v1/commands", research("x"), { [header]: "a" }), 422, "invalid_payload");
  });
});

describe("CloudEvents in a batch", () => {
  const BATCHED = { "content-type": "application/cloudevents-batch+json; charset=utf-8" };

  it("CloudEvents of a batch are answered one by one, in order", async () => {
    const caller = await callerWith();
    const good = event(fresh(), { correlationid: null });
    const sent = [
      good,
      event("x", { type: "nobody.knows" }),
      { ...good, id: undefined },
      "no event",
      good,
      { ...good, data: research("other").payload },
    ];
    const { status, body } = await caller.post("/v1/commands/batch", sent, BATCHED);
    expect(status).toBe(200);
    const [first] = body.results;
    expect(body.results).toMatchObject([
      { status: 202, replayed: false },
      { status: 404, problem: { code: "unknown_message_type" } },
      { status: 422, problem: { issues: [{ path: "id" }] } },
      { status: 422, problem: { code: "invalid_payload" } },
      { status: 202, replayed: true, instance_id: first.instance_id },
      { status: 422, problem: { code: "idempotency_key_reused" } },
    ]);
    const alone = await caller.post("/v1/commands", good, STRUCTURED);
    expect(alone.body).toMatchObject({ replayed: true, instance_id: first.instance_id });
  });

  it("a batch of CloudEvents can be empty and has at most 100 events", async () => {
    const caller = await callerWith();
    expect((await caller.post("/v1/commands/batch", [], BATCHED)).body).toEqual({ results: [] });
    expectProblem(await caller.post("/v1/commands/batch", Array(101).fill(event("x")), BATCHED), 422, "invalid_payload");
    expectProblem(await caller.post("/v1/commands/batch", event("x"), BATCHED), 422, "invalid_payload");
  });

  it("a batch of CloudEvents has its own route, and a single event has another", async () => {
    const caller = await callerWith();
    const many = expectProblem(await caller.post("/v1/commands", [event("x")], BATCHED), 415, "unsupported_media_type");
    expect(many.detail).toContain("POST /v1/commands/batch");
    expectProblem(await caller.post("/v1/commands/batch", event("x"), STRUCTURED), 415, "unsupported_media_type");
  });
});
