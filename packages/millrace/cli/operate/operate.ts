import { askedEngine } from "../asked-engine.ts";
import type { Call } from "../command.ts";
import { wantsHelp } from "../options.ts";
import { say } from "../terminal.ts";
import { askedApi } from "./api.ts";
import { readTyped, verbIn } from "./arguments.ts";
import { NOUNS } from "./nouns.ts";
import { inWords } from "./refusal.ts";
import { nounUsage, verbUsage } from "./usage.ts";
import type { Noun } from "./verb.ts";

/** `npx millrace NOUN VERB`: calls the HTTP API of an engine. */
export async function operate({ args: [name = "", ...args], stop }: Call): Promise<number> {
  const noun = NOUNS[name] as Noun;
  const isHelp = wantsHelp(args);
  if (isHelp && args[0]?.startsWith("-")) {
    say(nounUsage(name, noun));
    return 0;
  }
  const { name: whole, verb, rest } = verbIn(name, noun, args);
  if (isHelp) {
    say(verbUsage(whole, verb));
    return 0;
  }
  const { about, values } = readTyped(whole, verb, rest);
  const text = (option: string) => {
    const value = values[option];
    return typeof value === "string" ? value : undefined;
  };
  const engine = askedEngine(text("url"));
  try {
    const isSet = (option: string) => values[option] === true;
    return await verb.run({ about, api: askedApi(engine, stop), isJson: isSet("json"), stop, text, isSet });
  } catch (error) {
    throw inWords(error, engine);
  }
}
