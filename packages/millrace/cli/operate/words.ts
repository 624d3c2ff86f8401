import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { parseBounded } from "../../src/contract/limits.ts";
import { Misuse } from "../command.ts";
import { oneLine, say } from "../terminal.ts";

/** JSON that a terminal can do nothing with but show it: what it could take for more is escaped, and so the same to programs. */
export function shownJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, undefined, indent).replaceAll(UNSEEN, (found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** What JSON itself does not escape: later controls, separators of lines, and what hides or changes the order. Line ends are its own. */
const UNSEEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\n]/gv;

/** A text as one word of a command line, whatever is in it. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** To people, beside the answer: what happens, and what may come next. */
export function tell(sentence: string): void {
  process.stderr.write(`${sentence}\n`);
}

/** An answer as the API gives it, in a line. */
export function sayJson(answer: unknown): void {
  say(shownJson(answer));
}

/** How long ago something was, in whole seconds at least. */
export function ago(time: string): string {
  return `${lasting(Math.max(1, Math.round((Date.now() - Date.parse(time)) / 1000)) * 1000)} ago`;
}

/** A length of time, roughly: `80 ms`, `2.5 s`, `5 min`, `3 h`, `2 d`. */
export function lasting(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1).replace(".0", "")} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** A moment as people read it: seconds, in UTC. */
export function moment(time: string): string {
  return `${time.slice(0, 19).replace("T", " ")}Z`;
}

/** A step as people name it: an item has its key in brackets. */
export function stepName({ step, item }: { step: string; item: string }): string {
  return oneLine(item === "" ? step : `${step} [${item}]`);
}

/**
 * JSON that was typed, or stands in a file (`@…`), or comes in (`-`), read as the engine reads it: what would be sent as something else is
 * refused. Errors: a `Misuse` that says what is wrong with it.
 */
export async function typedJson(option: string, typed: string): Promise<unknown> {
  const read = await textOf(option, typed);
  try {
    JSON.parse(read);
  } catch (error) {
    throw new Misuse(oneLine(`--${option} is not valid JSON: ${(error as Error).message}.`));
  }
  try {
    return (parseBounded(`{"${option}":${read}}`) as Record<string, unknown>)[option];
  } catch (error) {
    throw new Misuse(oneLine(`--${option}: ${(error as Error).message}`));
  }
}

/** What was typed, as text. Errors: a `Misuse` for a file that cannot be read, and for what is not in UTF-8. */
async function textOf(option: string, typed: string): Promise<string> {
  const isIn = typed === "-";
  if (!isIn && !typed.startsWith("@")) return typed.replace(/^\ufeff/, "");
  const from = isIn ? "what comes in" : typed.slice(1);
  try {
    if (isIn && process.stdin.isTTY) tell(`--${option}: type it and finish with Ctrl-D.`);
    const bytes = isIn ? await buffer(process.stdin) : readFileSync(from);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch (error) {
    throw new Misuse(oneLine(`--${option}: ${from} cannot be read: ${(error as Error).message}.`));
  }
}
