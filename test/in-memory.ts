import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

/** Linux's file system in memory. */
const MEMORY = "/dev/shm";
/** The space that all runtimes of a whole run need at most. */
const ENOUGH_BYTES = 4 * 1024 ** 3;

/**
 * The local runtimes' storage is in memory during tests if there is space. Otherwise every write of an object or of the database is synced
 * to the disk, which takes most of a run's time (measured: 114 s became 32 s). A TMPDIR that is already set is unchanged.
 */
export function keepInMemory(): void {
  const memory = process.env.TMPDIR ? undefined : inMemory();
  if (memory === undefined) return;
  const folder = mkdtempSync(join(memory, "millrace-tests-"));
  process.env.TMPDIR = folder;
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}

/** A folder in memory; undefined if there is no space. A killed process leaves its files there, as on a disk. */
export const inMemory = (): string | undefined => (freeBytes() < ENOUGH_BYTES ? undefined : MEMORY);

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
