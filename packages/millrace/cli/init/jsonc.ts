import { findNodeAtLocation, type Node, parseTree, stripComments } from "jsonc-parser";
import { paint } from "../terminal.ts";
import type { Change } from "./wanted.ts";

/** A value that exceeds this line width is written on several lines. */
const WIDTH = 140;

/** Inserts changes into JSON with comments. The existing text is not changed. */
export function editJsonc(text: string, changes: readonly Change[]): string {
  return changes.reduce(edit, text);
}

function edit(text: string, { path, value, adds, why }: Change): string {
  const root = parseTree(text, [], { allowTrailingComma: true });
  if (root === undefined) return text;
  const indent = /^([ \t]+)"/m.exec(text)?.[1] ?? "  ";
  const list = adds ? findNodeAtLocation(root, [...path]) : undefined;
  if (list)
    return insert(
      text,
      list,
      (value as unknown[]).map((one) => (depth: number) => shown(one, indent, depth)),
      { indent, why },
    );
  // The remaining part of the path is inserted as one value into the deepest object that exists.
  let depth = path.length - 1;
  while (depth > 0 && !findNodeAtLocation(root, path.slice(0, depth))) depth--;
  const parent = findNodeAtLocation(root, path.slice(0, depth)) ?? root;
  const whole = path.slice(depth + 1).reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
  const line = (level: number) => `${JSON.stringify(path[depth])}: ${shown(whole, indent, level)}`;
  return insert(text, parent, [line], { indent, why });
}

/**
 * Inserts entries at the end of an object or list. The comment is written above the new entries. If a list stays on one line, the comment
 * is written above this line.
 */
function insert(
  text: string,
  node: Node,
  entries: ((depth: number) => string)[],
  { indent, why }: { indent: string; why: string | undefined },
): string {
  const close = node.offset + node.length - 1;
  const last = node.children?.at(-1);
  const inside = text.slice(node.offset + 1, close);
  const depth = depthOf(text, node, indent) + 1;
  const isList = node.type === "array";
  if (!inside.includes("\n") && (last || isList)) {
    const put = entries.map((entry) => entry(depth)).join(", ");
    const start = text.lastIndexOf("\n", node.offset) + 1;
    if (text.slice(start, close).length + put.length <= WIDTH) {
      const [margin] = /^[ \t]*(?="[^"]*": ?$)/.exec(text.slice(start, node.offset)) ?? [];
      const above = why === undefined || margin === undefined ? "" : `${margin}// ${why}\n`;
      const end = last ? last.offset + last.length : node.offset + 1;
      return `${text.slice(0, start)}${above}${text.slice(start, end)}${last ? ", " : ""}${put}${text.slice(end)}`;
    }
  }
  const margin = indent.repeat(depth);
  const lines = [
    ...(why === undefined ? [] : [`// ${why}`]),
    ...entries.map((entry, at) => entry(depth) + (at < entries.length - 1 ? "," : "")),
  ];
  const block = lines.map((line) => margin + line).join("\n");
  if (!last) return `${text.slice(0, node.offset + 1)}${inside.trimEnd()}\n${block}\n${indent.repeat(depth - 1)}${text.slice(close)}`;
  const end = last.offset + last.length;
  if (!inside.includes("\n")) {
    // The existing entries are moved to a new line after the opening bracket.
    return `${text.slice(0, node.offset + 1)}\n${margin}${inside.trim().replace(/,$/, "")},\n${block}\n${indent.repeat(depth - 1)}${text.slice(close)}`;
  }
  const behind = text.slice(end, close);
  const hasComma = stripComments(behind, " ").includes(",");
  return `${text.slice(0, end)}${hasComma ? "" : ","}${behind.trimEnd()}\n${block}${hasComma ? "," : ""}\n${indent.repeat(depth - 1)}${text.slice(close)}`;
}

function depthOf(text: string, { offset }: Node, indent: string): number {
  const [margin = ""] = /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", offset) + 1, offset)) ?? [];
  return Math.round(margin.length / indent.length);
}

/** Formats a value as JSON. The JSON is on one line if the line is not too long. */
function shown(value: unknown, indent: string, depth: number): string {
  const flat = inline(value);
  if (typeof value !== "object" || value === null) return flat;
  const isTable = Object.values(value).filter((one) => typeof one === "object").length > 1;
  if (!isTable && flat.length + depth * indent.length <= WIDTH - 20) return flat;
  const margin = indent.repeat(depth + 1);
  const entries = Object.entries(value).map(
    ([key, one]) => margin + (Array.isArray(value) ? "" : `${JSON.stringify(key)}: `) + shown(one, indent, depth + 1),
  );
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return `${open}\n${entries.join(",\n")}\n${indent.repeat(depth)}${close}`;
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{ ${Object.entries(value)
    .map(([key, one]) => `${JSON.stringify(key)}: ${inline(one)}`)
    .join(", ")} }`;
}

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
