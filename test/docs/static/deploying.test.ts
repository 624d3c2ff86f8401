import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { bundled } from "../../../packages/millrace/cli/local/bundle.ts";
import { fencesOf, rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const BIN = join(ROOT, "node_modules/.bin");
const out = mkdtempSync(join(tmpdir(), "millrace-docs-"));
afterAll(() => rmSync(out, { recursive: true, force: true }));

const deploying = readFileSync(join(ROOT, "docs/deploying.md"), "utf8");
const wrangler = JSON.parse(readFileSync(join(ROOT, "wrangler.jsonc"), "utf8").replaceAll(/^\s*\/\/.*$/gm, ""));

/** Runs the document's first commands in a shell where `npx` and `node` only say what they were asked. */
function asked(): string[] {
  const [commands = ""] = fencesOf(deploying)
    .filter(({ language }) => language === "sh")
    .map(({ text }) => text);
  const script = `npx() { echo "$@" >&3; }; node() { echo "node $*" >&3; }; exec 3>&1; ${commands}`;
  return execFileSync("bash", ["-euo", "pipefail", "-c", script], { encoding: "utf8" }).trim().split("\n");
}

it("docs/deploying.md makes every resource that wrangler.jsonc names, and no other", () => {
  const made = (prefix: string) => asked().flatMap((line) => (line.startsWith(prefix) ? [line.slice(prefix.length)] : []));
  const names = (list: Record<string, string>[], field: string) => list.map((one) => one[field]).sort();
  expect(made("wrangler d1 create ").map((asked) => asked.split(" ")[0])).toEqual(names(wrangler.d1_databases, "database_name"));
  expect(made("wrangler r2 bucket create ").sort()).toEqual(names(wrangler.r2_buckets, "bucket_name"));
  expect(made("wrangler queues create ").sort()).toEqual(names(wrangler.queues.consumers, "queue"));
});

it("names every variable of the providers, and no other", () => {
  const providers = readFileSync(join(ROOT, "src/providers/env.ts"), "utf8");
  const account = readFileSync(join(ROOT, "src/providers/crm-account.ts"), "utf8");
  const embedded = readFileSync(join(ROOT, "src/embedded/env.ts"), "utf8");
  const read = [...`${providers}\n${account}\n${embedded}`.matchAll(/^ {2}([A-Z_]+)\?: string;$/gm)].map(([, name = ""]) => name);
  const named = rowsOf(deploying, "variable").flatMap(([cell = ""]) => [...cell.matchAll(/`([A-Z_]+)`/g)].map(([, name = ""]) => name));
  expect(named.sort()).toEqual([...new Set(read)].sort());
});

it("the Worker as it is configured passes a dry run of its deployment, and what runs locally is the same to the byte", async () => {
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
