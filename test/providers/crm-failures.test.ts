import { env } from "cloudflare:workers";
import { errors } from "millrace";
import { type Limit, limitOf } from "millrace/limits";
import { afterEach, describe, expect, it } from "vitest";
import { hubspotCrm } from "../../src/providers/hubspot.ts";
import { type CrmOutcome, crm, type ProvidersEnv } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { crmCalls, crmView, failCrm, scripted } from "./embedded.ts";

const options = { key: "k" };
const real = () => crm(env, "acme");

afterEach(() => failCrm());

const person = (key = fresh("c"), properties: Record<string, string> = {}) => ({
  key,
  properties: { email: `${key}@example.com`, ...properties },
});
const people = (count: number) => Array.from({ length: count }, () => person());

function idOf(outcome: CrmOutcome | undefined): string {
  if (outcome?.state !== "done") throw new Error(`Not done: ${JSON.stringify(outcome)}`);
  return outcome.crmId;
}

async function made(properties: Record<string, string> = {}): Promise<{ key: string; id: string }> {
  const one = person(undefined, properties);
  const [outcome] = await real().upsert("contacts", [one], options);
  return { key: one.key, id: idOf(outcome) };
}

describe("A batch with invalid records", () => {
  it("the CRM adapter accepts the valid records of a batch: each failure is its record's own, with HubSpot's category, text and correlation id", async () => {
    const taken = await made();
    const records = [
      person(),
      person(undefined, { email: "nobody" }),
      person(undefined, { email: `${taken.key}@example.com` }),
      person(undefined, { lifecyclestage: "fan" }),
      person(),
    ];
    const outcomes = await real().upsert("contacts", records, options);
    expect(outcomes.map(({ key }) => key)).toEqual(records.map(({ key }) => key));
    expect(outcomes).toMatchObject([
      { state: "done", created: true },
      { state: "failed", retry: false, category: "VALIDATION_ERROR", message: expect.stringContaining("INVALID_EMAIL") },
      { state: "failed", retry: false, category: "CONFLICT", message: expect.stringContaining(`Existing ID: ${taken.id}`) },
      { state: "failed", retry: false, category: "VALIDATION_ERROR", message: expect.stringContaining("INVALID_OPTION") },
      { state: "done", created: true },
    ]);
    const failed = outcomes.flatMap((outcome) => (outcome.state === "failed" ? [outcome] : []));
    for (const { correlationId, message } of failed) {
      expect(correlationId).toMatch(/^[0-9a-f-]{36}$/);
      expect(message).toContain(`correlation id ${correlationId}`);
    }
  });

  it.each([
    ["INTERNAL_ERROR", 500, true],
    ["RATE_LIMITS", 429, true],
    ["LOCKED", 423, true],
    ["VALIDATION_ERROR", 400, false],
    ["CONFLICT", 409, false],
    ["MISSING_SCOPES", 403, false],
  ])("the CRM adapter reports whether the same record may be sent again: %s", async (category, status, retry) => {
    const records = people(3);
    await failCrm({ match: "", key: records[1]?.key ?? "", status, category, remaining: 1 });
    expect(await real().upsert("contacts", records, options)).toMatchObject([
      { state: "done" },
      { state: "failed", category, retry },
      { state: "done" },
    ]);
    expect(await real().upsert("contacts", records, options)).toMatchObject([{ created: false }, { created: true }, { created: false }]);
  });

  it("the CRM adapter finds the records for which HubSpot refused a whole batch, without failing the other 97 and in few calls", async () => {
    const records = people(100);
    const guilty = [records[3], records[50], records[99]].map((record) => record?.key ?? "");
    await failCrm(...guilty.map((key) => ({ match: "", key, whole: true, status: 400, remaining: null })));
    const { total: before } = await crmCalls();
    const outcomes = await real().upsert("contacts", records, options);
    expect(outcomes.filter(({ state }) => state === "failed").map(({ key }) => key)).toEqual(guilty);
    expect(outcomes.filter(({ state }) => state === "done")).toHaveLength(97);
    expect((await crmCalls()).total - before).toBeLessThanOrEqual(40);
  });

  it("the CRM adapter makes at most 40 calls in its search for invalid records, and defers the records that it did not reach", async () => {
    let calls = 0;
    const fetch = async () => {
      calls++;
      return Response.json({ status: "error", message: "No.", correlationId: "c", category: "VALIDATION_ERROR" }, { status: 400 });
    };
    const upstream = { name: "crm", url: "https://crm.example.com", credential: { variable: "CRM_TOKEN", value: "t" }, fetch };
    const outcomes = await hubspotCrm(upstream, "millrace_id", { take: async () => {}, heed: async () => 0 }).upsert(
      "contacts",
      people(100),
      options,
    );
    expect(calls).toBe(40);
    const alone = outcomes.filter((outcome) => outcome.state === "failed" && !outcome.retry);
    const left = outcomes.filter((outcome) => outcome.state === "failed" && outcome.retry && outcome.category === "NO_ANSWER");
    expect(alone.length).toBeGreaterThan(0);
    expect(alone.length + left.length).toBe(100);
  });

  it("the CRM adapter keeps settled items when a later call fails, with that call's reason for the others", async () => {
    const records = people(4);
    const [one, two, three] = records.map(({ key }) => key);
    const at = (index: number) => ({ id: String(index), new: true, properties: { millrace_id: records[index]?.key ?? "" } });
    const bad = { status: "error", message: "No.", correlationId: "c", category: "VALIDATION_ERROR" };
    const upstream = {
      ...scripted(Response.json(bad, { status: 400 }), Response.json({ results: [at(0), at(1)] }), new Error("reset")),
      name: "crm",
    };
    const attempt = hubspotCrm(upstream, "millrace_id", { take: async () => {}, heed: async () => 0 }).upsert("contacts", records, options);
    expect(await attempt).toMatchObject([
      { key: one, state: "done" },
      { key: two, state: "done" },
      { key: three, state: "failed", retry: true, message: expect.stringContaining("crm did not respond") },
      { state: "failed", retry: true },
    ]);
  });

  it("the CRM adapter uses HubSpot's response about a property that does not exist", async () => {
    const records = [person(), person(undefined, { shoe_size: "42" }), person(), person(undefined, { shoe_size: "43" })];
    const { total: before } = await crmCalls();
    expect(await real().upsert("contacts", records, options)).toMatchObject([
      { state: "done" },
      { state: "failed", retry: false, message: expect.stringContaining("shoe_size") },
      { state: "done" },
      { state: "failed", retry: false },
    ]);
    expect((await crmCalls()).total - before).toBe(2);
  });

  it("the CRM adapter refuses a key that occurs twice in a batch, and accepts the others", async () => {
    const [one, other] = [person(), person()];
    expect(await real().upsert("contacts", [one, other, { ...one, properties: {} }], options)).toMatchObject([
      { state: "failed", message: expect.stringContaining("Duplicate IDs") },
      { state: "done" },
      { state: "failed" },
    ]);
  });
});

describe("A call that fails as a whole", () => {
  const records = [{ key: "k1", properties: { email: "k1@example.com" } }];
  const idle: Pick<Limit, "take" | "heed"> = { take: async () => {}, heed: async () => 0 };
  const refusing = (status: number, body: object, headers = {}) => {
    const upstream = {
      ...scripted(Response.json(body, { status, headers })),
      name: "crm",
      credential: { variable: "CRM_TOKEN", value: "s3cret" },
    };
    const heard: unknown[] = [];
    const limit: typeof idle = { ...idle, heed: async (answer) => heard.push(answer) };
    return { heard, attempt: () => hubspotCrm(upstream, "millrace_id", limit).upsert("contacts", records, options) };
  };
  const body = { status: "error", message: "No.", correlationId: "aeb5f871-7f07-4993-9211-075dc63e7cbf", category: "X" };

  it.each([
    [429, { policyName: "TEN_SECONDLY_ROLLING" }, {}, "retry_after", 10_000],
    [429, { policyName: "DAILY" }, {}, "retry_after", 3_600_000],
    [429, { policyName: "DAILY" }, { "retry-after": "120" }, "retry_after", 120_000],
    [429, {}, {}, "retry_after", 30_000],
    [423, {}, {}, "retry_after", 2_000],
    [477, {}, { "retry-after": "86400" }, "retry_after", 43_200_000],
    [503, {}, { "retry-after": "5" }, "retry_after", 5_000],
    [401, {}, {}, "not_retryable", undefined],
    [403, {}, {}, "not_retryable", undefined],
    [404, {}, {}, "not_retryable", undefined],
    [500, {}, {}, "unavailable", undefined],
    [504, {}, {}, "unavailable", undefined],
  ])("a failed CRM call with %i and %o has HubSpot's meaning, and its correlation id", async (status, more, headers, code, delayMs) => {
    const { heard, attempt } = refusing(status, { ...body, ...more }, headers);
    await expect(attempt()).rejects.toMatchObject({
      code,
      message: expect.stringContaining("correlation id aeb5f871-7f07-4993-9211-075dc63e7cbf"),
      ...(delayMs !== undefined && { detail: { delayMs } }),
    });
    expect(heard).toEqual(status === 429 ? [{ status, headers: { "retry-after": String(Number(delayMs) / 1000) } }] : []);
  });

  it("the error of a CRM call never contains the token, even if HubSpot repeats it", async () => {
    const { attempt } = refusing(401, { ...body, message: "The token s3cret has expired." });
    const message = await attempt().catch(errors.messageOf);
    expect(message).toMatch(/The token \*\*\* has expired.*CRM_TOKEN/);
    expect(message).not.toContain("s3cret");
  });

  it("a missing id property is not reported as an error of a record, and the error explains how to create the property", async () => {
    await expect(crm({ ...env, CRM_ID_PROPERTY: "our_id" }, "acme").upsert("contacts", records, options)).rejects.toMatchObject({
      code: "not_retryable",
      message: expect.stringMatching(/non-unique.*our_id.*docs\/crm\.md/),
    });
  });

  it("a failed CRM call may be repeated: an effect without a response is found again under the engine's name", async () => {
    const one = person();
    await failCrm({ match: "batch/upsert", status: 502, remaining: 1, afterEffect: true });
    await expect(real().upsert("contacts", [one], options)).rejects.toMatchObject({ code: "unavailable" });
    expect(await real().upsert("contacts", [one], options)).toMatchObject([{ state: "done", created: false }]);
    const { records: all } = await crmView("contacts");
    expect(all.filter(({ key }: { key: string }) => key === one.key)).toHaveLength(1);
  });

  it("a 429 of the CRM delays every other caller, without another call to the CRM", async () => {
    let asked = 0;
    const EMBEDDED_CRM = {
      fetch: async () => {
        asked++;
        return Response.json({ ...body, policyName: "DAILY" }, { status: 429 });
      },
    };
    const apart: ProvidersEnv = { EMBEDDED_CRM, RATE_LIMIT: namespaceOf(fresh()) };
    await expect(crm(apart, "acme").read(["1"], options)).rejects.toMatchObject({ code: "retry_after", detail: { upstreamStatus: 429 } });
    await expect(crm(apart, "acme").read(["1"], options)).rejects.toMatchObject({
      code: "retry_after",
      message: expect.stringContaining("The call was not made"),
    });
    expect(asked).toBe(1);
  });
});

it("after one 429 of the CRM all calls are spread out, until the limit has recovered over time", async () => {
  const RATE_LIMIT = namespaceOf(fresh());
  const body = { status: "error", message: "No.", correlationId: "c", category: "RATE_LIMITS", policyName: "SECONDLY" };
  const EMBEDDED_CRM = { fetch: async () => Response.json(body, { status: 429, headers: { "retry-after": "0" } }) };
  const others = limitOf({ RATE_LIMIT }, "crm https://crm.embedded", [{ limit: 100, periodMs: 10_000 }]);
  expect([await others.tryTake(), await others.tryTake()]).toMatchObject([{ taken: true }, { taken: true }]);
  await expect(crm({ EMBEDDED_CRM, RATE_LIMIT }, "acme").read(["1"], options)).rejects.toMatchObject({ code: "retry_after" });
  // HubSpot sent no Retry-After: no call for a second.
  expect(await others.tryTake()).toMatchObject({ taken: false });
  await others.take();
  const tries = await Promise.all(Array.from({ length: 20 }, () => others.tryTake()));
  expect(tries.filter(({ taken }) => taken).length).toBeLessThan(10);
  expect(tries.at(-1)).toMatchObject({ taken: false, waitMs: expect.any(Number) });
});

/** The real limiter, under another name: a pause in this test affects no other test. */
function namespaceOf(prefix: string): typeof env.RATE_LIMIT {
  return { getByName: (name: string) => env.RATE_LIMIT.getByName(`${prefix} ${name}`) } as typeof env.RATE_LIMIT;
}
