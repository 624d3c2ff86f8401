import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type CrmOutcome, crm } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { crmCalls, crmEdit, crmRests, crmView, failCrm } from "./embedded.ts";

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

describe("crm", () => {
  it("the CRM adapter creates a record once, under the engine's name for it, and updates it after that", async () => {
    const one = person(undefined, { firstname: "Ada" });
    const [first] = await real().upsert("contacts", [one], options);
    const [second] = await real().upsert("contacts", [{ ...one, properties: { firstname: "Augusta" } }], options);
    expect(first).toEqual({ key: one.key, state: "done", crmId: expect.any(String), created: true });
    expect(second).toEqual({ ...first, created: false });
    expect((await real().read([idOf(first), "999999"], options)).found).toEqual([
      {
        crmId: idOf(first),
        key: one.key,
        properties: expect.objectContaining({ email: one.properties.email, firstname: "Augusta", lastname: null }),
        updatedAt: expect.stringMatching(/Z$/),
        archived: false,
      },
    ]);
  });

  it("the CRM adapter reads records by the engine's names for them, and returns none for unknown names", async () => {
    const [one, gone] = [person(), person()];
    const [first, second] = await real().upsert("contacts", [one, gone], options);
    await crmEdit(idOf(second), null);
    const { found, refused } = await real().read([one.key, gone.key, idOf(first)], options, ["email"], "name");
    expect(found).toMatchObject([{ crmId: idOf(first), key: one.key, properties: { email: one.properties.email } }]);
    expect(refused).toEqual(new Map());
    const unmade = crm({ ...env, CRM_ID_PROPERTY: "phone" }, "acme").read([one.key], options, [], "name");
    await expect(unmade).rejects.toThrow("Create the property phone with unique values");
  });

  it("the CRM adapter accepts at most 100 records in one call", async () => {
    const batch = people(100);
    const { total: before } = await crmCalls();
    expect((await real().upsert("contacts", batch, options)).map(({ key, state }) => [key, state])).toEqual(
      batch.map(({ key }) => [key, "done"]),
    );
    expect((await crmCalls()).total).toBe(before + 1);
    await expect(async () => real().upsert("contacts", people(101), options)).rejects.toMatchObject({ code: "not_retryable" });
  });

  it("the CRM adapter makes no call for an empty list", async () => {
    const { total: before } = await crmCalls();
    expect([await real().upsert("contacts", [], options), await real().read([], options), await real().associate([], options)]).toEqual([
      [],
      { found: [], refused: new Map() },
      new Map(),
    ]);
    expect((await crmCalls()).total).toBe(before);
  });

  it("the CRM adapter associates contacts with companies; a repeat has no further effect", async () => {
    const contact = await made();
    const company = idOf((await real().upsert("companies", [{ key: fresh("co"), properties: { name: "Acme" } }], options))[0]);
    const pair = { contact: contact.id, company };
    await real().associate([pair], options);
    await real().associate([pair], options);
    const { associations } = await crmView("associations");
    expect(associations.filter((one: object) => JSON.stringify(one) === JSON.stringify(pair))).toHaveLength(1);
    const refused = await real().associate([pair, { contact: "999999", company }], options);
    expect([...refused.keys()]).toEqual(["999999"]);
    expect(refused.get("999999")).toMatchObject({
      retry: false,
      category: "OBJECT_NOT_FOUND",
      message: expect.stringMatching(/correlation id [0-9a-f-]{36}/),
    });
  });

  it("the CRM adapter merges two contacts into one under both ids, also when the first response was lost", async () => {
    const [kept, merged] = [await made({ firstname: "Ada" }), await made({ firstname: "A.", phone: "1" })];
    await failCrm({ match: "/merge", status: 504, remaining: 1, afterEffect: true });
    await expect(real().merge(kept.id, merged.id, options)).rejects.toMatchObject({ code: "unavailable" });
    const again = await real().merge(kept.id, merged.id, options);
    const id = again.state === "done" ? again.crmId : "";
    const found = [await real().read([kept.id], options), await real().read([merged.id], options)].flatMap((reading) => reading.found);
    expect(found.map(({ crmId, key }) => ({ crmId, key }))).toEqual([
      { crmId: id, key: kept.key },
      { crmId: id, key: kept.key },
    ]);
    expect(found[0]?.properties).toMatchObject({ firstname: "Ada", phone: "1" });
    expect(await real().merge(kept.id, "999999", options)).toMatchObject({
      state: "failed",
      retry: false,
      category: "OBJECT_NOT_FOUND",
      message: expect.stringContaining("999999"),
    });
  });
});

describe("The embedded CRM", () => {
  const ask = (path: string, body: unknown, token = "embedded") =>
    env.EMBEDDED_CRM.fetch(`https://crm.embedded${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });
  const UPSERT = "/crm/v3/objects/contacts/batch/upsert";

  it("the embedded CRM accepts only its own token", async () => {
    const answer = await ask(UPSERT, { inputs: [] }, "guess");
    expect(answer.status).toBe(401);
    expect(await answer.json()).toMatchObject({ status: "error", category: "INVALID_AUTHENTICATION", correlationId: expect.any(String) });
  });

  it("the embedded CRM applies no record of a batch that it refuses", async () => {
    const key = fresh();
    const inputs = [
      { id: key, idProperty: "millrace_id", properties: {} },
      { id: `${key}-2`, idProperty: "millrace_id", properties: { email: "nobody" } },
    ];
    expect((await ask(UPSERT, { inputs })).status).toBe(400);
    const { records } = await crmView("contacts");
    expect(records.filter((record: { key: string }) => record.key?.startsWith(key))).toEqual([]);
  });

  it("the embedded CRM lets a user edit, and keeps e-mail addresses unique for users too", async () => {
    const [one, other] = [await made(), await made()];
    expect(await crmEdit(one.id, { phone: "42" })).toMatchObject({
      status: 200,
      body: { id: one.id, key: one.key, properties: { phone: "42" } },
    });
    expect(await crmEdit(one.id, { email: `${other.key}@example.com` })).toMatchObject({ status: 422 });
    expect(await crmEdit(null, { email: `${fresh()}@example.com` })).toMatchObject({ status: 200, body: { key: null } });
    expect(await crmEdit(one.id, null)).toMatchObject({ status: 200, body: { archived: true } });
    expect(await real().read([one.id], options)).toEqual({ found: [], refused: new Map() });
    expect(await crmEdit("999999", {})).toMatchObject({ status: 404 });
  });

  it("the embedded CRM accepts 100 calls in any 10 seconds and then returns 429, to any caller", async () => {
    // The test bypasses the limiter, and uses the capacity of other tests.
    const before = (await crmCalls()).calls.at(-1)?.id ?? 0;
    onTestFinished(() => crmRests(before));
    const answers = await Promise.all(Array.from({ length: 130 }, () => ask(UPSERT, { inputs: [] })));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(30);
    expect(refused[0]?.headers.get("x-hubspot-ratelimit-max")).toBe("100");
    expect(refused[0]?.headers.get("x-hubspot-ratelimit-remaining")).toBe("0");
    expect(refused[0]?.headers.get("x-hubspot-ratelimit-interval-milliseconds")).toBe("10000");
    expect(await refused[0]?.json()).toMatchObject({ status: "error", errorType: "RATE_LIMIT", policyName: "TEN_SECONDLY_ROLLING" });
  });
});
