import { logLine } from "./log-line.ts";

/** What each environment was told of its variables. */
const told = new WeakMap<object, Set<string>>();

/** Says once to an environment that a variable of its own cannot be meant, and what to write instead. */
export function sayUnmeant(env: object, variable: string, value: unknown, instead: string): void {
  const said = told.get(env) ?? new Set();
  told.set(env, said);
  if (said.has(variable)) return;
  said.add(variable);
  logLine("error", { log: "config_invalid", error: `${variable} is ${JSON.stringify(value)}: say ${instead}` });
}
