import { readFileSync } from "node:fs";

/** Reads a settings file without its byte order mark. */
export function settingsIn(file: string): string {
  return readFileSync(file, "utf8").replace(/^\ufeff/, "");
}

/** The error code of SQLite for a full disk. */
const SQLITE_FULL = 13;

const NOT_YOURS = "It belongs to another user. Change its owner (chown -R), or work in your own copy of the checkout";
const WHAT_TO_DO: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full. Free some space",
  EDQUOT: "Your disk quota is exceeded. Free some space",
  EROFS: "The disk is read-only. Mount it for writing, or work in a copy of the checkout on another disk",
  EACCES: NOT_YOURS,
  EPERM: NOT_YOURS,
};

export function isOfDisk(error: unknown): boolean {
  return whatToDo(error) !== undefined;
}

/** The message of an error. For a disk error, the message is the action, then `then`, then the message of the system. */
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
