import type { SqlValue, Statement } from "../../contract/sql.ts";

/** Matches comments, strings and quoted names in SQL. */
const PIECE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;

interface Shape {
  /** Number of statements in the text: 0 for a text of blanks and comments. */
  readonly statements: number;
  /** Number of values to bind. */
  readonly parameters: number;
  /** The pieces of the text, with the numbers of the parameters between them. */
  readonly pieces: readonly (string | number)[];
}

/**
 * Analyses a statement's text. D1 returns one result for each statement in a text and none for an empty text, so results would be assigned
 * to the wrong statements of a batch. D1 also refuses a whole batch for one text with a wrong number of values.
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
    // SQLite gives an unnumbered parameter the largest number so far plus one.
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

/** The analysed texts of statements, which are few because texts are literals of the code. */
const shapes = new Map<string, Shape>();
const MAX_KNOWN = 2000;

/**
 * Prepares a statement so that integers remain integers. D1 binds every number as REAL, so that 42 in a TEXT column would be '42.0', and 7
 * / 2 would be 3.5.
 * - A cast makes the integer, and the text is the same for every value, so that the database reuses the prepared statement. The `+` removes
 *   the affinity of the cast: with the affinity, a TEXT column would be scanned instead of searched by its index.
 * - A small number after a comparison is a literal: a partial index (`WHERE done = 0`) matches only literals.
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
