import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

/** Linux's file system in memory. */
const MEMORY = "/dev/shm";
/** What all runtimes of a whole run keep takes less. */
const ENOUGH_BYTES = 4 * 1024 ** 3;

/**
 * The local runtimes' storage is in memory during tests where there is space: every write of an object or of the database is synced
 * to the disk otherwise, and a run waits for the disk more than for anything else (measured: 114 seconds became 32). A TMPDIR that
 * is set already stays.
 */
export function keepInMemory(): void {
  const memory = process.env.TMPDIR ? undefined : inMemory();
  if (memory === undefined) return;
  const folder = mkdtempSync(join(memory, "millrace-tests-"));
  process.env.TMPDIR = folder;
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}

/** A folder in memory; undefined where there is no space. A killed process leaves its files there, as on a disk. */
export const inMemory = (): string | undefined => (freeBytes() < ENOUGH_BYTES ? undefined : MEMORY);

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
