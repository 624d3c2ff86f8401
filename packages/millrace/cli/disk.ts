import { readFileSync } from "node:fs";

/** The text of a settings file, without the byte order mark that some editors put before it. */
export function settingsIn(file: string): string {
  return readFileSync(file, "utf8").replace(/^\ufeff/, "");
}

/** SQLite's own number for a disk without room. */
const SQLITE_FULL = 13;

const NOT_YOURS = "It belongs to another user. Change its owner (chown -R), or work in your own copy of the checkout";
const WHAT_TO_DO: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full. Free some space",
  EDQUOT: "Your disk quota is exceeded. Free some space",
  EROFS: "The disk is read-only. Mount it for writing, or work in a copy of the checkout on another disk",
  EACCES: NOT_YOURS,
  EPERM: NOT_YOURS,
};

/** True for an error of the disk or its rights. */
export function isOfDisk(error: unknown): boolean {
  return whatToDo(error) !== undefined;
}

/** Says what to do about an error of the disk, `then` what comes after that, and the system's own words; of any other error its message. */
export function errorWords(error: unknown, then: string): string {
  const message = error instanceof Error ? error.message : String(error);
  const says = whatToDo(error);
  return says === undefined ? message : `${says}, and ${then}. (${message})`;
}

function whatToDo(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const isFull = "errcode" in error && error.errcode === SQLITE_FULL;
  return WHAT_TO_DO[isFull ? "ENOSPC" : String(error.code)];
}
