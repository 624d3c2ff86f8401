/** How grave a line of the log is. */
export type LogLevel = "info" | "warn" | "error";

/**
 * Writes one line of the log: JSON, with its kind (`log`) and its level before its fields. Say names, counts and codes in it, never a
 * payload or a secret.
 */
export function logLine(level: LogLevel, { log, ...fields }: { readonly log: string; readonly [field: string]: unknown }): void {
  console[level === "info" ? "log" : level](JSON.stringify({ log, level, ...fields }));
}
