/** What SQL skips, or reads as one piece: comments, texts, quoted names. */
const PIECE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;

/** What a text asks of whoever sends it. */
interface Shape {
  /** How many statements it holds: 0 for one of blanks and comments. */
  readonly statements: number;
  /** How many values have to be bound with it. */
  readonly parameters: number;
}

/**
 * Reads the shape of a text. D1 answers each of its statements by itself and none for an empty one, so that in a batch every answer behind
 * it would be taken for another statement's; and it refuses a whole batch for one text that is given too many values, or too few.
 */
export function shapeOf(text: string): Shape {
  const known = shapes.get(text);
  if (known !== undefined) return known;
  const bare = text.replace(PIECE, (piece) => (piece.startsWith("--") || piece.startsWith("/*") ? " " : "x"));
  const statements = bare.split(";").filter((part) => part.trim() !== "").length;
  let parameters = 0;
  // As SQLite counts them: one without a number is the next behind the largest.
  for (const [, number] of bare.matchAll(/\?(\d*)/g)) parameters = number ? Math.max(parameters, Number(number)) : parameters + 1;
  if (shapes.size >= MAX_KNOWN) shapes.clear();
  const shape = { statements, parameters };
  shapes.set(text, shape);
  return shape;
}

/** Texts are literals of the code, so few. */
const shapes = new Map<string, Shape>();
const MAX_KNOWN = 2000;
