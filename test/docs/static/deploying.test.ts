import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { bundled } from "../../../packages/millrace/cli/local/bundle.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const BIN = join(ROOT, "node_modules/.bin");
const out = mkdtempSync(join(tmpdir(), "millrace-docs-"));
afterAll(() => rmSync(out, { recursive: true, force: true }));

const settings = readFileSync(join(ROOT, "docs/settings.md"), "utf8");
const wrangler = JSON.parse(readFileSync(join(ROOT, "wrangler.jsonc"), "utf8").replaceAll(/^\s*\/\/.*$/gm, ""));

it("docs/settings.md lists every variable of the providers, and no other", () => {
  const providers = readFileSync(join(ROOT, "src/providers/env.ts"), "utf8");
  const account = readFileSync(join(ROOT, "src/providers/crm-account.ts"), "utf8");
  const embedded = readFileSync(join(ROOT, "src/embedded/env.ts"), "utf8");
  const read = [...`${providers}\n${account}\n${embedded}`.matchAll(/^ {2}([A-Z_]+)\?: string;$/gm)].map(([, name = ""]) => name);
  const named = rowsOf(settings, "variable").flatMap(([cell = ""]) => [...cell.matchAll(/`([A-Z_]+)`/g)].map(([, name = ""]) => name));
  expect(named.sort()).toEqual([...new Set(read)].sort());
});

it("the configured Worker passes a dry run of its deployment, and is identical to the local Worker, byte for byte", async () => {
  const args = ["deploy", "--dry-run", "--outdir", out];
  const said = execFileSync(join(BIN, "wrangler"), args, {
    cwd: ROOT,
    encoding: "utf8",
    env: { ...process.env, PATH: `${BIN}:${process.env.PATH}` },
  });
  for (const { binding } of wrangler.workflows) expect(said).toContain(`env.${binding}`);
  expect(said).toContain("--dry-run: exiting now.");

  const local = await bundled(join(ROOT, "wrangler.jsonc"));
  const modules = (folder: string) => readdirSync(folder).filter((name) => /\.(js|md)$/.test(name) && name !== "README.md");
  expect(modules(local)).toEqual(modules(out));
  for (const name of modules(out)) expect(readFileSync(join(local, name)).equals(readFileSync(join(out, name))), name).toBe(true);
});
