import { parseArgs } from "node:util";
import { nearest } from "../../src/contract/nearest.ts";
import { Misuse } from "../command.ts";
import { whatIsWrong } from "../options.ts";
import type { AskedApi } from "./api.ts";
import { textOf } from "./words.ts";

/** Finds the verb of a noun in typed arguments, and the arguments of the verb. Errors: a `Misuse` that lists the noun's verbs. */
export function verbIn(name: string, noun: Noun, args: readonly string[]): { name: string; verb: Verb; rest: readonly string[] } {
  const alone = noun[NO_VERB];
  if (alone) return { name, verb: alone, rest: args };
  const [typed = "", ...rest] = args;
  const first = SAME[typed] ?? typed;
  const found = Object.hasOwn(noun, first) ? noun[first] : undefined;
  if (found) return { name: `${name} ${first}`, verb: found, rest };
  const there = Object.keys(noun);
  const what = first === "" || first.startsWith("-") ? `A verb is missing after ${name}` : `There is no "${name} ${first}"`;
  throw new Misuse(`${what}.${meant(first, there)} Verbs: ${there.join(", ")}. More: ${callOf(name)} --help`);
}

/** True for a verb of the noun, also misspelt. False if only the app may define the verb. */
export function mayHave(noun: Noun, typed = ""): boolean {
  const isNone = NO_VERB in noun || typed === "" || typed.startsWith("-");
  return isNone || Object.hasOwn(noun, SAME[typed] ?? typed) || nearest(typed, Object.keys(noun)) !== undefined;
}

/** Parses the arguments of a verb. Errors: a `Misuse` with the mistake and the usage. */
export function readTyped(name: string, verb: Verb, args: readonly string[]) {
  const options = { ...verb.options, ...COMMON };
  const { values, positionals } = parsed(name, options, args);
  const takes = verb.takes?.split(" ").filter(Boolean) ?? [];
  const words = [...positionals];
  // The two words `latest WORKFLOW` name one instance.
  if (words[0] === "latest" && words.length === takes.length + 1) words.splice(0, 2, `latest ${words[1]}`);
  const lacking = takes[words.length];
  if (lacking !== undefined) throw new Misuse(`${lacking} is missing: ${callOf(name, ...takes)}.${howOf(name)}`);
  if (words.length > takes.length)
    throw new Misuse(`There is one argument too many, "${words[takes.length]}": ${callOf(name, ...takes)}.${howOf(name)}`);
  return { words, values };
}

const SAME: Readonly<Record<string, string>> = { get: "show", ls: "list" };

function parsed(name: string, options: Readonly<Record<string, Option>>, args: readonly string[]) {
  const known = Object.entries(options).map(
    ([option, { value }]) => [option, { type: value === undefined ? "boolean" : "string" }] as const,
  );
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(known), allowPositionals: true, allowNegative: true });
  } catch (error) {
    const [, typed = ""] = /^Unknown option '--([^']+)'/.exec(error instanceof Error ? error.message : "") ?? [];
    const guess = meant(typed, Object.keys(options), "--");
    const field = guess === "" && typed !== "" && "payload" in options ? ` A field is part of --payload '{"${typed}":…}'.` : "";
    throw new Misuse(`${whatIsWrong(error)}${guess}${field}${howOf(name)}`);
  }
}

function meant(typed: string, known: readonly string[], before = ""): string {
  const guess = nearest(typed, known);
  return guess === undefined ? "" : ` Did you mean ${before}${guess}?`;
}

function howOf(name: string): string {
  return ` Usage: ${callOf(name)} --help`;
}

/**
 * The token of `--token`, from a file or standard input. Errors: a `Misuse` if the value is a token itself, because other users of the
 * machine would see the token.
 */
export async function tokenIn(typed: string | undefined): Promise<string | undefined> {
  if (typed === undefined) return undefined;
  if (!/^@.|^-$/.test(typed)) throw new Misuse("--token is @FILE, or - for standard input: other users of the machine can see arguments.");
  return (await textOf("token", typed)).trim();
}

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
  const calls = Object.entries(noun).map(([word, { takes, does }]) => [`${name} ${word} ${takes ?? ""}`.trim(), does] as const);
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

/** An option of a verb. An option without `value` is a flag. */
export interface Option {
  readonly value?: string;
  /** The possible values, if they are few and fixed. */
  readonly values?: readonly string[];
  readonly says: string;
}

export interface Verb {
  /** The placeholders of the arguments, such as `LANE KEY`. */
  readonly takes?: string;
  /** A sentence for the help, without the full stop. */
  readonly does: string;
  readonly note?: string;
  readonly options?: Readonly<Record<string, Option>>;
  run(asked: Asked): Promise<number>;
}

export interface Asked {
  /** The typed arguments, in the order of `takes`. */
  readonly words: readonly string[];
  readonly api: AskedApi;
  readonly isJson: boolean;
  readonly stop: AbortSignal;
  text(option: string): string | undefined;
  /** The value of a flag: false for `--no-…`. */
  flag(option: string): boolean | undefined;
}

/** The verbs of a noun, by name. If a noun has only one command and no verbs, its command has the key NO_VERB. */
export type Noun = Readonly<Record<string, Verb>>;

export const NO_VERB = "";
