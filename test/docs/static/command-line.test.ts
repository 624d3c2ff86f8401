import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { nounLines } from "../../../packages/millrace/cli/names.js";
import { NO_VERB } from "../../../packages/millrace/cli/operate/arguments.ts";
import { NOUNS } from "../../../packages/millrace/cli/operate/generic.ts";
import { letters } from "../../console/letters.ts";
import { app, caller } from "../../console/stage.ts";
import { fencesOf } from "../markdown.ts";

const page = readFileSync(join(ROOT, "docs/command-line.md"), "utf8");

/** A command of the page, its documented exit code, and a part of its output. */
interface Command {
  text: string;
  code: number;
  says: string;
}

function commandsOf(shell: string): Command[] {
  const found = [...shell.matchAll(/^([\s\S]*?)\n# (\d+) (.+)\n/gm)];
  return found.map(([, text = "", code, says = ""]) => ({ text: text.trim(), code: Number(code), says }));
}

function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-command-line-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it("every command of docs/command-line.md ends with the documented exit code, and prints the documented output", async () => {
  const at = await app();
  const ada = caller(at);
  const [letter] = await letters(
    ada,
    [{ key: "mint-7", payload: { brand: "acme" }, cause: "c".repeat(32), error: "It lacks its keyword." }],
    at,
  );
  const commands = fencesOf(page).flatMap(({ text, language }) => (language === "sh" ? commandsOf(text) : []));
  expect(commands.length).toBeGreaterThan(15);
  const folder = emptyFolder();
  // Runs in one shell, which keeps variables from one command to the next. The start of npx itself is tested once, below.
  const script = [
    `npx() { shift; "${process.execPath}" packages/millrace/cli/launch.js "$@"; }`,
    ...commands.map(({ text }, at) => `{ ${text}\n} >"$FOLDER/${at}" 2>&1; echo $? >>"$FOLDER/codes"`),
  ].join("\n");
  const variables = { FOLDER: folder, LETTER: letter, MILLRACE_URL: ada.url, MILLRACE_TOKEN: ada.token };
  execFileSync("bash", ["-c", script], { cwd: ROOT, env: { ...process.env, ...variables } });
  const codes = readFileSync(join(folder, "codes"), "utf8").trim().split("\n").map(Number);
  for (const [at, { text, code, says }] of commands.entries()) {
    const said = readFileSync(join(folder, String(at)), "utf8");
    expect(said, text).toContain(says);
    expect(codes[at], `${text}\n${said}`).toBe(code);
  }
});

it("docs/command-line.md and the help of the command have every noun, with its verbs", () => {
  const lines = Object.entries(nounLines());
  const text = lines.map(([noun, verbs]) => `${noun.padEnd(16)}  ${verbs}\n`).join("");
  expect(fencesOf(page).find(({ language }) => language === "text")?.text).toBe(text);
  const verbs = Object.entries(NOUNS).filter(([, verbs]) => !(NO_VERB in verbs));
  expect(lines.map(([noun]) => noun)).toEqual(Object.keys(NOUNS));
  expect(nounLines()).toMatchObject(Object.fromEntries(verbs.map(([noun, verbs]) => [noun, Object.keys(verbs).join(", ")])));
});

it("npx finds the command in the project's folder, without a request to a registry", () => {
  const cache = join(emptyFolder(), "npm");
  mkdirSync(cache);
  const nowhere = { npm_config_cache: cache, npm_config_registry: "http://127.0.0.1:1" };
  const { status, stdout, stderr } = spawnSync("npx", ["millrace", "instances", "--help"], {
    cwd: join(ROOT, "docs"),
    env: { ...process.env, ...nowhere },
    encoding: "utf8",
  });
  expect(stdout, stderr).toContain("Usage: npx millrace instances <verb> [options].");
  expect(status).toBe(0);
});
