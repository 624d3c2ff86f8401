import { logLine } from "./log-line.ts";

/** True for an address that starts with http:// or https://, so false for `localhost:4318`. */
export function isHttpAddress(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? "");
}

/** Messages about invalid variables that were already logged, by environment. */
const told = new WeakMap<object, Set<string>>();

/** Logs once per environment that a variable is invalid, with the fix. The message must not contain the value of a secret. */
export function sayUnmeant(env: object, error: string): void {
  const said = told.get(env) ?? new Set();
  told.set(env, said);
  if (said.has(error)) return;
  said.add(error);
  logLine("error", { log: "config_invalid", error });
}
