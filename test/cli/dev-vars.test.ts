import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { ensureDevVars } from "../../packages/millrace/cli/local/dev-vars.ts";
import { settingsIn } from "../../packages/millrace/cli/terminal.ts";
import { unloaded } from "../../packages/millrace/cli/wiring/mistakes.ts";
import { emptyFolder } from "./folder.ts";

it("a new .dev.vars has a random MILLRACE_KEY, and only its owner can read the file", () => {
  const file = join(emptyFolder(), ".dev.vars");
  expect(ensureDevVars(file)).toBe(true);
  expect(readFileSync(file, "utf8")).toMatch(/^MILLRACE_KEY=[\w-]{43}\n$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

it("an existing .dev.vars is never overwritten", () => {
  const file = join(emptyFolder(), ".dev.vars");
  writeFileSync(file, 'SEARCH_TOKEN=mine\nMILLRACE_KEY="mine too"\n');
  expect(ensureDevVars(file)).toBe(false);
  expect(readFileSync(file, "utf8")).toBe('SEARCH_TOKEN=mine\nMILLRACE_KEY="mine too"\n');
});

it("all variables of a .dev.vars with a byte order mark are read, including the first", () => {
  const file = join(emptyFolder(), ".dev.vars");
  writeFileSync(file, "\ufeffMILLRACE_KEY=mine\r\nSEARCH_TOKEN=mine\r\n");
  expect(ensureDevVars(file)).toBe(false);
  expect(parseEnv(settingsIn(file))).toEqual({ MILLRACE_KEY: "mine", SEARCH_TOKEN: "mine" });
});

it("a .dev.vars without a MILLRACE_KEY is unchanged, and the error contains the line to add", () => {
  const file = join(emptyFolder(), ".dev.vars");
  writeFileSync(file, "MILLRACE_KEY=\nSEARCH_TOKEN=mine\n");
  expect(() => ensureDevVars(file)).toThrow(/sets no MILLRACE_KEY.* Add this line: MILLRACE_KEY=[\w-]{43}$/);
  expect(readFileSync(file, "utf8")).toBe("MILLRACE_KEY=\nSEARCH_TOKEN=mine\n");
});

it("a variable of .dev.vars that wrangler does not load is reported, with the setting that must list the variable", () => {
  const config = { secrets: { required: ["MILLRACE_KEY"] }, vars: { REGION: "eu" } };
  expect(unloaded(config, ["MILLRACE_KEY", "BANK_URL", "REGION"], ".dev.vars")).toEqual([
    {
      says: '.dev.vars has BANK_URL, which "secrets.required" in wrangler.jsonc does not list: wrangler does not load it. Add it there: "BANK_URL"',
      stops: false,
    },
  ]);
  expect(unloaded({}, ["BANK_URL"], ".dev.vars")).toEqual([]);
  expect(unloaded({ secrets: {} }, ["MILLRACE_KEY"], ".dev.vars")).toMatchObject([{ stops: true }]);
});
