import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

/** Linux's file system in memory. */
const MEMORY = "/dev/shm";
/** What all runtimes of a whole run keep takes less. */
const ENOUGH_BYTES = 4 * 1024 ** 3;

/**
 * What the local runtimes keep while tests run is kept in memory where there is room: every write of an object or of the database is
 * synced to the disk otherwise, and a run waits for the disk more than for anything else (measured: 114 seconds became 32). A TMPDIR
 * that is set already stays.
 */
export function keepInMemory(): void {
  if (process.env.TMPDIR || freeBytes() < ENOUGH_BYTES) return;
  const folder = mkdtempSync(join(MEMORY, "millrace-tests-"));
  process.env.TMPDIR = folder;
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
