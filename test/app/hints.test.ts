import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh } from "../api/client.ts";
import { COMMANDS } from "./messages.ts";

it("publishing a command as an event is answered with the command's endpoint", async () => {
  const caller = await callerWith();
  for (const { type, access } of COMMANDS) {
    const answer = await caller.post("/v1/events", { type, payload: {} }, { "idempotency-key": fresh() });
    expect(expectProblem(answer, 404, "unknown_message_type").detail).toContain(`send it with ${access?.route}.`);
  }
});

it("a caller without a command's scope gets the scope, not the endpoint, in the error", async () => {
  const caller = await callerWith(["enqueue"]);
  for (const { type, access } of COMMANDS.filter(({ access }) => access?.scope === "operate")) {
    const { detail } = expectProblem(await caller.post("/v1/commands", { type, payload: {} }), 403, "forbidden");
    expect(detail).toContain(`${type} needs the scope \`operate\`, which the token lacks: use a token with that scope`);
    expect(detail?.includes("POST /v1/commands")).toBe(false);
    if (access?.route !== "POST /v1/commands") expect(detail).toContain(access?.route);
  }
});

it.each([
  ["keywrd", "keyword"],
  ["keywrod", "keyword"],
  ["brnad", "brand"],
  ["cylce", "cycle"],
  ["fact", undefined],
  ["0", undefined],
  ["id", undefined],
  ["text", undefined],
  ["title", undefined],
])("the unknown field %s is read as %s: a name that is not similar gets no suggestion", async (field, meant) => {
  const caller = await callerWith();
  const payload = { brand: "acme", keyword: "mint", [field]: "x" };
  const { issues } = expectProblem(await caller.post("/v1/commands", { type: "research.requested", payload }), 422, "invalid_payload");
  const said = meant === undefined ? "remove it" : `perhaps \`${meant}\` is meant`;
  expect(issues).toEqual([{ path: `payload.${field}`, message: `is not known here: ${said}` }]);
});
