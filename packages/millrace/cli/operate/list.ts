import { tableLines } from "../table.ts";
import { oneLine, paint, say } from "../terminal.ts";
import { ago, moment, shownJson, tell } from "./words.ts";

type Row = Readonly<Record<string, unknown>>;

export interface Page {
  readonly items: readonly Row[];
  readonly next_cursor?: string | null;
}

/** How the CLI prints a list, if the columns of its operation are not sufficient. */
export interface Shown {
  readonly columns?: readonly string[];
  /** Returns the text for an additional column, which has no title. */
  readonly why?: (item: Row) => string;
  /** The sentence that is printed for an empty list. */
  readonly none?: string;
}

/** Prints a page of a list as a table, and the option that shows the next page of the list. */
export function sayPage({ items, next_cursor: cursor = null }: Page, { columns = [] }: Shown, shown: Shown = {}): void {
  if (items.length > 0) sayTable(items, shown.columns ?? columns, { why: shown.why });
  else if (cursor === null) tell(shown.none ?? "None.");
  if (cursor !== null) tell(`${items.length === 0 ? "This page is empty, but there" : "There"} is more: --cursor ${cursor}, or --all`);
}

export function sayTable(
  items: readonly Row[],
  columns: readonly string[],
  { why, indent = "" }: { why?: ((item: Row) => string) | undefined; indent?: string } = {},
): void {
  const rows = items.map((item) => [...columns.map((name) => cellOf(item[name])), ...(why ? [why(item)] : [])].map(oneLine));
  const isNumber = (name: string) => items.every((item) => ["number", "object"].includes(typeof item[name]) && !isDeep(item[name]));
  const titles = columns.map((name) => ({ title: titleOf(name), isNumber: isNumber(name) }));
  const [heading = "", ...lines] = tableLines([...titles, ...(why ? [{ title: "" }] : [])], rows);
  say(indent + paint("dim", heading));
  for (const line of lines) say(fitted(indent + line));
}

/** Prints the fields of an object in aligned columns, and prints each list of objects in the object as a table. */
export function sayFacts(object: Row): void {
  const isFact = ([name, value]: [string, unknown]) => name !== "action_id" && value !== null && !isTable(value) && String(value) !== "";
  const facts = Object.entries(object).filter(isFact);
  const width = Math.max(0, ...facts.map(([name]) => titleOf(name).length));
  for (const [name, value] of facts) say(`${titleOf(name).padEnd(width)}  ${oneLine(factOf(value))}`);
  for (const [name, items] of Object.entries(object)) {
    if (!isTable(items)) continue;
    say(paint("bold", titleOf(name)));
    sayTable(items, Object.keys(items[0] ?? {}).slice(0, 6));
  }
}

function titleOf(name: string): string {
  return name.replace(/_at$/, "").replaceAll("_", " ");
}

/** The text of a table cell. A missing value is shown as a dash, as in the console. */
function cellOf(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return String(Math.round(value * 100) / 100);
  if (typeof value === "string") return IS_TIME.test(value) ? ago(value) : value;
  const { message } = value as { message?: unknown };
  return typeof message === "string" ? message : factOf(value);
}

function factOf(value: unknown): string {
  if (typeof value === "string") return IS_TIME.test(value) ? `${moment(value)}, ${ago(value)}` : value;
  return Array.isArray(value) && !value.some(isDeep) ? value.join(", ") : shownJson(value);
}

const IS_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function isDeep(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function isTable(value: unknown): value is readonly Row[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => isDeep(item) && !Array.isArray(item));
}

function fitted(line: string): string {
  const { isTTY, columns } = process.stdout;
  return isTTY && line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
}
