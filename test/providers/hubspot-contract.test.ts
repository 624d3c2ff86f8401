import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { crm } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { conforms } from "../contracts/check.ts";
import contract from "../contracts/hubspot.json";
import { crmCalls, crmEdit, crmRests, failCrm } from "./embedded.ts";

const options = { key: "k" };

/** Every operation that the connector may use, and the names of its schemas. */
const OPERATIONS: Record<string, { request: string; 200?: string; 207?: string }> = {
  "POST /crm/v3/objects/contacts/batch/upsert": {
    request: "BatchInputSimplePublicObjectBatchInputUpsert",
    200: "BatchResponseSimplePublicUpsertObject",
    207: "BatchResponseSimplePublicUpsertObjectWithErrors",
  },
  "POST /crm/v3/objects/companies/batch/upsert": {
    request: "BatchInputSimplePublicObjectBatchInputUpsert",
    200: "BatchResponseSimplePublicUpsertObject",
    207: "BatchResponseSimplePublicUpsertObjectWithErrors",
  },
  "POST /crm/v3/objects/contacts/batch/read": {
    request: "BatchReadInputSimplePublicObjectId",
    200: "BatchResponseSimplePublicObject",
    207: "BatchResponseSimplePublicObjectWithErrors",
  },
  "POST /crm/v3/objects/contacts/merge": { request: "PublicMergeInput", 200: "SimplePublicObject" },
  // Responds with 204, without a body.
  "POST /crm/v3/objects/contacts/gdpr-delete": { request: "PublicGdprDeleteInput" },
  "POST /crm/v4/associations/contacts/companies/batch/associate/default": {
    request: "BatchInputPublicDefaultAssociationMultiPost",
    200: "BatchResponsePublicDefaultAssociation",
    207: "BatchResponsePublicDefaultAssociation",
  },
};

/** The operations and statuses that occurred, each checked against its schema. */
const seen = new Set<string>();

/** The connection to the embedded CRM, with a check of both directions against HubSpot's published API. */
const EMBEDDED_CRM = {
  async fetch(request: Request): Promise<Response> {
    const name = `${request.method} ${new URL(request.url).pathname}`;
    const operation = OPERATIONS[name];
    expect(operation, `${name} is not among the published operations`).toBeDefined();
    expect(request.headers.get("authorization")).toMatch(/^Bearer ./);
    expect(request.headers.get("content-type")).toBe("application/json");
    expect(conforms(contract, operation?.request ?? "", await request.clone().json()), name).toEqual([]);
    const answer = await env.EMBEDDED_CRM.fetch(request);
    seen.add(`${name.replace(/^POST \/crm\/v\d\/(objects|associations)\//, "")} ${answer.status}`);
    if (answer.status === 204) return answer;
    const shape = answer.status === 200 ? operation?.[200] : answer.status === 207 ? operation?.[207] : "Error";
    expect(conforms(contract, shape ?? "nothing", await answer.clone().json()), `${name} answered ${answer.status}`).toEqual([]);
    return answer;
  },
};
const watched = (changed: object = {}) => crm({ ...env, EMBEDDED_CRM, ...changed }, "acme");

describe("The connector and the embedded CRM follow HubSpot's published API", () => {
  it("requests and responses match HubSpot's published API when all, some or no records are accepted, and when a limit is reached", async () => {
    const key = fresh();
    const before = (await crmCalls()).calls.at(-1)?.id ?? 0;
    // The test bypasses the limiter, and uses the capacity of other tests.
    onTestFinished(() => Promise.all([failCrm(), crmRests(before)]).then(() => undefined));
    const records = [1, 2, 3].map((each) => ({ key: `${key}-${each}`, properties: { email: `${key}-${each}@example.com` } }));
    const done = await watched().upsert("contacts", records, options);
    const [one = "", two = "", three = ""] = done.map((outcome) => (outcome.state === "done" ? outcome.crmId : ""));
    await watched().upsert("contacts", [...records, { key: `${key}-4`, properties: { email: "nobody" } }], options);
    await watched().upsert("contacts", [{ key: `${key}-5`, properties: { email: `${key}-1@example.com` } }], options);
    await watched().upsert("contacts", [{ key: `${key}-6`, properties: { shoe_size: "42" } }], options);
    const [company] = await watched().upsert("companies", [{ key, properties: { name: "Acme" } }], options);
    const companyId = company?.state === "done" ? company.crmId : "";
    await watched().upsert("companies", [{ key: `${key}-2`, properties: { email: "x" } }], options);
    await watched().associate([{ contact: one, company: companyId }], options);
    await watched()
      .associate([{ contact: one, company: "999999" }], options)
      .catch(() => undefined);
    await crmEdit(three, { phone: "42" });
    await watched().read([one, two, three], options);
    await watched().read([one, "999999"], options);
    await watched().read([`${key}-1`, "nobody"], options, [], "name");
    await watched().merge(one, two, options);
    await watched().merge(one, two, options);
    await watched().erase(three, options);
    await watched().erase(three, options);
    expect((await watched().read([three], options)).found).toEqual([]);
    await failCrm({ match: "", status: 500, remaining: 1 });
    await watched()
      .read([one], options)
      .catch(() => undefined);
    await watched({ CRM_TOKEN: "guess" })
      .read([one], options)
      .catch(() => undefined);
    const asks = Array.from({ length: 110 }, () => EMBEDDED_CRM.fetch(rawRead(one)));
    await Promise.all(asks);

    expect([...seen].sort()).toEqual([
      "companies/batch/upsert 200",
      "companies/batch/upsert 400",
      "contacts/batch/read 200",
      "contacts/batch/read 207",
      "contacts/batch/read 401",
      "contacts/batch/read 429",
      "contacts/batch/read 500",
      "contacts/batch/upsert 200",
      "contacts/batch/upsert 207",
      "contacts/batch/upsert 400",
      "contacts/companies/batch/associate/default 200",
      "contacts/companies/batch/associate/default 207",
      "contacts/gdpr-delete 204",
      "contacts/gdpr-delete 404",
      "contacts/merge 200",
      "contacts/merge 400",
    ]);
  });

  it.each<[string, unknown, string]>([
    ["BatchInputSimplePublicObjectBatchInputUpsert", { inputs: [{ id: "a", properties: { age: 42 } }] }, "properties/age"],
    ["BatchInputSimplePublicObjectBatchInputUpsert", { inputs: [{ properties: {} }] }, "inputs/0"],
    ["BatchReadInputSimplePublicObjectId", { inputs: [{ id: "1" }], properties: [] }, "propertiesWithHistory"],
    ["Error", { status: "error", message: "No.", category: "X", correlationId: "not a uuid" }, "correlationId"],
    [
      "BatchResponseSimplePublicObject",
      { status: "DONE", results: [], startedAt: "yesterday", completedAt: "2026-10-01T00:00:00Z" },
      "startedAt",
    ],
    ["PublicMergeInput", { primaryObjectId: "1", objectIdToMerge: "2", force: true }, "force"],
  ])("the check against HubSpot's published API reports deviations from %s", (name, value, place) => {
    expect(conforms(contract, name, value).join("\n")).toContain(place);
  });
});

function rawRead(id: string): Request {
  return new Request("https://crm.embedded/crm/v3/objects/contacts/batch/read", {
    method: "POST",
    headers: { authorization: "Bearer embedded", "content-type": "application/json" },
    body: JSON.stringify({ inputs: [{ id }], properties: ["email"], propertiesWithHistory: [] }),
  });
}
