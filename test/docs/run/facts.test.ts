import { expect, it } from "vitest";
import facts from "../../../docs/facts.md?raw";
import { FACT_TYPES } from "../../../src/messages/fact.ts";
import { PROCESSED } from "../../../src/messages/facts.ts";
import { callerWith } from "../../api/client.ts";
import { rowsOf } from "../markdown.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/facts.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token } = await callerWith();
  const count = await followDocument(facts, { given: { TOKEN: token }, copied: (body) => ({ ID: body?.instance_id }) });
  expect(count).toBe(7);
});

it("docs/facts.md lists every type of fact, and marks the processed types", () => {
  const rows = rowsOf(facts, "type").map(([types = "", , to = ""]) => ({
    types: [...types.matchAll(/`(\w+)`/g)].map(([, type]) => type),
    to,
  }));
  expect(rows.flatMap(({ types }) => types).toSorted()).toEqual(FACT_TYPES.toSorted());
  const processed = rows.filter(({ to }) => to.includes("fact-processing")).flatMap(({ types }) => types);
  expect(processed.toSorted()).toEqual(PROCESSED.toSorted());
});
