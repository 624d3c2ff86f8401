const [HEX, FIRST, SECOND, EITHER] = [String.raw`[\da-fA-F]{2}`, "u[dD][89abAB]", "u[dD][c-fC-F]", "u[dD][89a-fA-F]"];
/** Matches the escapes in a JSON text. The expression's only capturing group matches a lone surrogate. */
const ESCAPES = new RegExp(String.raw`\\(?:${FIRST}${HEX}\\${SECOND}${HEX}|(${EITHER}${HEX})|.)`, "gs");

/**
 * Parses an external text as JSON; returns undefined for invalid JSON. All strings in the value are well-formed, because the database would
 * refuse a lone surrogate and a paid answer would be lost.
 */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text.toWellFormed().replace(ESCAPES, (whole, half) => (half === undefined ? whole : "\ufffd")));
  } catch {
    return undefined;
  }
}
