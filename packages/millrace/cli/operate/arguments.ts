import { parseArgs } from "node:util";
import { nearest } from "../../src/contract/nearest.ts";
import { Misuse } from "../command.ts";
import { whatIsWrong } from "../options.ts";
import { COMMON, callOf } from "./usage.ts";
import { NO_VERB, type Noun, type Option, type Verb } from "./verb.ts";
import { textOf } from "./words.ts";

export interface Typed {
  words: readonly string[];
  values: Readonly<Record<string, string | boolean | undefined>>;
}

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

/** True if a typed verb belongs to the noun or is a misspelt verb of the noun. False if only the app may define the verb. */
export function mayHave(noun: Noun, typed = ""): boolean {
  const isNone = NO_VERB in noun || typed === "" || typed.startsWith("-");
  return isNone || Object.hasOwn(noun, SAME[typed] ?? typed) || nearest(typed, Object.keys(noun)) !== undefined;
}

/** Parses the arguments of a verb. Errors: a `Misuse` with the mistake and the usage. */
export function readTyped(name: string, verb: Verb, args: readonly string[]): Typed {
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

/** Synonyms of verbs. */
const SAME: Readonly<Record<string, string>> = { get: "show", ls: "list" };

function parsed(name: string, options: Readonly<Record<string, Option>>, args: readonly string[]) {
  const known = Object.entries(options).map(
    ([option, { value }]) => [option, { type: value === undefined ? "boolean" : "string" }] as const,
  );
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(known), allowPositionals: true, allowNegative: true });
  } catch (error) {
    const [, typed = ""] = /^Unknown option '--([^']+)'/.exec(error instanceof Error ? error.message : "") ?? [];
    throw new Misuse(`${whatIsWrong(error)}${meant(typed, Object.keys(options), "--")}${howOf(name)}`);
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
