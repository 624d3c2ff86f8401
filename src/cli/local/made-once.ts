import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { ROOT } from "./wrangler.ts";

/** Where things are kept that follow from this checkout's files alone. Deleting it costs the next start a few seconds. */
const MADE = join(ROOT, ".millrace/made");

/** How long something is kept that was made from files which have changed since. */
const KEPT_MS = 24 * 60 * 60_000;

/**
 * Makes what follows from these files and folders alone, unless it was made from the same before. Answers the folder it is in: it is
 * shared, so nobody writes to it. Whoever makes the same at the same moment is no harm: what is whole first stays.
 */
export async function madeOnce(what: string, from: readonly string[], make: (folder: string) => Promise<unknown>): Promise<string> {
  const folder = join(MADE, `${what}-${digestOf(from)}`);
  if (existsSync(folder)) return folder;
  mkdirSync(MADE, { recursive: true, mode: 0o700 });
  forgetOld();
  const making = mkdtempSync(join(MADE, "making-"));
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

/** A digest of all names and contents. */
function digestOf(paths: readonly string[]): string {
  const hash = createHash("sha256");
  const add = (path: string) => {
    hash.update(`${relative(ROOT, path)}\n`);
    if (!statSync(path).isDirectory()) hash.update(readFileSync(path));
    else for (const name of readdirSync(path).sort()) add(join(path, name));
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
