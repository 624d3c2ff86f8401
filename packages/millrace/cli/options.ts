import { type ParseArgsConfig, parseArgs } from "node:util";

/** The exit code for a wrong call of a script. */
export const MISUSED = 2;

export function wantsHelp(args: readonly string[]): boolean {
  return args.includes("--help") || args.includes("-h");
}

/**
 * Parses the options of a script with `parseArgs` of Node. For `--help`, prints the usage and ends the process. For unknown options, prints
 * the usage and ends the process with exit code 2.
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

/** Reads a numeric option. Ends the script with exit code 2 if the number is invalid or out of bounds. */
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

/** Prints an error and the usage, and ends the script with exit code 2. */
export function misused(what: string, usage: string): never {
  console.error(`${what}\n${usage}`);
  process.exit(MISUSED);
}

/** The first sentence of an error of `parseArgs`. The further sentences of such an error are advice for programmers. */
export function whatIsWrong(error: unknown): string {
  const [first = ""] = (error instanceof Error ? error.message : String(error)).split(/\. To specify|\n/);
  return `${first.replace(/\.$/, "")}.`;
}
