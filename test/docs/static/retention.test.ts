import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { FAILED, SETTLED, UNDER_WAY } from "../../../packages/millrace/src/store/instances/status.ts";
import { sources } from "../../house/sources.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

/**
 * Every retention rule of the code: `name: "…", keepDays: N`, in files named retention.ts. N is a number, a constant of these files or of
 * kept-days.ts, or a sum of such values.
 */
function rules(): { name: string; days: number }[] {
  const text = sources(/(^|\/)(retention|kept-days)\.ts$/)
    .map((source) => source.text)
    .join("\n");
  const constants = new Map(
    [...text.matchAll(/^(?:export )?const ([A-Z_]+_DAYS) = (.+);$/gm)].map(([, name = "", said = ""]) => [name, said]),
  );
  const days = (said: string): number =>
    said
      .split(" + ")
      .map((part) => (constants.has(part) ? days(constants.get(part) ?? "") : Number(part)))
      .reduce((sum, part) => sum + part, 0);
  return [...text.matchAll(/name: "([^"]+)",\s+keepDays: (\w+)/g)].map(([, name = "", said = ""]) => ({ name, days: days(said) }));
}

it("docs/retention.md lists every rule of the code with its age, and no other", () => {
  const rows = rowsOf(readFileSync(join(ROOT, "docs/retention.md"), "utf8"), "rule");
  const told = rows.map(([name = "", days]) => ({ name: name.replaceAll("`", ""), days: Number(days) }));
  const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
  expect(told.sort(byName)).toEqual(rules().sort(byName));
  expect(told.length).toBeGreaterThanOrEqual(10);
});

it("docs/retention.md lists for each status of an instance its retention", () => {
  const text = readFileSync(join(ROOT, "docs/retention.md"), "utf8");
  const statusesIn = (said = "") => [...said.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name);
  const leaving = new Map(rowsOf(text, "rule").map(([name, , what]) => [name, statusesIn(what)]));
  expect(leaving.get("`instances ended`")).toEqual(SETTLED.values);
  expect(leaving.get("`instances failed`")).toEqual(FAILED.values);
  expect(statusesIn(/\*\*An instance under way\*\*: ([^.]*),/.exec(text)?.[1])).toEqual(UNDER_WAY.values);
});
