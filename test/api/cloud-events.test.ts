import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, research } from "./client.ts";

const STRUCTURED = { "content-type": "application/cloudevents+json; charset=utf-8" };

function event(keyword: string, extra: object = {}) {
  const { type, payload: data } = research(keyword);
  return { specversion: "1.0", id: fresh("e"), source: "/shop/1", type, data, ...extra };
}

describe("A CloudEvent", () => {
  it("is accepted in structured mode, with its source and id as the key", async () => {
    const caller = await callerWith();
    const sent = event(fresh(), { subject: "ignored", time: "2026-10-01T00:00:00Z", anything: 1, correlationid: "job 9" });
    const first = await caller.post("/v1/commands", sent, STRUCTURED);
    expect([first.status, first.body.replayed, first.body.correlation_id]).toEqual([202, false, "job 9"]);
    expect((await caller.post("/v1/commands", sent, STRUCTURED)).body).toEqual({ ...first.body, replayed: true });
    const { body } = await caller.get(`/v1/instances/${first.body.instance_id}`);
    expect(body.idempotency_key).toBe(`/shop/1 ${sent.id}`);
  });

  it("is another event when its source is another", async () => {
    const caller = await callerWith();
    const sent = event(fresh());
    const first = await caller.post("/v1/commands", sent, STRUCTURED);
    const other = await caller.post("/v1/commands", { ...sent, source: "/shop/2" }, STRUCTURED);
    expect(other.body.instance_id).not.toBe(first.body.instance_id);
  });

  it("is named by the header where there is one", async () => {
    const caller = await callerWith();
    const { body } = await caller.post("/v1/commands", event(fresh()), { ...STRUCTURED, "idempotency-key": "mine" });
    expect((await caller.get(`/v1/instances/${body.instance_id}`)).body.idempotency_key).toBe("mine");
  });

  it("is the same event in binary mode", async () => {
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
  ])("with %s is refused, naming the attribute", async (_, extra, path) => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/commands", event("x", extra), STRUCTURED), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path }]);
  });

  it("in binary mode names what its headers lack", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/commands", {}, { "ce-type": "research.requested" }), 422, "invalid_payload");
    expect(issues.map(({ path }: { path: string }) => path).sort()).toEqual(["id", "source", "specversion"]);
  });
});
