import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { isOfDisk } from "../disk.ts";
import { endGroup, groupOf, startOf } from "./processes.ts";

/** Who uses a folder: the command, when it began, and the process group of its engine once that runs. */
interface Holder {
  /** Of this one lock: two of one process differ by it. */
  id: string;
  pid: number;
  started: string | undefined;
  url: string;
  engine?: number;
  engineStarted?: string | undefined;
}

export interface FolderLock {
  /** Notes the engine's process group, so that a later start can end what this one leaves behind if it dies. */
  holds(engine: number): void;
  release(): void;
}

const ENGINE = /wrangler|workerd|esbuild/;

/** Refuses a folder on which an engine runs. */
export function requireUnlocked(folder: string): void {
  const holder = read(join(folder, "lock"));
  if (!holder || startOf(holder.pid) !== holder.started) return;
  throw new Refusal(`Millrace already runs on ${folder} (process ${holder.pid}, ${holder.url}). Stop it there with Ctrl-C first.`);
}

/** An engine that runs: its folder, and where it answers. */
export interface Running {
  folder: string;
  url: string;
}

/** The engines that run on a folder, or on one directly in it: a demo has its own. Errors: a `Refusal` where none does. */
export function runningIn(folder: string): Running[] {
  const running = enginesIn(folder);
  if (running.length === 0) throw new Refusal("No engine runs here. Start one with npx millrace dev: it prints a link.");
  return running;
}

/** The same, that of the folder itself first; none where none does. */
export function enginesIn(folder: string): Running[] {
  const within = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
  const folders = [folder, ...within.flatMap((one) => (one.isDirectory() ? [join(folder, one.name)] : []))];
  return folders.flatMap((one) => {
    const holder = read(join(one, "lock"));
    return holder && startOf(holder.pid) === holder.started ? [{ folder: one, url: holder.url }] : [];
  });
}

/** Takes a folder for one engine: two on the same state would each do the other's work. What a dead start left running is ended first. */
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

/** SQLite's own number for what another connection has locked. */
const SQLITE_BUSY = 5;

/**
 * One start at a time looks at a folder's lock and takes it over: ending what a dead one left takes seconds, in which a second would find
 * the same. The turn is SQLite's lock on an empty database, which the system itself takes from a process that dies. Answers how it ends.
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

/** Ends the engine a killed start could not end: only if its group is still the one that start noted. */
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

/** As a whole or not at all: whoever read a half of it would take the folder for free. */
function write(file: string, holder: Holder): void {
  const making = `${file}.${holder.id}`;
  writeFileSync(making, JSON.stringify(holder), { mode: 0o600 });
  renameSync(making, file);
}
