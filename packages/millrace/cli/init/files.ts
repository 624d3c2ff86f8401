import {
  accessSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { Refusal } from "../command.ts";
import { shown } from "../local/wrangler.ts";
import { errorWords } from "../terminal.ts";

/**
 * The text of a file, converted to Unix line ends and without a byte order mark. `as` converts a changed text to the file's line ends and
 * byte order mark.
 */
export interface TextFile {
  readonly text: string;
  as(text: string): string;
}

const MARK = "\ufeff";

export function readText(file: string): TextFile {
  const raw = existsSync(file) ? readFileSync(file, "utf8") : "";
  const hasMark = raw.startsWith(MARK);
  const body = hasMark ? raw.slice(1) : raw;
  const isWindows = body.includes("\r\n") && !/(?<!\r)\n/.test(body);
  return {
    text: isWindows ? body.replaceAll("\r\n", "\n") : body,
    as: (text) => (hasMark ? MARK : "") + (isWindows ? text.replaceAll("\n", "\r\n") : text),
  };
}

export interface Written {
  readonly file: string;
  /** The text that the file must have before the edit. Empty for a new file. */
  readonly before: string;
  readonly after: string;
  /** The permissions of the file. By default, an existing file keeps its permissions, and a new file gets 0644. */
  readonly mode?: number;
}

/**
 * Writes all files or no file. Each text is written to a temporary file, and the temporary files are renamed at the end. `also` runs before
 * the files are renamed. Errors: a `Refusal`, after which every file is unchanged.
 */
export function writeAll(files: readonly Written[], also: () => void): void {
  const beside: string[] = [];
  const done: (() => void)[] = [];
  try {
    const prepared = files.map((one) => prepare(one, beside));
    also();
    for (const { target, making, kept } of prepared) {
      renameSync(making, target);
      done.push(() => (kept === undefined ? rmSync(target, { force: true }) : renameSync(kept, target)));
    }
  } catch (error) {
    for (const undo of done.reverse()) undo();
    if (error instanceof Refusal) throw error;
    throw new Refusal(`No file is changed, because one of them cannot be written. ${errorWords(error, "run init again")}`);
  } finally {
    for (const file of beside) rmSync(file, { force: true });
  }
}

function prepare({ file, before, after, mode }: Written, beside: string[]) {
  mkdirSync(dirname(file), { recursive: true });
  const isThere = existsSync(file);
  // For a symbolic link, the target of the link is written, so that the link remains.
  const target = isThere ? realpathSync(file) : file;
  const own = isThere ? statSync(target).mode & 0o777 : 0o644;
  // The write permission is checked explicitly, because a rename would replace a read-only file, and root may write every file.
  if ((own & 0o200) === 0) throw new Refusal(`${shown(file)} is read-only. No file is changed. Make it writable: chmod u+w ${shown(file)}`);
  if (isThere) accessSync(target, constants.W_OK);
  if ((isThere ? readFileSync(target, "utf8") : "") !== before)
    throw new Refusal(`${shown(file)} has changed since init read it. No file is changed. Run init again.`);
  const making = `${target}.millrace-new`;
  const kept = isThere ? `${target}.millrace-old` : undefined;
  beside.push(making);
  rmSync(making, { force: true });
  const handle = openSync(making, "wx", 0o600);
  try {
    writeFileSync(handle, after);
    fchmodSync(handle, mode ?? own);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  if (kept !== undefined) {
    beside.push(kept);
    rmSync(kept, { force: true });
    copyFileSync(target, kept, constants.COPYFILE_EXCL);
  }
  return { target, making, kept };
}
