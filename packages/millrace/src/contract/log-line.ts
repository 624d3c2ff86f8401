export type LogLevel = "info" | "warn" | "error";

/** Writes one log line: JSON, with its kind (`log`) and its level first. Log names, counts and codes, never a payload or a secret. */
export function logLine(level: LogLevel, { log, ...fields }: { readonly log: string; readonly [field: string]: unknown }): void {
  console[level === "info" ? "log" : level](JSON.stringify({ log, level, ...fields }));
}
