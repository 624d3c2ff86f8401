import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const SRC = join(ROOT, "src");

/** Every rule of the code: `name: "…", keepDays: N`, in files named retention.ts. */
function rules(): { name: string; days: number }[] {
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => /(^|\/)retention\.ts$/.test(file));
  return files.flatMap((file) =>
    [...readFileSync(join(SRC, file), "utf8").matchAll(/name: "([^"]+)",\s+keepDays: ([\d_]+)/g)].map(([, name = "", days]) => ({
      name,
      days: Number(days),
    })),
  );
}

it("docs/retention.md names every rule of the code with its age, and no other", () => {
  const rows = rowsOf(readFileSync(join(ROOT, "docs/retention.md"), "utf8"), "rule");
  const told = rows.map(([name = "", days]) => ({ name: name.replaceAll("`", ""), days: Number(days) }));
  const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
  expect(told.sort(byName)).toEqual(rules().sort(byName));
  expect(told.length).toBeGreaterThanOrEqual(10);
});
