import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { parseBounded } from "../../src/contract/limits.ts";
import { Misuse } from "../command.ts";
import { oneLine, say } from "../terminal.ts";

/** JSON with escaped control characters, which is safe on a terminal and has the same value. */
export function shownJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, undefined, indent).replaceAll(UNSEEN, (found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** Characters that JSON.stringify leaves unchanged: C1 control characters, line separators, format characters. Line breaks are excluded. */
const UNSEEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\n]/gv;

/** The workflow and the subject of an instance. The default subject, which is the name of the workflow, is omitted. */
export function namedInstance({ workflow, subject }: { workflow: unknown; subject: unknown }, between = " of "): string {
  return subject === workflow ? `${workflow}` : `${workflow}${between}${subject}`;
}

export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Prints on stderr, so that stdout contains only the answer of the command. */
export function tell(sentence: string): void {
  process.stderr.write(`${sentence}\n`);
}

export function sayJson(answer: unknown): void {
  say(shownJson(answer));
}

/** The age of a past time, at least 1 s, or the duration until a future time. */
export function ago(time: string): string {
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  return seconds < 0 ? `in ${lasting(-seconds * 1000)}` : `${lasting(Math.max(1, seconds) * 1000)} ago`;
}

/** A rounded duration: `80 ms`, `2.5 s`, `5 min`, `3 h`, `2 d`. */
export function lasting(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1).replace(".0", "")} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** A time in UTC with seconds, but without milliseconds. */
export function moment(time: string): string {
  return `${time.slice(0, 19).replace("T", " ")}Z`;
}

export function stepName({ step, item }: { step: string; item: string }): string {
  return oneLine(item === "" ? step : `${step} [${item}]`);
}

/** JSON from the argument, a file (`@…`) or standard input (`-`), within the engine's size limits. Errors: a `Misuse`. */
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

/** The text of an option: the argument, the content of a file, or standard input. Errors: a `Misuse` if it cannot be read as UTF-8. */
export async function textOf(option: string, typed: string): Promise<string> {
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
