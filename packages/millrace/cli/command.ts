import { createInterface } from "node:readline/promises";
import { errorWords } from "./disk.ts";
import { MISUSED } from "./options.ts";
import { failed } from "./terminal.ts";

/** What stops a command and is for people to read: what happened, and what to do. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  /** What the command ends with. */
  readonly exitCode: number = 1;
}

/** A command that was called in a way it does not know. */
export class Misuse extends Refusal {
  override readonly exitCode = MISUSED;
}

/** What a command gets: its arguments, and a signal for Ctrl-C and its relatives. */
export interface Call {
  args: string[];
  stop: AbortSignal;
}

/** What a command can be given. */
export interface Usage {
  /** Shown by `--help`, and behind a refusal. */
  readonly text: string;
  /** Options that are followed by a value, such as `--port`. */
  readonly values: readonly string[];
  /** Options that stand by themselves. */
  readonly flags?: readonly string[];
}

/**
 * The arguments that stand beside a command's options. Errors: a `Misuse` for an option it does not have: nobody should believe that it was
 * heard.
 */
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

/** The value of an option: `--env live` or `--env=live`. Errors: a `Misuse` where the value is missing. */
export function optionIn(args: readonly string[], name: string): string | undefined {
  const at = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  if (at < 0) return undefined;
  const value = args[at]?.includes("=") ? args[at]?.slice(name.length + 1) : args[at + 1];
  if (value === undefined || value === "" || value.startsWith("-")) throw new Misuse(`${name} needs a value, such as: ${name} …`);
  return value;
}

/** Asks on a terminal. True for `y`. */
export async function agreed(question: string, stop: AbortSignal): Promise<boolean> {
  const asking = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `, { signal: stop })).trim());
  } finally {
    asking.close();
  }
}

/** Shells report a process ended by Ctrl-C so. */
const INTERRUPTED = 130;
/** The reader has closed the pipe, as in `millrace instances list | head`: no error. */
const GONE = "EPIPE";
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Runs a command to its exit code: its own; that of the refusal which stopped it, with a sentence; or 130 when a signal ended it. Whatever
 * it started, its `finally` must end.
 */
export async function runCommand(command: (call: Call) => Promise<number>): Promise<void> {
  // What an engine keeps is its owner's: payloads, hashes of tokens, logs.
  process.umask(0o077);
  const stopping = new AbortController();
  for (const signal of SIGNALS) process.on(signal, () => stopping.abort());
  let lost: NodeJS.ErrnoException | undefined;
  process.stdout.on("error", (error) => {
    lost ??= error;
    stopping.abort();
  });
  const code = await exitCodeOf(command, { args: process.argv.slice(2), stop: stopping.signal });
  // Answers once all before it is written, or is lost.
  await new Promise((written) => process.stdout.write("", written));
  process.exitCode = lost === undefined || lost.code === GONE ? code : notWritten(lost, code);
  // A keep-alive connection to an engine that is gone must not hold the command up.
  process.exit();
}

/** What a command ends with whose words are lost: nobody is to take what was kept of them for all, or a code of 0 for an answer. */
function notWritten({ message }: Error, code: number): number {
  failed(`The output could not be written (${message}) and is incomplete. The command may still have succeeded.`);
  return code === 0 || code === INTERRUPTED ? 1 : code;
}

/** What a command ends with. What stopped it is said to people. */
export async function exitCodeOf(command: (call: Call) => Promise<number>, call: Call): Promise<number> {
  try {
    return await command(call);
  } catch (error) {
    if (call.stop.aborted) return INTERRUPTED;
    failed(errorWords(error, "try again"));
    return error instanceof Refusal ? error.exitCode : 1;
  }
}

/** Rejects when the signal comes, so that waiting for something can end early. */
export function stopped(stop: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (stop.aborted) reject(new Refusal("Stopped."));
    stop.addEventListener("abort", () => reject(new Refusal("Stopped.")), { once: true });
  });
}
