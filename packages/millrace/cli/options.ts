import { type ParseArgsConfig, parseArgs } from "node:util";

/** Exit code of a command that was called in a way it does not know. */
export const MISUSED = 2;

/** True when help is asked for, and nothing else is to be done. */
export function wantsHelp(args: readonly string[]): boolean {
  return args.includes("--help") || args.includes("-h");
}

/**
 * What a script was given, by Node's `parseArgs`. With `--help` it says how it is used, and ends; so it does, with exit code 2, with what
 * it does not take.
 */
export function readOptions<const Config extends ParseArgsConfig>(usage: string, config: Config) {
  if (wantsHelp(process.argv.slice(2))) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    return misused(whatIsWrong(error), usage);
  }
}

/** An option's number. Ends the script with exit code 2 where it is none, or out of bounds. */
export function numberOption(
  usage: string,
  name: string,
  value: string,
  { least = 0, most = Number.MAX_SAFE_INTEGER, whole = true } = {},
): number {
  const number = Number(value);
  if (value.trim() !== "" && (whole ? Number.isInteger(number) : Number.isFinite(number)) && number >= least && number <= most)
    return number;
  const kind = whole ? "a whole number" : "a number";
  const bounds = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  return misused(`--${name} must be ${kind} ${bounds}; got "${value}".`, usage);
}

/** Ends a script that was called in a way it does not know: one line, and how it is used. */
export function misused(what: string, usage: string): never {
  console.error(`${what}\n${usage}`);
  process.exit(MISUSED);
}

/** The first sentence of what `parseArgs` says; the others are about programming. */
export function whatIsWrong(error: unknown): string {
  const [first = ""] = (error instanceof Error ? error.message : String(error)).split(/\. To specify|\n/);
  return `${first.replace(/\.$/, "")}.`;
}
