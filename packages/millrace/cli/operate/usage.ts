import { NO_VERB, type Noun, type Option, type Verb } from "./verb.ts";

/** The options that every command has. */
export const COMMON: Readonly<Record<string, Option>> = {
  json: { says: "print the JSON answer of the API" },
  url: { value: "ADDRESS", says: "the engine; default MILLRACE_URL, or the local one" },
  token: { value: "@FILE", says: "the file of the token, or - for standard input; default MILLRACE_TOKEN, or the local one" },
};

export function callOf(...words: readonly string[]): string {
  return ["npx millrace", ...words].join(" ");
}

export function nounUsage(name: string, noun: Noun): string {
  const alone = noun[NO_VERB];
  if (alone) return verbUsage(name, alone);
  const calls = Object.entries(noun).map(([word, { takes, does }]) => [[name, word, ...(takes ? [takes] : [])].join(" "), does] as const);
  return [`Usage: ${callOf(name, "<verb>")} [options].`, "", ...aligned(calls), "", "For the options of a command, add --help."].join("\n");
}

export function verbUsage(name: string, { takes, does, note, options = {} }: Verb): string {
  const call = callOf(name, ...(takes ? [takes] : []));
  return [
    `Usage: ${call} [options]. ${does}.${note === undefined ? "" : ` ${note}`}`,
    "",
    ...aligned(Object.entries({ ...options, ...COMMON }).map(optionLine)),
  ].join("\n");
}

function optionLine([name, { value, says }]: [string, Option]): [string, string] {
  const no = value === undefined && /\bfalse\b|Default true/i.test(says) ? "[no-]" : "";
  return [`--${no}${name}${value === undefined ? "" : ` ${value}`}`, says];
}

function aligned(lines: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...lines.map(([left]) => left.length));
  return lines.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
