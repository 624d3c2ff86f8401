import { stripVTControlCharacters, styleText } from "node:util";

type Style = "bold" | "dim" | "green" | "red" | "yellow" | "cyan";

/** Adds a colour to a text, if standard output is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

/**
 * Removes line breaks, escape sequences and direction marks from an untrusted text, so that a terminal prints the text without interpreting
 * it.
 */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text).replace(UNSEEN, " ").trim();
}

/** Matches control characters, line separators and format characters, except the zero-width joiners that some writing systems need. */
const UNSEEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]+/gv;

export function say(line = ""): void {
  process.stdout.write(`${line}\n`);
}

export function failed(sentence: string): void {
  process.stderr.write(`\n${styleText("red", "✗", { stream: process.stderr })} ${sentence}\n`);
}

export function column(text: string, width: number): string {
  return text.padEnd(width);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
