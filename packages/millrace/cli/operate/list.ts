import { type Column, tableLines } from "../table.ts";
import { oneLine, paint, say } from "../terminal.ts";
import type { Asked } from "./verb.ts";
import { sayJson, tell } from "./words.ts";

interface Page<Item> {
  items: readonly Item[];
  next_cursor?: string | null;
}

interface Shown<Item> {
  columns: readonly Column[];
  row: (item: Item) => readonly string[];
  none: string;
  /** True if the last column is text that a terminal may cut. */
  isLastProse?: boolean;
}

/** Prints a page as JSON or as a table, and the command for the next page. */
export function sayPage<Item>(
  { isJson }: Pick<Asked, "isJson">,
  page: Page<Item>,
  { columns, row, none, isLastProse = false }: Shown<Item>,
): void {
  const cursor = page.next_cursor ?? null;
  if (isJson) sayJson(page);
  else if (page.items.length === 0) tell(cursor === null ? none : `This page is empty, but there is more: --cursor ${cursor}`);
  else {
    const rows = page.items.map((item) => row(item).map(oneLine));
    const [heading = "", ...lines] = tableLines(columns, rows);
    say(paint("dim", heading));
    for (const line of lines) say(isLastProse ? fitted(line) : line);
    if (cursor !== null) tell(`There is more: --cursor ${cursor}`);
  }
}

export const PAGED = {
  limit: { value: "COUNT", says: "the highest number of rows" },
  cursor: { value: "CURSOR", says: "the next page, from the previous output" },
};

export function queryOf(given: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams(Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return query.size === 0 ? "" : `?${query}`;
}

function fitted(line: string): string {
  const { isTTY, columns } = process.stdout;
  return isTTY && line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
}
