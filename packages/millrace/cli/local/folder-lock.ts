import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { isOfDisk } from "../terminal.ts";
import { endGroup, groupOf, startOf } from "./processes.ts";

/** The content of a lock file: the process id and the start time of the command, and the process group of the engine. */
interface Holder {
  /** Distinguishes two locks that the same process holds. */
  id: string;
  pid: number;
  started: string | undefined;
  url: string;
  engine?: number;
  engineStarted?: string | undefined;
}

export interface FolderLock {
  /** Records the engine's process group, so that a later start can end this group if the current process is killed. */
  holds(engine: number): void;
  release(): void;
}

const ENGINE = /wrangler|workerd|esbuild/;

/** Checks that no engine uses a folder. Errors: a `Refusal` if an engine uses the folder. */
export function requireUnlocked(folder: string): void {
  const holder = read(join(folder, "lock"));
  if (!holder || startOf(holder.pid) !== holder.started) return;
  throw new Refusal(`Millrace already runs on ${folder} (process ${holder.pid}, ${holder.url}). Stop it there with Ctrl-C first.`);
}

export interface Running {
  folder: string;
  url: string;
}

/**
 * The engines that use a folder or one of its direct subfolders, such as the demo's folder. Errors: a `Refusal` if no engine uses these
 * folders.
 */
export function runningIn(folder: string): Running[] {
  const running = enginesIn(folder);
  if (running.length === 0) throw new Refusal("No engine runs here. Start one with npx millrace dev: it prints a link.");
  return running;
}

/**
 * The engines that use a folder or one of its direct subfolders. The engine of the folder itself comes first. Empty if no engine uses these
 * folders.
 */
export function enginesIn(folder: string): Running[] {
  const within = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
  const folders = [folder, ...within.flatMap((one) => (one.isDirectory() ? [join(folder, one.name)] : []))];
  return folders.flatMap((one) => {
    const holder = read(join(one, "lock"));
    return holder && startOf(holder.pid) === holder.started ? [{ folder: one, url: holder.url }] : [];
  });
}

/**
 * Locks a folder for one engine, because two engines with the same state would repeat each other's work. Before that, ends the remaining
 * processes of a killed start.
 */
export async function lockFolder(folder: string, url: string): Promise<FolderLock> {
  const file = join(folder, "lock");
  const mine: Holder = { id: randomUUID(), pid: process.pid, started: startOf(process.pid), url };
  const over = takeTurn(folder);
  try {
    requireUnlocked(folder);
    const holder = read(file);
    if (holder) await endLeftovers(holder);
    write(file, mine);
  } finally {
    over();
  }
  const isMine = () => read(file)?.id === mine.id;
  return {
    holds(engine) {
      if (isMine()) write(file, { ...mine, engine, engineStarted: startOf(engine) });
    },
    release() {
      if (isMine()) rmSync(file, { force: true });
    },
  };
}

/** The error code of SQLite if another connection holds a lock. */
const SQLITE_BUSY = 5;

/**
 * Allows only one process at a time to replace a lock, because ending the processes of a killed start takes seconds. Uses SQLite's lock on
 * an empty database, because the system releases this lock if the process dies. Returns a function that releases the lock.
 */
export function takeTurn(folder: string, busy = `Another start is locking ${folder}.`): () => void {
  const file = join(folder, "lock.turn");
  const turn = new DatabaseSync(file, { timeout: 0 });
  try {
    turn.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    turn.close();
    if (isOfDisk(error)) throw error;
    const { errcode, message } = error as Error & { errcode?: number };
    if (errcode === SQLITE_BUSY) throw new Refusal(`${busy} Wait for it, or stop it with Ctrl-C.`);
    throw new Refusal(`${file} cannot be locked: ${message}. It is a leftover: delete it, and start again.`);
  }
  return () => turn.close();
}

/** Ends the process group of a killed start, if the group's leader is still the recorded process. */
async function endLeftovers({ engine, engineStarted }: Holder): Promise<void> {
  if (engine === undefined) return;
  const leaderStart = startOf(engine);
  const left = groupOf(engine);
  if (left.length === 0 || (leaderStart && leaderStart !== engineStarted) || !left.every(({ command }) => ENGINE.test(command))) return;
  await endGroup(engine);
}

function read(file: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Holder;
  } catch {
    return undefined;
  }
}

/**
 * Writes a temporary file and renames the file, because a process that reads an incomplete lock would assume that the folder is not locked.
 */
function write(file: string, holder: Holder): void {
  const making = `${file}.${holder.id}`;
  writeFileSync(making, JSON.stringify(holder), { mode: 0o600 });
  renameSync(making, file);
}
