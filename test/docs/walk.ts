import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** One instruction of a page, in the page's order. */
export type Move = { do: "make"; file: string; text: string } | { do: "add"; file: string; diff: string } | { do: "run"; shell: string };

/**
 * A page's instructions to its reader. A block below ``New file `path`:`` is a file, also with a comment between. A `diff` block below
 * ``In `path`:`` replaces its minus lines with its plus lines; the other lines give the position. An `sh` block is executed.
 */
export function movesOf(page: string): Move[] {
  const blocks = page.matchAll(/(?:^(New file|In) `([^`]+)`:\n\n)?(?:^<!-- .+ -->\n)?^```(\w+)\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, how, file = "", language = "", text = ""]): Move[] => {
    if (how === "New file") return [{ do: "make", file, text }];
    if (how === "In") return [{ do: "add", file, diff: text }];
    return language === "sh" ? [{ do: "run", shell: text }] : [];
  });
}

/** Creates or changes a file in a folder as on the page. Errors: when the page and the file do not match. */
export function apply(move: Exclude<Move, { do: "run" }>, folder: string): void {
  const path = join(folder, move.file);
  if (move.do === "make") {
    if (existsSync(path)) throw new Error(`The page creates ${move.file}, which already exists.`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, move.text);
    return;
  }
  const before = readFileSync(path, "utf8");
  const lines = move.diff.split("\n").slice(0, -1);
  const found = lines
    .filter((line) => !line.startsWith("+"))
    .map((line) => `${line.slice(1)}\n`)
    .join("");
  const parts = before.split(found);
  if (parts.length !== 2) throw new Error(`The page adds to ${move.file} at a place that is there ${parts.length - 1} times:\n${found}`);
  const added = lines.filter((line) => !line.startsWith("-")).map((line) => `${line.slice(1)}\n`);
  writeFileSync(path, parts.join(added.join("")));
}
