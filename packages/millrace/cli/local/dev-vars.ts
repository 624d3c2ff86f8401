import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { Refusal } from "../command.ts";
import { settingsIn } from "../terminal.ts";
import { shown } from "./wrangler.ts";

/**
 * Writes a file with a random MILLRACE_KEY. Returns false if the file exists. An existing file is not changed, because open instances
 * depend on the key in the file.
 */
export function ensureDevVars(file: string): boolean {
  try {
    writeFileSync(file, `MILLRACE_KEY=${newKey()}\n`, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  if (!/^[ \t]*(export[ \t]+)?MILLRACE_KEY[ \t]*=[ \t]*["']?[^\s"'#]/m.test(settingsIn(file))) {
    throw new Refusal(`${shown(file)} sets no MILLRACE_KEY. Add this line: MILLRACE_KEY=${newKey()}`);
  }
  return false;
}

export function newKey(): string {
  return randomBytes(32).toString("base64url");
}
