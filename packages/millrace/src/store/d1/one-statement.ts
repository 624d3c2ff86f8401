import type { SqlValue, Statement } from "../../contract/sql.ts";

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
export function shapeOf(text: string): Shape {
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
