import { expect, it, vi } from "vitest";
import facts from "../../../docs/facts.md?raw";
import { FACT_TYPES, PROCESSED } from "../../../src/facts/fact.ts";
import { callerWith } from "../../api/client.ts";
import { fencesOf, rowsOf } from "../markdown.ts";
import { curlsOf } from "./curl.ts";
import { follow, readAssignments } from "./follow.ts";

it("every command of docs/facts.md answers what is written under it", { timeout: 60_000 }, async () => {
  const { token } = await callerWith();
  const shells = fencesOf(facts).filter(({ language }) => language === "sh");
  const variables = new Map([["TOKEN", token]]);
  readAssignments(shells[0]?.text ?? "", variables);
  variables.set("URL", "");
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`Nothing above says what $${name} is.`);
    return value;
  };
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  expect(curls).toHaveLength(7);
  for (const curl of curls) {
    // Facts travel by queue: a reader who is too early asks again.
    const ask = () => follow(curl, lookUp);
    const body = await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 15_000, interval: 100 }) : ask());
    if (body?.instance_id) variables.set("ID", body.instance_id);
  }
});

it("docs/facts.md has every type of fact, and says which are processed", () => {
  const rows = rowsOf(facts, "type").map(([types = "", , to = ""]) => ({
    types: [...types.matchAll(/`(\w+)`/g)].map(([, type]) => type),
    to,
  }));
  expect(rows.flatMap(({ types }) => types).toSorted()).toEqual(FACT_TYPES.toSorted());
  const processed = rows.filter(({ to }) => to.includes("fact-processing")).flatMap(({ types }) => types);
  expect(processed.toSorted()).toEqual(PROCESSED.toSorted());
});
