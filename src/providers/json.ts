const [HEX, FIRST, SECOND, EITHER] = [String.raw`[\da-fA-F]{2}`, "u[dD][89abAB]", "u[dD][c-fC-F]", "u[dD][89a-fA-F]"];
/** The escapes of a JSON text. The group is half of a surrogate pair without its other half. */
const ESCAPES = new RegExp(String.raw`\\(?:${FIRST}${HEX}\\${SECOND}${HEX}|(${EITHER}${HEX})|.)`, "gs");

/**
 * The JSON value of a text from outside; undefined where the text is no JSON. Every text in it is well-formed: half of a surrogate pair
 * has no UTF-8, so the database would refuse an answer that is paid for.
 */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text.toWellFormed().replace(ESCAPES, (whole, half) => (half === undefined ? whole : "\ufffd")));
  } catch {
    return undefined;
  }
}
