import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "./processes.ts";
import { ROOT } from "./wrangler.ts";

/** The cache of files that are derived from this repository alone. The cache can be deleted. */
const MADE = join(ROOT, ".millrace/made");

/** How long an outdated entry of the cache is kept. */
const KEPT_MS = 24 * 60 * 60_000;

/**
 * How long to wait for another process that creates the same cache entry. After this time, both processes create the entry, and the entry
 * that is complete first is used.
 */
const WAIT_MS = 60_000;
const LOOK_EVERY_MS = 50;

/**
 * Returns the cached folder for these inputs. If the cache has no such folder, `make` creates the folder. Processes share a cached folder,
 * so callers must not write to it.
 */
export async function madeOnce(what: string, from: readonly string[], make: (folder: string) => Promise<unknown>): Promise<string> {
  const name = `${what}-${digestOf(from)}`;
  const folder = join(MADE, name);
  if (existsSync(folder)) return folder;
  mkdirSync(MADE, { recursive: true, mode: 0o700 });
  forgetOld();
  for (const until = Date.now() + WAIT_MS; isBeingMade(name) && Date.now() < until; ) await sleep(LOOK_EVERY_MS);
  if (existsSync(folder)) return folder;
  const making = mkdtempSync(join(MADE, `making-${name}-${process.pid}-`));
  try {
    await make(making);
    renameSync(making, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}

function isBeingMade(name: string): boolean {
  const making = readdirSync(MADE).filter((one) => one.startsWith(`making-${name}-`));
  return making.some((one) => isAlive(Number(one.slice(`making-${name}-`.length).split("-")[0])));
}

/** A digest of the names and contents of all files. Files whose name begins with a dot are ignored, because tools write such files. */
export function digestOf(paths: readonly string[]): string {
  const hash = createHash("sha256");
  const add = (path: string) => {
    hash.update(`${relative(ROOT, path)}\n`);
    if (!statSync(path).isDirectory()) hash.update(readFileSync(path));
    else for (const name of readdirSync(path).sort()) if (!name.startsWith(".")) add(join(path, name));
  };
  for (const path of paths) add(path);
  return hash.digest("hex").slice(0, 16);
}

function forgetOld(): void {
  for (const name of readdirSync(MADE)) {
    const folder = join(MADE, name);
    if (Date.now() - statSync(folder).mtimeMs > KEPT_MS) rmSync(folder, { recursive: true, force: true });
  }
}
