import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

/** Ids in the form of a row: "A01–A04, A08" are five. */
function idsIn(cell: string): string[] {
  return [...cell.matchAll(/\b([A-Z])(\d\d)(?:–[A-Z](\d\d))?/g)].flatMap(([, letter, from, to = from]) =>
    Array.from({ length: Number(to) - Number(from) + 1 }, (_, nth) => `${letter}${String(Number(from) + nth).padStart(2, "0")}`),
  );
}

/** The ids at the beginning of test titles, in the files that a row names. */
function titledIn(cell: string): ReadonlySet<string> {
  const files = [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, path = ""]) =>
    globSync(path.endsWith(".ts") ? path : join(path, "**/*.test.ts"), { cwd: ROOT }),
  );
  const texts = files.map((file) => readFileSync(join(ROOT, file), "utf8"));
  return new Set(texts.flatMap((text) => [...text.matchAll(/["'`]((?:[A-Z]\d\d )+)/g)].flatMap(([, ids = ""]) => ids.trim().split(" "))));
}

const windows = rowsOf(readFileSync(join(ROOT, "docs/crash-windows.md"), "utf8"), "id").filter(([ids = ""]) => idsIn(ids).length > 0);

it.each(windows.map((row) => [row[0] ?? "", row.at(-1) ?? ""]))(
  "each id of the row %s begins a test title in the files that the row names",
  (ids, files) => {
    const titled = titledIn(files);
    expect(idsIn(ids).filter((id) => !titled.has(id))).toEqual([]);
  },
);
