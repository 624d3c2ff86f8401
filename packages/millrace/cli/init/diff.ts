import { paint } from "../terminal.ts";

const CONTEXT = 3;

/** The difference between two texts in the format of `diff -u`. The difference is coloured if the output is a terminal. */
export function unifiedDiff(name: string, before: string, after: string): string {
  if (before === after) return "";
  const steps = stepsOf(linesOf(before), linesOf(after));
  const changes = steps.flatMap(({ kind }, at) => (kind === " " ? [] : [at]));
  const hunks: [number, number][] = [];
  for (const at of changes) {
    const last = hunks.at(-1);
    if (last && at - last[1] <= 2 * CONTEXT) last[1] = at;
    else hunks.push([at, at]);
  }
  const shown = hunks.flatMap(([from, to]) => {
    const part = steps.slice(Math.max(0, from - CONTEXT), to + CONTEXT + 1);
    const count = (kind: string) => part.filter((one) => one.kind !== kind).length;
    const [first] = part;
    const head = `@@ -${(first?.before ?? 0) + 1},${count("+")} +${(first?.after ?? 0) + 1},${count("-")} @@`;
    return [
      paint("cyan", head),
      ...part.map(({ kind, line }) => (kind === " " ? ` ${line}` : paint(kind === "+" ? "green" : "red", kind + line))),
    ];
  });
  const from = before === "" ? "/dev/null" : `a/${name}`;
  return [paint("bold", `--- ${from}`), paint("bold", `+++ b/${name}`), ...shown].join("\n");
}

const linesOf = (text: string) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

interface Step {
  kind: " " | "-" | "+";
  line: string;
  /** The number of lines before this line, in the old text and in the new text. */
  before: number;
  after: number;
}

/** The shortest edit script between two lists of lines, computed from the longest common subsequence of the lists. */
function stepsOf(one: readonly string[], other: readonly string[]): Step[] {
  const common = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  const at = (row: number, column: number) => common[row]?.[column] ?? 0;
  for (let row = one.length - 1; row >= 0; row--)
    for (let column = other.length - 1; column >= 0; column--)
      (common[row] as Uint16Array)[column] =
        one[row] === other[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
  const steps: Step[] = [];
  for (let before = 0, after = 0; before < one.length || after < other.length; ) {
    const [mine = "", theirs = ""] = [one[before], other[after]];
    if (before < one.length && after < other.length && mine === theirs)
      steps.push({ kind: " ", line: mine, before: before++, after: after++ });
    else if (after >= other.length || (before < one.length && at(before + 1, after) >= at(before, after + 1)))
      steps.push({ kind: "-", line: mine, before: before++, after });
    else steps.push({ kind: "+", line: theirs, before, after: after++ });
  }
  return steps;
}
