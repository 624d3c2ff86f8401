import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../command.ts";
import { endGroup, groupOf, startOf } from "./processes.ts";

/** Who uses a folder: the command, when it began, and the process group of its engine once that runs. */
interface Holder {
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

/** Takes a folder for one engine: two on the same state would each do the other's work. What a dead start left running is ended first. */
export async function lockFolder(folder: string, url: string): Promise<FolderLock> {
  const file = join(folder, "lock");
  const mine: Holder = { pid: process.pid, started: startOf(process.pid), url };
  requireUnlocked(folder);
  const holder = read(file);
  if (holder) await endLeftovers(holder);
  rmSync(file, { force: true });
  try {
    write(file, mine, "wx");
  } catch {
    throw new Refusal(`Another start took ${folder} just now. Wait for it, or stop it with Ctrl-C.`);
  }
  return {
    holds: (engine) => write(file, { ...mine, engine, engineStarted: startOf(engine) }, "w"),
    release: () => rmSync(file, { force: true }),
  };
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

function write(file: string, holder: Holder, flag: "w" | "wx"): void {
  writeFileSync(file, JSON.stringify(holder), { flag, mode: 0o600 });
}
