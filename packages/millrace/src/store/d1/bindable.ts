import { MillraceError } from "../../contract/errors.ts";
import { byteLength } from "../../contract/limits.ts";
import { type RowStatement, rowText, type SqlValue, type Statement } from "../../contract/sql.ts";
import { beginning, isBeyondJson } from "../../contract/text.ts";

/**
 * Maximum bytes of a bound value. In production D1 refuses a string or a row above 2,000,000 bytes. Locally D1 accepts more, so the engine
 * checks the size.
 */
const MAX_VALUE_BYTES = 1_900_000;

/** Maximum number of values in one statement. See https://developers.cloudflare.com/d1/platform/limits/ */
const MAX_VALUES = 100;

/** Maximum bytes of a statement's text. D1 accepts 100,000; the engine adds casts for up to 100 integers. */
const MAX_TEXT_BYTES = 98_000;

/** A validated statement with text, valid values and a known size. */
export interface Bindable {
  readonly text: string;
  readonly params: readonly SqlValue[];
  /**
   * The row of a row statement as JSON text. If several row statements have the same text, their rows are sent together as one parameter.
   */
  readonly row?: string;
  readonly bytes: number;
}

/**
 * A statement that replaces an empty statement. This statement writes nothing and returns a result, because D1 returns no result for an
 * empty statement.
 */
const NOTHING: Bindable = { text: "SELECT 1 WHERE 0", params: [], bytes: 0 };

/**
 * Validates a statement before it is combined with others. Errors: `config_invalid` for a value that is no statement (`condition &&
 * sql\`…\`` with a false condition). The same error code is used for several statements in one text, and for a wrong count of values. The
 * code is also used if D1 does not accept the count of values or the length of the text, and for numbers that no column can store.
 * `payload_too_large` for a value that D1 would refuse.
 */
export function bindable(statement: Statement | RowStatement): Bindable {
  const { text, row, params } = (statement ?? {}) as Partial<Statement & RowStatement>;
  if (typeof text !== "string" || (row === undefined && !Array.isArray(params))) {
    throw new MillraceError(
      "config_invalid",
      `One of the statements to write is not a statement (${beginning(String(statement), 40)}): use sql\`…\`, and remove conditional ones from the list.`,
    );
  }
  const { statements, parameters } = shapeOf(text);
  if (statements > 1) throw notOne(text, statements);
  if (statements === 0) return NOTHING;
  const given = row === undefined ? (params ?? []).length : 1;
  if (parameters !== given) throw notAsMany(text, parameters, given);
  if (given > MAX_VALUES) throw tooManyValues(text, given);
  if (text.length > MAX_TEXT_BYTES / 3 && byteLength(text) > MAX_TEXT_BYTES) throw tooLong(text);
  if (row !== undefined) {
    const beyond = Object.entries(row).find(([, value]) => isBeyondJson(value));
    if (beyond) throw notANumber(beyond[1], text, beyond[0]);
    const json = rowText(statement as RowStatement);
    return { text, params: [], row: json, bytes: weight(json, text) };
  }
  const values: readonly SqlValue[] = params ?? [];
  return { text, params: values, bytes: values.reduce<number>((sum, value) => sum + weight(value, text), 0) };
}

/**
 * Refuses an app's statement if one of its strings is not well-formed, because the database would change such a string. `bindable` checks a
 * value that is no statement. Errors: `config_invalid`.
 */
export function assertWellFormed(statement: Statement | RowStatement): void {
  const { text = "", row, params } = (statement ?? {}) as Partial<Statement & RowStatement>;
  const [field] = Object.entries(row ?? params ?? {}).find(([, value]) => typeof value === "string" && !value.isWellFormed()) ?? [];
  if (field === undefined) return;
  const where = row === undefined ? shown(text) : `${shown(text)}, field "${field}"`;
  throw new MillraceError("config_invalid", `A text was to be written (${where}) with half of a surrogate pair: send well-formed Unicode.`);
}

function weight(value: SqlValue, text: string): number {
  if (isBeyondJson(value)) throw notANumber(value, text);
  if (typeof value === "number" || typeof value === "boolean" || value === null) return 8;
  if (typeof value !== "string") {
    throw new MillraceError(
      "config_invalid",
      `A value that is ${typeof value} was to be written (${shown(text)}): bind text, numbers or null.`,
    );
  }
  const bytes = byteLength(value);
  if (bytes <= MAX_VALUE_BYTES) return bytes;
  throw new MillraceError(
    "payload_too_large",
    `A value of ${bytes} bytes was to be written (${shown(text)}); the maximum is ${MAX_VALUE_BYTES}: write it in parts, or store it in R2 and write its name.`,
  );
}

function notOne(text: string, count: number): MillraceError {
  return new MillraceError("config_invalid", `A text contains ${count} statements (${shown(text)}): write each as a separate sql\`…\`.`);
}

function notAsMany(text: string, parameters: number, given: number): MillraceError {
  return new MillraceError(
    "config_invalid",
    `A statement needs ${parameters} values and gets ${given} (${shown(text)}): write it with sql\`…\`, or a row's as … FROM json_each(?1).`,
  );
}

function tooManyValues(text: string, given: number): MillraceError {
  return new MillraceError(
    "config_invalid",
    `A statement has ${given} values (${shown(text)}); D1 accepts ${MAX_VALUES} in a statement: split it, or bind a list as one JSON value, … FROM json_each(\${JSON.stringify(rows)}).`,
  );
}

function tooLong(text: string): MillraceError {
  return new MillraceError(
    "config_invalid",
    `A statement has ${byteLength(text)} bytes (${shown(text)}); at most ${MAX_TEXT_BYTES} are sent to D1: split it, or bind its long texts as values.`,
  );
}

function notANumber(value: unknown, text: string, field?: string): MillraceError {
  const where = field === undefined ? shown(text) : `${shown(text)}, field "${field}"`;
  return new MillraceError(
    "config_invalid",
    `The value ${String(value).slice(0, 40)} was to be written (${where}): bind finite numbers, text or null.`,
  );
}

function shown(text: string): string {
  return `${beginning(text.trim(), 60)}…`;
}

/** Matches comments, strings and quoted names in SQL. */
const PIECE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;

interface Shape {
  /** The count of statements in the text: 0 for a text that contains only blanks and comments. */
  readonly statements: number;
  /** The count of values to bind. */
  readonly parameters: number;
  /** The pieces of the text, with the number of a parameter between each two pieces. */
  readonly pieces: readonly (string | number)[];
}

/**
 * Analyses a statement's text. D1 returns one result for each statement in a text, and no result for an empty text. Without this analysis,
 * results could be assigned to the wrong statements of a batch. D1 also refuses a whole batch if one text has a wrong count of values.
 */
function shapeOf(text: string): Shape {
  const known = shapes.get(text);
  if (known !== undefined) return known;
  const bare = text.replace(PIECE, (piece) => (piece.startsWith("--") || piece.startsWith("/*") ? " " : "x").repeat(piece.length));
  const statements = bare.split(";").filter((part) => part.trim() !== "").length;
  let parameters = 0;
  const pieces: (string | number)[] = [];
  let end = 0;
  for (const { 0: found, 1: number, index } of bare.matchAll(/\?(\d*)/g)) {
    // In SQLite the number of an unnumbered parameter is one more than the largest number before it in the text.
    const place = number ? Number(number) : parameters + 1;
    parameters = Math.max(parameters, place);
    pieces.push(text.slice(end, index), place);
    end = index + found.length;
  }
  pieces.push(text.slice(end));
  if (shapes.size >= MAX_KNOWN) shapes.clear();
  const shape = { statements, parameters, pieces };
  shapes.set(text, shape);
  return shape;
}

/** The analysed texts of statements. Their count is small, because the texts are literals in the code. */
const shapes = new Map<string, Shape>();
const MAX_KNOWN = 2000;

/**
 * Prepares a statement so that integers remain integers. D1 binds every number as REAL, so that 42 in a TEXT column would be '42.0', and 7
 * / 2 would be 3.5.
 * - A cast converts the value to an integer. The text is the same for every value, so that the database reuses the prepared statement. The
 *   `+` removes the affinity of the cast, because with this affinity a TEXT column would be scanned instead of searched by its index.
 * - A small number after a comparison is written as a literal, because a partial index (`WHERE done = 0`) matches only literals.
 * - A number beyond ±(2^53 − 1) remains a REAL.
 */
export function withIntegers(text: string, params: readonly SqlValue[]): Pick<Statement, "text" | "params"> {
  if (!params.some(isWhole)) return { text, params };
  const bound: SqlValue[] = [];
  const places = new Map<number, number>();
  const bind = (place: number) => {
    const known = places.get(place) ?? bound.push(params[place - 1] ?? null);
    places.set(place, known);
    return `?${known}`;
  };
  const { pieces } = shapeOf(text);
  const written = pieces.map((piece, index) => {
    if (typeof piece === "string") return piece;
    const value = params[piece - 1];
    if (!isWhole(value)) return bind(piece);
    const isSmall = Math.abs(Number(value)) < 1000 && /[=<>]\s*$/.test(String(pieces[index - 1]));
    return isSmall ? ` ${Number(value)} ` : `+CAST(${bind(piece)} AS INTEGER)`;
  });
  return { text: written.join(""), params: bound };
}

const isWhole = (value: unknown) => Number.isSafeInteger(value) || typeof value === "boolean";
