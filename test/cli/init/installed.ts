import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";

const ROOT = resolve(import.meta.dirname, "../../..");
const PACKAGE = join(ROOT, "packages/millrace");

/** The package as npm installs it, built once per test file. */
export function builtPackage(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "millrace-installed-"));
  execFileSync(process.execPath, [join(PACKAGE, "build/package.ts"), join(folder, "dist")], { stdio: "pipe" });
  for (const file of ["package.json", "millrace.js", "migrations"]) cpSync(join(PACKAGE, file), join(folder, file), { recursive: true });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A user's folder with these files, the package, and the packages that a Worker needs. */
export function userFolder(installed: string, files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "millrace-user-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  const names = [...Object.keys({ ...dependencies, ...peerDependencies }), "wrangler", "@cloudflare/workers-types", "typescript"];
  for (const name of names) {
    mkdirSync(dirname(join(root, "node_modules", name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(root, "node_modules", name), "dir");
  }
  // The package is copied, not linked: packages are resolved from its location.
  cpSync(installed, join(root, "node_modules/millrace"), { recursive: true });
  return root;
}

/** Runs a program of the folder's packages until it exits. */
export function run(root: string, program: "millrace" | "wrangler" | "tsc", ...args: string[]) {
  const file = { millrace: "millrace/millrace.js", wrangler: "wrangler/bin/wrangler.js", tsc: "typescript/bin/tsc" }[program];
  const env = { ...process.env, CI: "1", NO_COLOR: "1", WRANGLER_SEND_METRICS: "false", WRANGLER_LOG_PATH: join(root, ".wrangler/logs") };
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "node_modules", file), ...args], {
    cwd: root,
    env,
    encoding: "utf8",
  });
  return { code: status, out: stdout, err: stderr };
}
