import { logLine } from "./log-line.ts";

/** True for an address that begins with http:// or https://. What is written without that, such as `localhost:4318`, is none. */
export function isHttpAddress(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? "");
}

/** What each environment was told. */
const told = new WeakMap<object, Set<string>>();

/** Says once to an environment that a variable of its own cannot be meant, and what to write instead: never a value that is a secret. */
export function sayUnmeant(env: object, error: string): void {
  const said = told.get(env) ?? new Set();
  told.set(env, said);
  if (said.has(error)) return;
  said.add(error);
  logLine("error", { log: "config_invalid", error });
}
