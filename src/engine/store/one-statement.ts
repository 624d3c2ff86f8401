/** What SQL skips, or reads as one piece: comments, texts, quoted names. */
const PIECE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/g;

/**
 * How many statements a text holds: 0 for one of blanks and comments. D1 answers each of them by itself and none for an empty one, so
 * that in a batch every answer behind it would be taken for another statement's.
 */
export function statementsIn(text: string): number {
  const known = counted.get(text);
  if (known !== undefined) return known;
  const bare = text.replace(PIECE, (piece) => (piece.startsWith("--") || piece.startsWith("/*") ? " " : "x"));
  const count = bare.split(";").filter((part) => part.trim() !== "").length;
  if (counted.size >= MAX_KNOWN) counted.clear();
  counted.set(text, count);
  return count;
}

/** Texts are literals of the code, so few. */
const counted = new Map<string, number>();
const MAX_KNOWN = 2000;
