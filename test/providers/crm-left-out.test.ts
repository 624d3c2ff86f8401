import { describe, expect, it } from "vitest";
import { hubspotCrm } from "../../src/providers/hubspot.ts";
import { scripted } from "./embedded.ts";

const options = { key: "k" };

describe("A 2xx response with missing items", () => {
  const limit = { take: async () => {}, heed: async () => 0 };
  const answered = (body: object, status = 200) => hubspotCrm(scripted(Response.json(body, { status })), "millrace_id", limit);
  const again = { retry: true, category: "NO_ANSWER" };
  const ends = (from: string, to: string) => ({ from: { id: from }, to: { id: to } });

  it.each([
    ["a batch that was cancelled", { status: "CANCELED", results: [] }, ["1", "2"]],
    ["one pair of two", { status: "COMPLETE", results: [ends("1", "8"), ends("8", "1")] }, ["2"]],
    ["a pair with another company", { status: "COMPLETE", results: [ends("1", "8"), ends("2", "7")] }, ["2"]],
    ["a pair whose contact was merged", { status: "COMPLETE", results: [ends("1", "8"), ends("3", "9")] }, []],
    ["both pairs", { results: [ends("1", "8"), ends("2", "9")] }, []],
  ])("a 2xx response to an association that omits items is an error: %s", async (_, body, left) => {
    const pairs = [
      { contact: "1", company: "8" },
      { contact: "2", company: "9" },
    ];
    expect(await answered(body).associate(pairs, options)).toEqual(new Map(left.map((id) => [id, expect.objectContaining(again)])));
  });

  it.each([
    ["a batch that was cancelled", { status: "CANCELED", results: [] }, ["1", "2"]],
    [
      "a name that was not accepted",
      {
        results: [
          { id: "1", properties: { millrace_id: "a" } },
          { id: "2", properties: { millrace_id: null } },
        ],
      },
      ["2"],
    ],
    [
      "a record that was merged",
      {
        results: [
          { id: "1", properties: { millrace_id: "a" } },
          { id: "3", properties: { millrace_id: "b" } },
        ],
      },
      [],
    ],
    ["no properties", { results: [{ id: "1" }, { id: "2" }] }, []],
  ])("a 2xx response to a change of names that omits items is an error: %s", async (_, body, left) => {
    const records = [
      { crmId: "1", key: "a" },
      { crmId: "2", key: "b" },
    ];
    expect(await answered(body).name(records, options)).toEqual(new Map(left.map((id) => [id, expect.objectContaining(again)])));
  });

  const found = { id: "1", properties: {}, updatedAt: "2026-10-01T12:00:00Z" };
  const gone = (...ids: string[]) => ({ category: "OBJECT_NOT_FOUND", message: "Gone.", context: { ids } });
  it.each([
    ["a batch that is still running", { status: "PENDING", results: [found] }, 200, ["2", "3"]],
    ["an error that is counted and not listed", { results: [found], numErrors: 2, errors: [gone("2")] }, 207, ["3"]],
    ["two records that no longer exist", { results: [found], numErrors: 2, errors: [gone("2", "3")] }, 207, []],
  ])("a 2xx response to a read that omits items is an error: %s", async (_, body, status, left) => {
    const { refused } = await answered(body, status).read(["1", "2", "3"], options);
    expect(refused).toEqual(new Map(left.map((id) => [id, expect.objectContaining(again)])));
  });

  it("an upsert whose 2xx response omits a record sends that record again", async () => {
    const records = [
      { key: "a", properties: {} },
      { key: "b", properties: {} },
    ];
    const body = { status: "COMPLETE", results: [{ id: "1", properties: { millrace_id: "a" } }], numErrors: 1 };
    expect(await answered(body, 207).upsert("contacts", records, options)).toMatchObject([
      { state: "done" },
      { state: "failed", ...again },
    ]);
  });

  it.each([{}, { status: "error", category: "RATE_LIMITS", message: "No." }])(
    "a 2xx response of %o is not accepted as HubSpot's",
    async (body) => {
      await expect(answered(body).associate([{ contact: "1", company: "8" }], options)).rejects.toMatchObject({ code: "unavailable" });
    },
  );
});
