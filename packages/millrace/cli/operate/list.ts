import { Misuse, Refusal } from "../command.ts";
import { oneLine, paint, say, tableLines } from "../terminal.ts";
import type { Asked } from "./arguments.ts";
import { ago, moment, namedInstance, shownJson, tell } from "./words.ts";

type Row = Readonly<Record<string, unknown>>;

export interface Page {
  readonly items: readonly Row[];
  readonly next_cursor?: string | null;
}

/** How the CLI prints a list, if the columns of its operation are not sufficient. */
export interface Shown {
  readonly columns?: readonly string[];
  /** The text of an additional column, which has no title. */
  readonly why?: (item: Row) => string;
  readonly none?: string;
}

/** Prints a page as a table, and the option that shows the next page. */
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
  const rows = items.map((item) =>
    [...columns.map((name) => cellOf(isDefault(item, name) ? null : item[name])), ...(why ? [why(item)] : [])].map(oneLine),
  );
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

function isDefault({ workflow, subject }: Row, name: string): boolean {
  return name === "subject" && subject === workflow;
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

/** The lists from which `latest` chooses the newest item, each with its filter. */
export const LATEST = {
  instances: { filter: {}, none: "instance", says: ({ workflow, subject }: Row) => namedInstance({ workflow, subject }) },
  approvals: { filter: { state: "pending" }, none: "pending question", says: ({ workflow, question }: Row) => `${workflow}, ${question}` },
};

/**
 * The id that the user names: `latest` is the newest instance or pending question, `latest WORKFLOW` the newest of a workflow. Errors: a
 * `Refusal` if there is none.
 */
export async function idOf({ api, isJson }: Asked, list: keyof typeof LATEST | undefined, typed = ""): Promise<string> {
  const [latest, workflow] = /^latest(?: (.+))?$/.exec(typed) ?? [];
  if (latest === undefined || list === undefined) return typed;
  const { filter, none, says } = LATEST[list];
  const query = new URLSearchParams({ limit: "1", ...filter, ...(workflow !== undefined && { workflow }) });
  const { items } = await api.get<Page>(`/v1/${list}?${query}`);
  const [newest] = items;
  if (!newest) throw new Refusal(`There is no ${none}${workflow === undefined ? "" : ` of ${oneLine(workflow)}`} yet.`);
  if (!isJson) tell(oneLine(`latest is ${newest.id}: ${says(newest)}.`));
  return String(newest.id);
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or a duration such as `12h` that is added to the present time, or subtracted. Errors: a `Misuse`. */
export function timeOf(option: string, typed: string, sign: 1 | -1): string {
  const [, count, unit = ""] = /^(\d{1,6})([smhd])$/.exec(typed) ?? [];
  if (count !== undefined) return new Date(Date.now() + sign * Number(count) * (UNITS[unit] ?? 0)).toISOString();
  const at = Date.parse(typed);
  if (Number.isNaN(at))
    throw new Misuse(`--${option} is a time such as 2026-11-25T08:00:00Z, or a length such as 30m, 12h, 7d; got "${typed}".`);
  return new Date(at).toISOString();
}
