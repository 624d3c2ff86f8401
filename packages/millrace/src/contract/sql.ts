import { MillraceError } from "./errors.ts";

/** One SQL statement with its parameters, as plain data, so that the statement can be sent to the object that commits the statement. */
export interface Statement {
  readonly text: string;
  readonly params: readonly SqlValue[];
}

/**
 * A statement that takes its rows from one JSON parameter, `json_each(?1)`, so that any number of statements with the same text are
 * committed as one statement. The statement returns nothing, or rows that contain their key.
 */
export interface RowStatement {
  readonly text: string;
  /**
   * The fields of one row as JSON values. In the statement `value->>'name'` reads a field, and `value->'name'` reads an object as JSON
   * text. `json_each` serializes its value again for each field that is read, so a statement should read a wide row only once, as
   * `given AS MATERIALIZED`.
   */
  readonly row: Readonly<Record<string, unknown>>;
}

/** Maximum characters of one `json_each` text: D1 accepts values of at most 2 MB, and a character may be three bytes. */
const MAX_ROWS_CHARACTERS = 600_000;

/** Rows as JSON texts for `json_each`: one JSON text, or a few JSON texts when the rows are large. Returns an empty list without rows. */
export function rowChunks(rows: readonly object[]): string[] {
  return textChunks(rows.map((row) => JSON.stringify(row)));
}

/** Combines rows that are already JSON texts into lists for `json_each`, like `rowChunks`. */
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
 * Merges row statements. Statements with the same text become one statement, or a few statements when their rows are large. Equal rows are
 * included once, because a repeated row must change nothing.
 */
export function mergeRows(statements: readonly RowStatement[]): Statement[] {
  return [...Map.groupBy(statements, ({ text }) => text)].flatMap(([text, same]) =>
    textChunks(new Set(same.map(rowText))).map((rows) => ({ text, params: [rows] })),
  );
}

/** A row as JSON text, computed once. */
export function rowText(statement: RowStatement): string {
  const known = rowTexts.get(statement);
  if (known !== undefined) return known;
  const text = JSON.stringify(statement.row);
  rowTexts.set(statement, text);
  return text;
}

const rowTexts = new WeakMap<RowStatement, string>();

export type SqlValue = string | number | null;

/** A piece of constant SQL, such as `now`. Only fragments and statements are inserted into a statement as SQL text. */
export interface Fragment {
  readonly fragment: string;
}

/**
 * Fragments and statements that this module created, so that no object from data (an upstream's response, an operator's input) is mistaken
 * for a fragment.
 */
const ours = new WeakSet<object>();

/** A piece of SQL that is inserted as text. Never create a fragment from data. */
export function fragment(text: string): Fragment {
  const made = { fragment: text };
  ours.add(made);
  return made;
}

/** The database's clock in milliseconds, by which all leases and due times are measured. */
export const now = fragment("CAST(unixepoch('subsec') * 1000 AS INTEGER)");

function statement(strings: TemplateStringsArray, ...values: (SqlValue | Fragment | Statement)[]): Statement {
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
  const made = { text, params };
  ours.add(made);
  return made;
}

function notBindable(value: object, text: string): MillraceError {
  const what = Object.prototype.toString.call(value).slice("[object ".length, -1);
  return new MillraceError(
    "config_invalid",
    `A statement (${text.trim().slice(0, 60)}…) has a value of the type ${what}: bind text, numbers or null, such as date.getTime() or JSON.stringify(value).`,
  );
}

/** A list of values for `IN`, of any length, as one parameter: sql`id IN ${among(ids)}`. */
export function among(values: readonly SqlValue[]): Statement {
  return sql`(SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

/**
 * Creates a statement. Every interpolated value becomes a bound parameter, and never a part of the SQL text:
 * sql`UPDATE articles SET url = ${url} WHERE id = ${id}`. A statement may contain other statements and fragments, such as an optional
 * condition. Errors: `config_invalid` for a Date, bytes or any other object.
 *
 * `sql.among`: a list of values for `IN`. `sql.now`: the database's clock. `sql.fragment`: constant SQL. `sql.rows`: rows as JSON texts.
 */
export const sql = /* @__PURE__ */ Object.assign(statement, { among, fragment, now, rows: rowChunks });

/** The condition `column = value`, or an empty condition if the value is undefined, so that the database can use the column's index. */
export function andEquals(column: Fragment, value: SqlValue | undefined): Statement {
  return value === undefined ? sql`` : sql`AND ${column} = ${value}`;
}
