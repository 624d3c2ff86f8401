import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Caller, callerWith, fresh, type Json, research, until } from "../api/client.ts";
import { upload } from "../systems/batches/batch.ts";
import { bring, people } from "../systems/crm/crm.ts";
import { state } from "../systems/facts/facts.ts";
import { endpoint, received } from "../systems/webhooks/hook.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const HOP = `00-${TRACE}-b7ad6b7169203331-01`;
const ZERO_SPAN = "0".repeat(16);

async function envelopeOf(instanceId: string): Promise<Json> {
  const row = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE id = ?1").bind(instanceId).first<{ envelope: string }>();
  return JSON.parse(row?.envelope ?? "");
}

/** The trace in the message of a command that was sent with these headers, and never runs. */
async function carried(caller: Caller, headers: Record<string, string>): Promise<Json> {
  const { status, body } = await caller.post("/v1/commands", { ...research(fresh()), delay_seconds: 43_200 }, headers);
  expect(status).toBe(202);
  return envelopeOf(body.instance_id);
}

/** Later calls to the embedded upstreams that contain a trace, by its id. */
function heard(binding: "UPSTREAMS" | "EMBEDDED_CRM", traceId: string): { host: string; traceparent: string; tracestate: string | null }[] {
  const calls: { host: string; traceparent: string; tracestate: string | null }[] = [];
  const bindings = env as unknown as Record<string, Pick<Fetcher, "fetch">>;
  const real = bindings[binding] as Fetcher;
  bindings[binding] = {
    fetch: (input: RequestInfo | URL, init?: RequestInit) => {
      const request = new Request(input as Request, init);
      const traceparent = request.headers.get("traceparent") ?? "none";
      if (traceparent === "none" || traceparent.includes(traceId))
        calls.push({ host: new URL(request.url).host, traceparent, tracestate: request.headers.get("tracestate") });
      return real.fetch(request);
    },
  };
  onTestFinished(() => {
    bindings[binding] = real;
  });
  return calls;
}

describe("A traceparent of a request", () => {
  it.each([
    ["version 00, sampled", HOP, `00-${TRACE}-*-01`],
    ["version 00, not sampled", `00-${TRACE}-b7ad6b7169203331-00`, `00-${TRACE}-*-00`],
    ["the flag of a random trace id", `00-${TRACE}-b7ad6b7169203331-03`, `00-${TRACE}-*-03`],
    ["undefined flags, which are set to zero", `00-${TRACE}-b7ad6b7169203331-fd`, `00-${TRACE}-*-01`],
    ["a later version with the same length as ours", `01-${TRACE}-b7ad6b7169203331-01`, `00-${TRACE}-*-01`],
    ["a later version with additional fields", `cc-${TRACE}-b7ad6b7169203331-01-what-the-future-brings`, `00-${TRACE}-*-01`],
    ["white space around the value", ` ${HOP} `, `00-${TRACE}-*-01`],
  ])("the trace of a valid traceparent is continued: %s", async (_, traceparent, expected) => {
    const envelope = await carried(await callerWith(), { traceparent });
    expect(envelope.traceparent.replace(/-[0-9a-f]{16}-/, "-*-")).toBe(expected);
    expect(envelope.traceparent).not.toContain("b7ad6b7169203331");
    expect(envelope.traceparent).not.toContain(ZERO_SPAN);
  });

  it.each([
    ["a trace of zeros", `00-${"0".repeat(32)}-b7ad6b7169203331-01`],
    ["a span of zeros", `00-${TRACE}-${ZERO_SPAN}-01`],
    ["version ff", `ff-${TRACE}-b7ad6b7169203331-01`],
    ["version 00 with additional fields", `${HOP}-more`],
    ["a later version that continues without a dash", `01-${TRACE}-b7ad6b7169203331-01x`],
    ["a later version that is too short", `01-${TRACE}-b7ad6b7169203331`],
    ["a short trace", `00-${TRACE.slice(1)}-b7ad6b7169203331-01`],
    ["a short span", `00-${TRACE}-b7ad6b716920333-01`],
    ["short flags", `00-${TRACE}-b7ad6b7169203331-1`],
    ["upper case", `00-${TRACE.toUpperCase()}-b7ad6b7169203331-01`],
    ["a letter that is not a hex digit", `00-${TRACE.replace("0", "g")}-b7ad6b7169203331-01`],
    ["two of them", `${HOP}, ${HOP}`],
    ["nothing", ""],
  ])("an invalid traceparent is ignored, and a new trace starts, without a state: %s", async (_, traceparent) => {
    const envelope = await carried(await callerWith(), { traceparent, tracestate: "a=1" });
    expect(envelope.traceparent).toMatch(/^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01$/);
    expect(envelope.traceparent).not.toContain(TRACE);
    expect(envelope).not.toHaveProperty("tracestate");
  });
});

describe("A tracestate of a request", () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `k${index}=1`).join(",");

  it.each([
    ["one member", "rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"],
    ["several tracestate headers, with empty ones between them", "rojo=1, ,congo=2\t,", "rojo=1,congo=2"],
    ["keys of every form", "a_-*/9=x,fw529a3039@dt=y,4th@vendor=z", "a_-*/9=x,fw529a3039@dt=y,4th@vendor=z"],
    ["values with spaces and punctuation", "a=b c;d:e", "a=b c;d:e"],
    ["32 members", many(32), many(32)],
    [
      "more than 512 characters: the long members are removed first, from the right",
      `a=1,b=${"x".repeat(250)},c=${"y".repeat(250)},d=${"z".repeat(100)}`,
      `a=1,b=${"x".repeat(250)},d=${"z".repeat(100)}`,
    ],
  ])("a valid tracestate is passed on: %s", async (_, tracestate, expected) => {
    expect(await carried(await callerWith(), { traceparent: HOP, tracestate })).toMatchObject({ tracestate: expected });
  });

  it.each([
    ["33 members", many(33)],
    ["a key twice", "a=1,b=2,a=3"],
    ["a member without a value", "a=1,b"],
    ["an empty value", "a="],
    ["a key in upper case", "A=1"],
    ["a value with an equals sign", "a=b=c"],
    ["two at signs", "a@b@c=1"],
    ["a key of 257 characters", `${"k".repeat(257)}=1`],
    ["a value of 257 characters", `a=${"v".repeat(257)}`],
  ])("a malformed tracestate is dropped entirely, and the trace continues: %s", async (_, tracestate) => {
    const envelope = await carried(await callerWith(), { traceparent: HOP, tracestate });
    expect(envelope.traceparent).toContain(TRACE);
    expect(envelope).not.toHaveProperty("tracestate");
  });

  it("a CloudEvent carries a traceparent in its own attributes, unless the request has the header", async () => {
    const caller = await callerWith();
    const event = () => ({
      specversion: "1.0",
      id: fresh("e"),
      source: "//shop",
      type: "research.requested",
      data: research(fresh()).payload,
    });
    const sent = (more: object, headers = {}) =>
      caller.post("/v1/commands", { ...event(), ...more }, { "content-type": "application/cloudevents+json", ...headers });
    const own = await sent({ traceparent: HOP, tracestate: "a=1" });
    expect(await envelopeOf(own.body.instance_id)).toMatchObject({ traceparent: expect.stringContaining(TRACE), tracestate: "a=1" });
    const other = "f".repeat(32);
    const both = await sent({ traceparent: HOP, tracestate: "a=1" }, { traceparent: `00-${other}-b7ad6b7169203331-01` });
    const envelope = await envelopeOf(both.body.instance_id);
    expect(envelope.traceparent).toContain(other);
    expect(envelope).not.toHaveProperty("tracestate");
  });
});

describe("The trace of a job", () => {
  const newTraceId = () => crypto.randomUUID().replaceAll("-", "");
  const headersOf = (traceId: string, flags = "01") => ({ traceparent: `00-${traceId}-b7ad6b7169203331-${flags}`, tracestate: "rojo=1" });

  it("the trace of a job is sent with every call to the search, the text model, the page store and the social network, each as a separate span", async () => {
    const [caller, traceId, brand] = [await callerWith(), newTraceId(), fresh("brand")];
    const calls = heard("UPSTREAMS", traceId);
    const cycle = { type: "brand.cycle", payload: { brand, cycle: "one", keywords: [fresh("tea")] } };
    expect((await caller.post("/v1/commands", cycle, headersOf(traceId))).status).toBe(202);
    const asked = () => Promise.resolve(new Set(calls.map(({ host }) => host)));
    const names = ["search.embedded", "text.embedded", "pages.embedded", "social.embedded"];
    expect(await until(asked, (seen) => names.every((name) => seen.has(name)))).toEqual(new Set(names));
    expect(calls.filter(({ traceparent, tracestate }) => !traceparent.includes(traceId) || tracestate !== "rojo=1")).toEqual([]);
    expect(new Set(calls.map(({ traceparent }) => traceparent)).size).toBe(calls.length);
  });

  it("the trace of a job is sent with every call to the CRM", async () => {
    const [caller, traceId] = [await callerWith(), newTraceId()];
    await bring(caller, people(caller, 1));
    const calls = heard("EMBEDDED_CRM", traceId);
    const contact = { type: "contact.sync", payload: { contact_id: "c0000", occasion: fresh("r") } };
    const { status, body } = await caller.post("/v1/commands", contact, headersOf(traceId));
    expect({ status, body }).toMatchObject({ status: 202 });
    const said = await until(
      () => caller.get(`/v1/instances/${body.instance_id}`),
      (answer) => ["complete", "errored"].includes(answer.body.status),
    );
    expect(said.body).toMatchObject({ status: "complete" });
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.filter(({ traceparent, tracestate }) => !traceparent.includes(traceId) || tracestate !== "rojo=1")).toEqual([]);
  });

  it("the trace of a job passes through facts into webhooks, with its flags and state", async () => {
    const [caller, traceId] = [await callerWith(), newTraceId()];
    const { hook } = await endpoint(caller);
    const fact = {
      fact_id: fresh("fact"),
      entity: `account/${fresh("a")}`,
      type: "outcome",
      occurred_at: "2026-10-01T09:30:00.000Z",
      payload: { account: "a1", value_cents: 1200 },
    };
    await state(caller, [fact as never], {}, headersOf(traceId, "00"));
    const [request] = await received(hook, 1);
    expect(request?.headers).toMatchObject({
      traceparent: expect.stringMatching(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`)),
      tracestate: "rojo=1",
    });
    expect(request?.headers.traceparent).not.toContain("b7ad6b7169203331");
    expect(JSON.parse(request?.body ?? "").data).toMatchObject({ trace_id: traceId });
  });

  it("the trace of a job starts with the request for a batch, or with a schedule's run", async () => {
    const [caller, traceId] = [await callerWith(), newTraceId()];
    const own = { traceparent: expect.stringContaining(traceId), tracestate: "rojo=1" };
    const id = fresh("b");
    await upload(caller, "contact_id,email\nc1,a@example.com\n", { id, headers: headersOf(traceId) });
    const [batch] = (await caller.get("/v1/instances?workflow=import-rows")).body.items;
    expect(await envelopeOf(batch.id)).toMatchObject(own);

    const path = `/v1/schedules/${fresh("s")}`;
    const put = await caller.call("PUT", path, { cron: "0 0 1 1 *", command: research(fresh()), reason: "a test" });
    expect(put.status).toBe(200);
    const { body } = await caller.post(`${path}/run`, { reason: "now" }, headersOf(traceId));
    expect(await envelopeOf(body.instance_id)).toMatchObject(own);
  });
});
