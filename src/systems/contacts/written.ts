/**
 * Maximum number of words in a name whose letter case is varied word by word. In a longer name, the letter case of all words is varied
 * together.
 */
const CASED_WORDS = 4;

/**
 * Returns the forms that a text has inside other texts. The forms are plain text, JSON, nested JSON, ASCII-only JSON, a quoted cell, an
 * escaped cell of an export, and a URL. The last form is that of a step's key, where `/` is `%2f`.
 */
export function writtenForms(text: string): string[] {
  const inJson = escapedInJson(text);
  const inCell = text.replaceAll('"', '""');
  const inExport = escapeFormulas(`x${inCell}`).slice(1);
  const inAddress = encodeURIComponent(text.toWellFormed());
  const inAscii = inJson.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const forms = [text, inJson, escapedInJson(inJson), inAscii, inCell, escapedInJson(inCell), inExport];
  return [...new Set([...forms, inAddress, inAddress.replaceAll("%20", "+"), text.replaceAll("/", "%2f")])];
}

function escapedInJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Returns a text with composed and with decomposed letters: for example `ë` as one code point, or as `e` and its dots. */
export function composedForms(text: string): string[] {
  return [...new Set([text, text.normalize("NFC"), text.normalize("NFD")])];
}

/**
 * Returns a text in the upper and lower case of all locales. For example, the upper case of ß is SS or ẞ, and the Turkish upper case of i
 * is İ.
 */
export function capitalForms(text: string): string[] {
  const capitals = [text.toUpperCase(), text.replaceAll("ß", "ẞ").toUpperCase(), text.toLocaleUpperCase("tr")];
  return [...new Set([...capitals, text.toLocaleLowerCase("tr")])];
}

/** Returns a text in the usual letter cases of names, because SQLite's `lower` only handles ASCII. */
export function casedForms(text: string): string[] {
  const words = text.split(/(?<=\s)/);
  const cased = (words.length <= CASED_WORDS ? words : [text]).map((word) => {
    const [first = "", ...rest] = word;
    const small = word.toLowerCase();
    const forms = [word, small, ...capitalForms(word), first.toUpperCase() + rest.join("").toLowerCase()];
    return [...new Set(forms.map(inLowerCase))];
  });
  return cased.reduce((done, forms) => done.flatMap((begun) => forms.map((form) => begun + form)), [""]);
}

/** Returns a text in lower case, as SQLite's `lower` does. */
export function inLowerCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Returns a text with its `\u00eb` escapes decoded, also in nested JSON. */
export function unescaped(text: string): string {
  return text.replace(/\\+u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

const SIGN = "[=+\\-@＝＋－＠]";
const BEGINS = `(?:(?<![^])(?=['"]*(?:${SIGN}|[\\t\\r\\n]))|(?<=[;\\t\\r\\n])(?=['"]*${SIGN}))`;
const FORMULA = new RegExp(BEGINS, "g");
const ESCAPED = new RegExp(`${BEGINS}'`, "g");

/**
 * Puts an apostrophe before each formula in a cell of a CSV file. A formula begins at the start of the cell, or after a semicolon, a tab or
 * a line end, where a spreadsheet with that separator cuts the cell. Apostrophes and quotes before the formula's first sign count as part
 * of the formula. Therefore `unescapeFormulas` removes exactly the added apostrophe.
 */
export function escapeFormulas(cell: string): string {
  return cell.replace(FORMULA, "'");
}

export function unescapeFormulas(cell: string): string {
  return cell.replace(ESCAPED, "");
}
