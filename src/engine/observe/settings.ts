import { logLine } from "../contract/log-line.ts";

const said = new Set<string>();

/** Says once in an isolate that a variable cannot be meant, and what to write instead. */
export function sayOnce(variable: string, value: unknown, instead: string): void {
  if (said.has(variable)) return;
  said.add(variable);
  logLine("error", { log: "config_invalid", error: `${variable} is ${JSON.stringify(value)}: say ${instead}` });
}
