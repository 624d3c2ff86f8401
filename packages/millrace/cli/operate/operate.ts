import { nearest } from "../../src/contract/nearest.ts";
import { askerOf } from "../api-client.ts";
import { askedEngine } from "../asked-engine.ts";
import { type Call, Misuse, optionIn } from "../command.ts";
import { COMMANDS } from "../names.js";
import { wantsHelp } from "../options.ts";
import { say } from "../terminal.ts";
import { askedApi } from "./api.ts";
import { mayHave, type Noun, nounUsage, readTyped, tokenIn, verbIn, verbUsage } from "./arguments.ts";
import { completion } from "./completion.ts";
import { NOUNS, nounsOf } from "./generic.ts";
import { operationsIn } from "./operations.ts";
import { inWords } from "./refusal.ts";

/** `npx millrace NOUN VERB`: calls the HTTP API of an engine. */
export async function operate({ args: [typed = "", ...args], stop }: Call): Promise<number> {
  if (typed === "completion") return completion(args);
  const own = nounIn(NOUNS, typed);
  const isOwn = own !== undefined && mayHave(own[1], args[0]);
  const [name, noun] = (isOwn ? own : nounIn(await appNouns(typed, args), typed)) ?? own ?? unknown(typed);
  const isHelp = wantsHelp(args);
  if (isHelp && args[0]?.startsWith("-")) return printed(nounUsage(name, noun));
  const { name: whole, verb, rest } = verbIn(name, noun, args);
  if (isHelp) return printed(verbUsage(whole, verb));
  const { words, values } = readTyped(whole, verb, rest);
  const text = (option: string) => values[option] as string | undefined;
  const flag = (option: string) => values[option] as boolean | undefined;
  const engine = askedEngine(text("url"), await tokenIn(text("token")));
  try {
    return await verb.run({ words, api: askedApi(engine, stop), isJson: flag("json") === true, stop, text, flag });
  } catch (error) {
    throw inWords(error, engine);
  }
}

function printed(text: string): 0 {
  say(text);
  return 0;
}

/** Finds a noun by its plural or singular name. */
function nounIn(nouns: Readonly<Record<string, Noun>>, typed: string): [string, Noun] | undefined {
  return Object.entries(nouns).find(([name]) => name === typed || name === `${typed}s` || name === `${typed}es`);
}

/** The nouns of the app, unless a noun of the engine is misspelt, or the engine does not answer. */
async function appNouns(typed: string, args: readonly string[]): Promise<Record<string, Noun>> {
  if (!nounIn(NOUNS, typed) && nearest(typed, [...Object.keys(COMMANDS), ...Object.keys(NOUNS)]) !== undefined) return {};
  try {
    const { url, token } = askedEngine(optionIn(args, "--url"), await tokenIn(optionIn(args, "--token")));
    return nounsOf(operationsIn(await askerOf(url, token)<object>("GET", "/openapi.json")));
  } catch {
    return {};
  }
}

function unknown(typed: string): never {
  const names = [...Object.keys(COMMANDS), ...Object.keys(NOUNS)];
  const guess = nearest(typed, names);
  throw new Misuse(`There is no command "${typed}".${guess === undefined ? "" : ` Did you mean ${guess}?`} Commands: ${names.join(", ")}.`);
}
