import { parseArgs } from "node:util";
import { nearest } from "../../src/contract/nearest.ts";
import { Misuse } from "../command.ts";
import { whatIsWrong } from "../options.ts";
import { COMMON, callOf } from "./usage.ts";
import { NO_VERB, type Noun, type Option, type Verb } from "./verb.ts";

export interface Typed {
  about: string;
  values: Readonly<Record<string, string | boolean | undefined>>;
}

/** The verb of a noun, and its arguments. Errors: a `Misuse` that lists the verbs. */
export function verbIn(name: string, noun: Noun, args: readonly string[]): { name: string; verb: Verb; rest: readonly string[] } {
  const alone = noun.verbs[NO_VERB];
  if (alone) return { name, verb: alone, rest: args };
  const [first = "", ...rest] = args;
  const found = Object.hasOwn(noun.verbs, first) ? noun.verbs[first] : undefined;
  if (found) return { name: `${name} ${first}`, verb: found, rest };
  const there = Object.keys(noun.verbs);
  const what = first === "" || first.startsWith("-") ? `A verb is missing after ${name}` : `There is no "${name} ${first}"`;
  throw new Misuse(`${what}.${meant(first, there)} Verbs: ${there.join(", ")}. More: ${callOf(name)} --help`);
}

/** Parses the arguments of a verb. Errors: a `Misuse` with the mistake and the usage. */
export function readTyped(name: string, verb: Verb, args: readonly string[]): Typed {
  const options = { ...verb.options, ...COMMON };
  const { values, positionals } = parsed(name, options, args);
  const takes = verb.takes ?? "";
  const [about = "", ...more] = positionals;
  if (takes === "" && about !== "") throw new Misuse(`${callOf(name)} takes no "${about}".${howOf(name)}`);
  if (takes !== "" && about === "") throw new Misuse(`${takes} is missing: ${callOf(name, takes)}.${howOf(name)}`);
  if (more.length > 0) throw new Misuse(`Only one argument: "${more[0]}" follows "${about}".${howOf(name)}`);
  return { about, values };
}

function parsed(name: string, options: Readonly<Record<string, Option>>, args: readonly string[]) {
  const known = Object.entries(options).map(
    ([option, { value }]) => [option, { type: value === undefined ? "boolean" : "string" }] as const,
  );
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(known), allowPositionals: true });
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
