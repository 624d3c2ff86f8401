import { MillraceError } from "./errors.ts";

/** One SQL statement with its parameters, as plain data: it can cross into the object that commits it. */
export interface Statement {
  readonly text: string;
  readonly params: readonly SqlValue[];
}

/**
 * A statement that takes its rows from one JSON parameter, `json_each(?1)`: any number of the same text can be committed as one. It answers
 * nothing, or rows that say whose they are.
 */
export interface RowStatement {
  readonly text: string;
  /**
   * JSON values: `value->>'name'` reads a field, `value->'name'` an object as text. `json_each` writes its value anew for every field that
   * is read of it: a wide row is read from it once, as `given AS MATERIALIZED`.
   */
  readonly row: Readonly<Record<string, unknown>>;
}

/** Largest text handed to one `json_each`, in characters: D1 takes values of at most 2 MB, and a character may be three bytes. */
const MAX_ROWS_CHARACTERS = 600_000;

/** Rows as the JSON texts that `json_each` takes: one text, or a few when the rows are large. No rows, no text. */
export function rowChunks(rows: readonly object[]): string[] {
  return textChunks(rows.map((row) => JSON.stringify(row)));
}

/** The same of rows that are JSON text already. */
export function textChunks(rows: Iterable<string>): string[] {
  const chunks: string[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const text of rows) {
    characters += text.length;
    if (characters > MAX_ROWS_CHARACTERS) {
      chunks.push([]);
      characters = text.length;
    }
    chunks.at(-1)?.push(text);
  }
  return chunks.map((chunk) => `[${chunk.join(",")}]`);
}

/**
 * Row statements as statements: those of one text become one, or a few when their rows are large. A row that is there twice travels once: a
 * repeat changes nothing.
 */
export function mergeRows(statements: readonly RowStatement[]): Statement[] {
  return [...Map.groupBy(statements, ({ text }) => text)].flatMap(([text, same]) =>
    textChunks(new Set(same.map(rowText))).map((rows) => ({ text, params: [rows] })),
  );
}

/** A row as the JSON text that the database takes it from: made once, by whoever looks at it first. */
export function rowText(statement: RowStatement): string {
  const known = rowTexts.get(statement);
  if (known !== undefined) return known;
  const text = JSON.stringify(statement.row);
  rowTexts.set(statement, text);
  return text;
}

const rowTexts = new WeakMap<RowStatement, string>();

export type SqlValue = string | number | null;

/** A piece of SQL written by us, such as `now`: with other statements the only thing that enters a statement as text. */
export interface Fragment {
  readonly fragment: string;
}

/** What was made here, so that nothing that came as data (an upstream's answer, what an operator confirmed) is taken for it. */
const ours = new WeakSet<object>();

/** A piece of SQL, to be put into statements as text. Never made from data. */
export function fragment(text: string): Fragment {
  const made = { fragment: text };
  ours.add(made);
  return made;
}

/** The database's clock in milliseconds: the one clock that leases and due times are measured by. */
export const now = fragment("CAST(unixepoch('subsec') * 1000 AS INTEGER)");

/**
 * Writes a statement; every interpolated value becomes a bound parameter, never text: sql`UPDATE articles SET url = ${url} WHERE id =
 * ${id}`. A statement may hold others, such as a condition that is only sometimes asked for. Errors: `config_invalid` for a Date, bytes or
 * any other object, also one that looks like a statement and is none.
 */
export function sql(strings: TemplateStringsArray, ...values: (SqlValue | Fragment | Statement)[]): Statement {
  const params: SqlValue[] = [];
  let text = strings[0] ?? "";
  values.forEach((value, index) => {
    if (typeof value !== "object" || value === null) text += `?${params.push(value)}`;
    else if (!ours.has(value)) throw notBindable(value, text);
    else if ("fragment" in value) text += value.fragment;
    else {
      text += value.text.replace(/\?(\d+)/g, (_, place) => `?${Number(place) + params.length}`);
      params.push(...value.params);
    }
    text += strings[index + 1];
  });
  const statement = { text, params };
  ours.add(statement);
  return statement;
}

function notBindable(value: object, text: string): MillraceError {
  const what = Object.prototype.toString.call(value).slice("[object ".length, -1);
  return new MillraceError(
    "config_invalid",
    `A value that is of the type ${what} was put into a statement (${text.trim().slice(0, 60)}…): bind text, numbers or null, such as date.getTime() or JSON.stringify(value).`,
  );
}

/** A list of values for `IN`, however long, as one parameter: sql`id IN ${among(ids)}`. */
export function among(values: readonly SqlValue[]): Statement {
  return sql`(SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/** The condition `column = value`, or nothing when no value is asked for: so the database can use the column's index when there is one. */
export function andEquals(column: Fragment, value: SqlValue | undefined): Statement {
  return value === undefined ? sql`` : sql`AND ${column} = ${value}`;
}
