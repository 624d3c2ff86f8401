import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh } from "./client.ts";

const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

/** An error within an item: the content of its payload, and the place that the error reports. */
const WRONG: [name: string, text: string, at: string][] = [
  ["half of a surrogate pair", '"n":"\\ud83d"', "n"],
  ["a key with half of a surrogate pair", '"\\ud83d":1', "�"],
  ["a number above the maximum", '"n":1e999', "n"],
  ["a number that would be read as another number", '"n":9007199254740993', "n"],
  ["a key that could change a prototype", '"n":{"__proto__":1}', "n.__proto__"],
  ["a key that occurs twice", '"n":{"b":1,"\\u0062":2}', "n.b"],
  ["the character NUL", '"n":"a\\u0000b"', "n"],
  ["65 levels", `"n":${nested(64)}`, ""],
];

/** Each endpoint with several items: its items around a payload, the body around them, and the name of an item in its error. */
const DOORS = [
  {
    door: "/v1/commands/batch",
    type: "application/json",
    body: (items: string[]) => `{"commands":[${items.join(",")}]}`,
    item: (id: string, more: string) => `{"type":"research.requested","payload":{"brand":"acme","keyword":"${id}"${more}}}`,
    at: "payload",
    taken: 202,
  },
  {
    door: "/v1/commands/batch",
    type: "application/cloudevents-batch+json",
    body: (items: string[]) => ` [ ${items.join(" , ")} ] `,
    item: (id: string, more: string) =>
      `{"specversion":"1.0","id":"${id}","source":"s","type":"research.requested","data":{"brand":"acme","keyword":"${id}"${more}}}`,
    at: "data",
    taken: 202,
  },
  {
    door: "/v1/events/batch",
    type: "application/json",
    body: (items: string[]) => `{"\\u0065vents":[${items.join(",")}]}`,
    item: (id: string, more: string) => `{"type":"contact.changed","idempotency_key":"${id}","payload":{"contact":"${id}"${more}}}`,
    at: "payload",
    // This deployment has no open event; valid items get this error.
    taken: 404,
  },
  {
    door: "/v1/facts",
    type: "application/json",
    body: (items: string[]) => `{"correlation_id":"job","facts":[${items.join(",\n")}]}`,
    item: (id: string, more: string) =>
      `{"fact_id":"${id}","entity":"${id}","type":"reconciliation","occurred_at":"2026-10-01T09:30:00Z","payload":{"about":"x"${more}}}`,
    at: "facts.1.payload",
    taken: 201,
  },
];

describe.each(DOORS)("Of many items sent to $door as $type", ({ door, type, body, item, at: where, taken }) => {
  it.each(WRONG)("an item with %s is refused alone, at its place", async (_, text, at) => {
    const caller = await callerWith();
    const sent = body([item(fresh("i"), ""), item(fresh("i"), `,${text}`), item(fresh("i"), "")]);
    const answer = await caller.post(door, sent, { "content-type": type });
    expect(answer.status).toBe(200);
    expect(answer.body.results.map(({ status }: { status: number }) => status)).toEqual([taken, 422, taken]);
    const [issue] = answer.body.results[1].problem.issues;
    expect(issue.path).toContain(at === "" ? where.split(".").slice(0, -1).join(".") : `${where}.${at}`);
  });

  it("all items are refused for an error of the JSON, or in the body outside the items", async () => {
    const caller = await callerWith();
    const wrong = item(fresh("i"), ',"n":1e999');
    const broken = [
      body([wrong, "{"]),
      body([wrong, ""]),
      body([wrong, `${item("a", "")} 1`]),
      body([wrong]).trim().slice(0, -1),
      `${body([wrong])} ]`,
      body([`${nested(70)}}`]),
    ];
    for (const text of broken) expectProblem(await caller.post(door, text, { "content-type": type }), 400, "invalid_json");
    const others = [body(Array.from({ length: 101 }, () => wrong)), body([item("a", `,"n":[${"1,".repeat(50_000)}1]`)])];
    if (type === "application/json") others.push(body([wrong]).replace("{", '{"x":1e999,'), body([wrong]).replace("{", '{"x":1,"x":1,'));
    for (const text of others) expectProblem(await caller.post(door, text, { "content-type": type }), 422, "invalid_payload");
    expect((await caller.get("/v1/instances")).body.items).toEqual([]);
  });
});

it("a request with the same list twice is refused", async () => {
  const caller = await callerWith();
  const answer = await caller.post("/v1/facts", '{"facts":[{"a":1e999}],"facts":[{"a":1e999}]}');
  expect(expectProblem(answer, 422, "invalid_payload").issues).toMatchObject([{ path: "facts" }]);
});
