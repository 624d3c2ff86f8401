import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect } from "vitest";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "../cli/folder.ts";
import { fencesOf } from "./markdown.ts";

export const OWN_WORKER = readFileSync(join(ROOT, "docs/own-worker.md"), "utf8");

/** The folder that `npx millrace init` creates next to the checkout, with its packages, and the page's other files. */
export function greeter(): string {
  const beside = emptyFolder();
  symlinkSync(ROOT, join(beside, "millrace"), "dir");
  const folder = join(beside, "my-worker");
  const said = execFileSync("millrace", ["init", folder, "--yes"], { cwd: ROOT, env: withPrograms(), encoding: "utf8" });
  const pack = `npm pack ./packages/millrace --pack-destination ${relative(ROOT, folder)}`;
  expect(said).toContain(`Next: ${pack} && cd ${relative(ROOT, folder)} && npm install && npx millrace dev`);
  expect(OWN_WORKER).toContain(`\n${pack.replace(relative(ROOT, folder), "../my-worker")}\n`);
  const { dependencies: own } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  expect(own.millrace).toBe("file:millrace-0.1.0.tgz");
  for (const { comment, text } of fencesOf(OWN_WORKER)) {
    const [, name = ""] = /^test\/docs\/own-worker\/(.+)$/.exec(comment ?? "") ?? [];
    if (/^(worker\.ts|migrations\/.+)$/.test(name)) {
      const made = join(folder, name === "worker.ts" ? "src" : "", name);
      expect(readFileSync(made, "utf8"), `init writes ${name} as the page shows it`).toBe(text);
    } else if (name) writeFileSync(join(folder, name.endsWith(".test.ts") ? "src" : "", name), text);
  }
  // The package as installed, with sources instead of a build: a test of the tarball builds it.
  const installed = join(folder, "node_modules/millrace");
  mkdirSync(join(installed, "dist/assets"), { recursive: true });
  for (const part of ["src", "migrations"]) symlinkSync(join(ROOT, "packages/millrace", part), join(installed, part), "dir");
  const doors = Object.entries(sourceDoors()).map(([door, file]) => [
    door.replace(/^millrace/, "."),
    `./${relative(join(ROOT, "packages/millrace"), file)}`,
  ]);
  writeFileSync(join(installed, "package.json"), JSON.stringify({ name: "millrace", type: "module", exports: Object.fromEntries(doors) }));
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, "packages/millrace/package.json"), "utf8"));
  for (const name of [...Object.keys({ ...dependencies, ...peerDependencies }), "vitest", "wrangler", "@cloudflare/vitest-pool-workers"]) {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name), "dir");
  }
  return folder;
}

export const withPrograms = () => ({ ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}` });

/** Ends a program and its children. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.pid !== undefined) {
    process.kill(-child.pid, "SIGTERM");
    await once(child, "exit");
  }
}
