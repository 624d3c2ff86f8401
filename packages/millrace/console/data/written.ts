/** JSON text as the user typed it. The text is sent unchanged, and the engine validates the text. */
export class Written {
  readonly text: string;
  readonly wrong: string | undefined;

  constructor(text: string, wrong?: string) {
    this.text = text;
    this.wrong = wrong;
  }
}

const NO_JSON = "This is not valid JSON.";

/** The parser's message for a text that is not JSON. Undefined for JSON. */
function mistakeIn(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : NO_JSON;
  }
}

export function writtenJson(text: string): Written {
  if (mistakeIn(text)) return new Written(text, NO_JSON);
  return new Written(text, text.isWellFormed() ? undefined : "The text contains half of a character (a lone surrogate).");
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** Converts a number that the user typed. A number that a JSON parser would change is invalid. */
export function writtenNumber(text: string): Written {
  const said = text.trim();
  if (!NUMBER.test(said)) return new Written(text, "This is not a number. Examples: 5, -0.5, 1e6.");
  const read = Number(said);
  if (!Number.isFinite(read)) return new Written(text, "This number is too large.");
  if (digitsOf(said) === digitsOf(String(read))) return new Written(text);
  return new Written(text, `The number would be stored as ${read}: a number has 15 digits that are kept, or a few more.`);
}

/** The significant digits of a number, which do not depend on its notation. */
function digitsOf(text: string): string {
  const [, sign = "", whole = "", part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const digits = `${whole}${part}`.replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  return kept === "" ? "0" : `${sign}${kept}e${Number(power) - part.length + digits.length - kept.length}`;
}

/** Formats a value as JSON, by default on one line. `Written` parts keep their original text. */
export function jsonText(value: unknown, indent = "", line = indent && "\n"): string {
  if (value instanceof Written) return value.text;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const deeper = line + indent;
  const parts = Array.isArray(value)
    ? value.map((one) => jsonText(one, indent, deeper))
    : Object.entries(value)
        .filter(([, one]) => one !== undefined)
        .map(([name, one]) => `${JSON.stringify(name)}:${indent && " "}${jsonText(one, indent, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return parts.length === 0 ? `${open}${close}` : `${open}${deeper}${parts.join(`,${deeper}`)}${line}${close}`;
}

export function wrongIn(value: unknown, path: string): { path: string; message: string }[] {
  if (value instanceof Written) return value.wrong === undefined ? [] : [{ path, message: value.wrong }];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, one]) => wrongIn(one, `${path}.${name}`));
}

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;
/** The deepest nesting of JSON that the engine accepts. */
const DEEPEST = 64;

/** Parses JSON for a form and keeps the text of each number. If a form would change the text, returns the reason in `why`. */
export function readJson(text: string): { value: unknown } | { why: string } {
  if (mistakeIn(text)) return { why: "It is not valid JSON." };
  const tokens = text.match(TOKENS) ?? [];
  let depth = 0;
  for (const token of tokens) {
    depth += token === "[" || token === "{" ? 1 : token === "]" || token === "}" ? -1 : 0;
    if (depth > DEEPEST) return { why: `It is nested more deeply than ${DEEPEST} levels.` };
  }
  const doubled: string[] = [];
  let at = 0;
  const next = (): unknown => {
    const token = tokens[at++] ?? "";
    if (token !== "[" && token !== "{") return /^[-\d]/.test(token) ? new Written(token) : JSON.parse(token);
    const names = new Set<string>();
    const entries: [string, unknown][] = [];
    while (tokens[at] !== "]" && tokens[at] !== "}") {
      if (tokens[at] === ",") at++;
      const name = token === "[" ? String(entries.length) : (JSON.parse(tokens[at] ?? "") as string);
      if (token === "{") at += 2;
      if (names.has(name)) doubled.push(name);
      names.add(name);
      entries.push([name, next()]);
    }
    at++;
    return token === "[" ? entries.map(([, one]) => one) : Object.fromEntries(entries);
  };
  const value = next();
  return doubled.length === 0 ? { value } : { why: `“${doubled[0]}” occurs twice in one object.` };
}
