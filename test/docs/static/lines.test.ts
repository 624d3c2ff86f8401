import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { linesOf } from "../lines.ts";
import { rowsOf } from "../markdown.ts";
import { movesOf } from "../walk.ts";

const page = readFileSync(join(ROOT, "docs/write-a-chain.md"), "utf8");
const RAW = "test/docs/raw";

/** The files of each part of the comparison: files of the page, files of the raw chain. */
const PARTS: Record<string, [page: string[], raw: string[]]> = {
  "the chain": [["src/welcome.ts"], ["messages.ts", "desk.ts", "welcome-customer.ts"]],
  effects: [[], ["guard.ts"]],
  intake: [[], ["intake.ts", "consumers.ts"]],
  "HTTP and operators": [[], ["api.ts", "operate.ts"]],
  repair: [[], ["sweep.ts"]],
  tables: [["migrations/0002_customers.sql"], ["migrations/0001_welcome.sql"]],
  wiring: [["src/worker.ts"], ["worker.ts", "env.ts", "wrangler.jsonc"]],
};

/** The lines that a reader of the page writes into a file: all lines of a new file, the added lines of an existing file. */
function written(file: string): number {
  const texts = movesOf(page).flatMap((move) => {
    if (move.do === "run" || move.file !== file) return [];
    if (move.do === "make") return [move.text];
    return [
      move.diff
        .split("\n")
        .filter((line) => line.startsWith("+"))
        .map((line) => line.slice(1))
        .join("\n"),
    ];
  });
  expect(texts, `The page writes nothing into ${file}.`).not.toEqual([]);
  return sum(texts.map(linesOf));
}

const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);
const rawLines = (file: string) => linesOf(readFileSync(join(ROOT, RAW, file), "utf8"));

it("the table of docs/write-a-chain.md has the correct numbers of lines", () => {
  const counted = Object.entries(PARTS).map(([part, [ours, raw]]) => [part, sum(ours.map(written)), sum(raw.map(rawLines))] as const);
  const total = ["all", sum(counted.map(([, ours]) => ours)), sum(counted.map(([, , raw]) => raw))] as const;
  const shown = rowsOf(page, "part").map(([part, ours, raw]) => [part, Number(ours), Number(raw)]);
  expect(shown, "Write these numbers into the table.").toEqual([...counted, total]);
});

it("the line count of docs/write-a-chain.md includes every file", () => {
  // The relay sends the final event, which the chain of the page does not emit.
  const tests = ["promises.ts", "raw.test.ts", "relay.ts"];
  const raw = readdirSync(join(ROOT, RAW), { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.\w+$/.test(name) && !tests.includes(name),
  );
  expect(
    Object.values(PARTS)
      .flatMap(([, files]) => files)
      .toSorted(),
  ).toEqual(raw.toSorted());
  const pages = movesOf(page).flatMap((move) => (move.do === "run" || move.file.endsWith(".test.ts") ? [] : [move.file]));
  expect(new Set(Object.values(PARTS).flatMap(([files]) => files))).toEqual(new Set(pages));
});

it("the product's own workflows are no longer than docs/write-a-chain.md states", () => {
  const rows = rowsOf(page, "chain");
  expect(rows.length).toBeGreaterThan(4);
  for (const [chain = "", most] of rows) {
    const [, file = ""] = /\]\(\.\.\/(.+)\)/.exec(chain) ?? [];
    const lines = linesOf(readFileSync(join(ROOT, file), "utf8"));
    expect(lines, `${file} has ${lines} lines: shorten it, or raise its bound in the table.`).toBeLessThanOrEqual(Number(most));
  }
});
