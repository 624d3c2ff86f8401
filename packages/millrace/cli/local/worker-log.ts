import { closeSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { namedInstance } from "../operate/words.ts";
import { oneLine } from "../terminal.ts";
import { errorOf } from "./wrangler.ts";

const LOOK_EVERY_MS = 250;
/** A log file that exceeds this size is renamed at the next start. The log file that an earlier start renamed is deleted. */
const LARGE_BYTES = 10 * 1024 * 1024;

export function openLog(file: string): number {
  if (sizeOf(file) > LARGE_BYTES) renameSync(file, `${file}.1`);
  return openSync(file, "a", 0o600);
}

/**
 * Passes each new line of a log file to `onLine`. Starts at the end of the file, or at an offset. An error of `onLine` is ignored. Returns
 * a function that stops the reading.
 */
export function followLog(file: string, onLine: (line: string) => void, from = sizeOf(file)): () => void {
  let at = from;
  let rest = "";
  const timer = setInterval(() => {
    const size = sizeOf(file);
    // Another start has renamed the log file and created a new log file.
    if (size < at) at = 0;
    if (size === at) return;
    const added = Buffer.alloc(size - at);
    const open = openSync(file, "r");
    at += readSync(open, added, 0, added.length, at);
    closeSync(open);
    const lines = (rest + added.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      try {
        onLine(line);
      } catch {
        // A tenant's text in the log may resemble a line of the Worker without being a valid line.
      }
    }
  }, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}

export function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Errors that are consequences of a Worker's error. Wrangler prints these errors after the Worker's error. */
const FOLLOWS = /has no such named entrypoint|The Workers runtime failed to start/;

/**
 * Matches wrangler's heading for bundler errors, and wrangler's errors about its own folder while the folder is replaced. Operators do not
 * need these lines, because each save has already been bundled.
 */
const ITS_OWN = /^Build failed with \d+ errors?:?$|Could not resolve "[^"]*\/\.wrangler\/tmp\//;

export type LogLine = Record<string, unknown> & { log: string };

/** The JSON in a log line, without wrangler's prefix for warnings and errors. Undefined if the line has no JSON. */
export function eventIn(line: string): LogLine | undefined {
  const said = /^(?:\S \[(?:WARNING|ERROR)\] )?(\{"log":.*)$/.exec(oneLine(line))?.[1];
  try {
    return said === undefined ? undefined : JSON.parse(said);
  } catch {
    return undefined;
  }
}

/** Converts a log line to a sentence for the user. Undefined for a line that is only useful for searches in the log. */
export function humanLine(line: string): string | undefined {
  const event = eventIn(line);
  const words = event ? eventWords(event) : runtimeWords(line);
  // Control characters are removed here, because a tenant's text may contain control characters after JSON.parse.
  return words === undefined ? undefined : oneLine(words);
}

function runtimeWords(line: string): string | undefined {
  const error = errorOf(line);
  if (error !== undefined && ITS_OWN.test(error)) return undefined;
  if (error !== undefined) return FOLLOWS.test(error) || error.startsWith('{"log":') ? undefined : `error: ${error}`;
  return /^\S Reloading local server/.test(oneLine(line)) ? "a source changed: the Worker is reloaded" : undefined;
}

function eventWords({ log, level, queue, messages, ...rest }: LogLine): string | undefined {
  switch (log) {
    case "batch":
      return `${queue}: ${messages} ${messages === 1 ? "message" : "messages"}, ${counts(rest)}`;
    case "delivery":
      if (level === "info") return `${queue}: ${message(rest)} ${rest.outcome}, waited ${rest.waited_ms} ms`;
      return `${queue}: ${message(rest)} ${rest.outcome}${rest.error ? `: ${rest.error}` : ""}`;
    case "attempt":
      // A successful step has no line here, because it is reported at the end of the run.
      if (level === "info") return undefined;
      return `${instance(rest)}: ${rest.step}, attempt ${rest.attempt}, ${String(rest.outcome).replace("_", " ")}: ${rest.error}`;
    case "ended":
      return `${instance(rest)} ${rest.status}${rest.error === undefined ? "" : ` at ${rest.step || rest.at || rest.where || "no step"}: ${rest.error}`}`;
    case "waiting":
      return `${instance(rest)}: ${rest.step}, waits until ${rest.until} ${awaited(rest)}`;
    case "keeper":
      return `keeper: ${rest.error ? `${rest.part} failed: ${rest.error}` : counts(rest)}`;
    case "retention":
      return rest.error ? `retention: ${rest.rule} failed: ${rest.error}` : removedWords(rest.removed);
    case "alert":
      return alertWords(rest, queue);
    case "repair":
      return `${queue}: the repair "${rest.repair}" ${REPAIRED[String(rest.outcome)] ?? rest.outcome} the dead letter ${rest.dead_letter}`;
    case "advice":
      return `${rest.workflow}: ${rest.step ? `"${rest.step}": ` : ""}${rest.said}`;
    case "api":
      return `${rest.method} ${rest.path}: ${rest.code}: ${rest.message}`;
    default:
      return `${log}: ${Object.entries({ queue, ...rest })
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`)
        .join(", ")}`;
  }
}

/** Describes the subject of an alert, such as `20 of night-order, not_retryable`, without fields for programs. */
function alertWords({ change, alert_id, rule, severity, value, count, since, ...labels }: Record<string, unknown>, queue: unknown): string {
  if (change === "spoiled") return `alert: the row of ${rule} could not be read and is reset (${alert_id})`;
  const about = Object.values({ queue, ...labels }).filter((label) => label !== undefined && label !== null);
  const told = `${CHANGED[String(change)] ?? change}: ${typeof count === "number" ? `${count} times, ` : ""}value ${value}`;
  return `alert: ${[`${severity} ${rule}`, ...about].join(", ")} ${told}, since ${since}`;
}

const CHANGED: Record<string, string> = {
  firing: "began",
  escalated: "is worse",
  eased: "is better",
  repeated: "lasts",
  resolved: "is over",
};

const REPAIRED: Record<string, string> = {
  sent: "has repaired",
  refused: "produced a refused message from",
  failed: "failed on",
};

function awaited({ event_type, about, open }: Record<string, unknown>): string {
  if (event_type === undefined) return "for an answer";
  return `for ${event_type} about ${about}${open === true ? "" : ", which only steps of this deployment may emit"}`;
}

function message({ message_type = "a message without a type", subject = "" }: Record<string, unknown>): string {
  return namedInstance({ workflow: message_type, subject }, " ").trimEnd();
}

function instance({ workflow, subject }: Record<string, unknown>): string {
  return namedInstance({ workflow, subject }, " ");
}

/** The retention removes rows in rounds. A round that removed no row is not printed. */
function removedWords(removed: unknown): string | undefined {
  const words = counts((removed ?? {}) as Record<string, unknown>);
  return words === "" ? undefined : `retention: removed ${words}`;
}

function counts(numbers: Record<string, unknown>): string {
  return Object.entries(numbers)
    .filter(([, count]) => typeof count === "number" && count > 0)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");
}
