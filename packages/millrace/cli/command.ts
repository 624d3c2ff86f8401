import { createInterface } from "node:readline/promises";
import { MISUSED } from "./options.ts";
import { errorWords, failed } from "./terminal.ts";

/** An error that ends a command. The message tells the user the problem and the next step. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly exitCode: number = 1;
}

/** The error for a wrong call of a command, with exit code 2. */
export class Misuse extends Refusal {
  override readonly exitCode = MISUSED;
}

/** The arguments of a command, and a signal that aborts on SIGINT, SIGTERM and SIGHUP. */
export interface Call {
  args: string[];
  stop: AbortSignal;
}

export interface Usage {
  readonly text: string;
  /** Options with a value, such as `--port`. */
  readonly values: readonly string[];
  /** Options without a value. */
  readonly flags?: readonly string[];
}

/** Returns the arguments that are not options. Errors: a `Misuse` for an unknown option. */
export function besideOptions(args: readonly string[], { text, values, flags = [] }: Usage): string[] {
  const beside: string[] = [];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    const [name = ""] = arg.split("=");
    if (!arg.startsWith("-")) beside.push(arg);
    else if (values.includes(name)) at += name === arg ? 1 : 0;
    else if (!flags.includes(arg)) throw new Misuse(`There is no option "${arg}". ${text}`);
  }
  return beside;
}

/** The value of an option: `--env live` or `--env=live`. Errors: a `Misuse` if the value is missing. */
export function optionIn(args: readonly string[], name: string): string | undefined {
  const at = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  if (at < 0) return undefined;
  const value = args[at]?.includes("=") ? args[at]?.slice(name.length + 1) : args[at + 1];
  if (value === undefined || value === "" || value.startsWith("-")) throw new Misuse(`${name} needs a value, such as: ${name} …`);
  return value;
}

/** Asks a question on the terminal. Returns true if the user answers `y`. */
export async function agreed(question: string, stop: AbortSignal): Promise<boolean> {
  const asking = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `, { signal: stop })).trim());
  } finally {
    asking.close();
  }
}

/** The exit code that shells report for Ctrl-C. */
const INTERRUPTED = 130;
/** The program that reads the output closed the pipe, as in `millrace instances list | head`. This is not an error. */
const GONE = "EPIPE";
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Runs a command, and ends the process with the exit code of the command or its `Refusal`, or with 130 after a signal. The command must
 * stop its own processes and timers in a `finally`.
 */
export async function runCommand(command: (call: Call) => Promise<number>): Promise<void> {
  // Only the owner may read the files of the local state, because these files contain payloads, hashes of tokens and logs.
  process.umask(0o077);
  const stopping = new AbortController();
  for (const signal of SIGNALS) process.on(signal, () => stopping.abort());
  let lost: NodeJS.ErrnoException | undefined;
  process.stdout.on("error", (error) => {
    lost ??= error;
    stopping.abort();
  });
  const code = await exitCodeOf(command, { args: process.argv.slice(2), stop: stopping.signal });
  // Waits until all earlier output is written or lost.
  await new Promise((written) => process.stdout.write("", written));
  process.exitCode = lost === undefined || lost.code === GONE ? code : notWritten(lost, code);
  // Ends the process explicitly, because an open keep-alive connection would delay the end.
  process.exit();
}

/** The exit code if output was lost. The code is never 0, because the output is incomplete. */
function notWritten({ message }: Error, code: number): number {
  failed(`The output could not be written (${message}) and is incomplete. The command may still have succeeded.`);
  return code === 0 || code === INTERRUPTED ? 1 : code;
}

/** Runs a command, and prints the message of its error. Returns the exit code. */
export async function exitCodeOf(command: (call: Call) => Promise<number>, call: Call): Promise<number> {
  try {
    return await command(call);
  } catch (error) {
    if (call.stop.aborted) return INTERRUPTED;
    failed(errorWords(error, "try again"));
    return error instanceof Refusal ? error.exitCode : 1;
  }
}

export function stopped(stop: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (stop.aborted) reject(new Refusal("Stopped."));
    stop.addEventListener("abort", () => reject(new Refusal("Stopped.")), { once: true });
  });
}
