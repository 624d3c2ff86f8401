import type { SqlValue, Statement } from "../../contract/sql.ts";

/** Comments, strings and quoted names of SQL. */
const PIECE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;

interface Shape {
  /** Number of statements: 0 for blanks and comments only. */
  readonly statements: number;
  /** Number of values to bind. */
  readonly parameters: number;
  /** The text in pieces, with the number of the parameter between them. */
  readonly pieces: readonly (string | number)[];
}

/**
 * Analyses a statement's text. D1 returns one result for each statement in it and none for an empty one, so results would be assigned to
 * the wrong statements of a batch. D1 also refuses a whole batch for one text with a wrong number of values.
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
    // SQLite numbers an unnumbered parameter one above the largest so far.
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

/** The analysed texts. There are few, because texts are literals of the code. */
const shapes = new Map<string, Shape>();
const MAX_KNOWN = 2000;

/**
 * The prepared statement: integers remain integers. D1 binds every number as REAL, so that 42 in a TEXT column would be '42.0', and 7 / 2
 * would be 3.5.
 * - A cast makes the integer, and the text is the same for every value, so that the database reuses the prepared statement. The `+` removes
 *   the affinity of the cast: without it a TEXT column would be scanned instead of searched by its index.
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
