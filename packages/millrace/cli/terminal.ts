import { stripVTControlCharacters, styleText } from "node:util";

type Style = "bold" | "dim" | "green" | "red" | "yellow" | "cyan";

/** Colours text for standard output; leaves it plain where that is no terminal or NO_COLOR is set. */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

/**
 * A text that others have written, as one line that a terminal can do nothing with but show it: no sequences, line breaks or turned
 * directions.
 */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text).replace(UNSEEN, " ").trim();
}

/** Controls, separators of lines, and what changes the order or hides; not what joins the letters of some scripts. */
const UNSEEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]+/gv;

export function say(line = ""): void {
  process.stdout.write(`${line}\n`);
}

export function failed(sentence: string): void {
  process.stderr.write(`\n${styleText("red", "✗", { stream: process.stderr })} ${sentence}\n`);
}

/** A column entry, filled up with spaces. What is longer stays whole: a shifted line is better than a cut name. */
export function column(text: string, width: number): string {
  return text.padEnd(width);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** A number with its noun: `1 migration`, `2 migrations`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
