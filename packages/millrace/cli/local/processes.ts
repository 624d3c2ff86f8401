import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

interface Process {
  pid: number;
  command: string;
}

/** An engine that is asked to end is gone after 0.1 to 0.2 s (seen). */
const CLOSING_MS = 8000;
const LOOK_EVERY_MS = 50;

/** The processes of a group, as a process we started detached and all it started. Ends of life that nobody collected are left out. */
export function groupOf(leader: number): Process[] {
  return execFileSync("ps", ["-A", "-o", "pid=,pgid=,stat=,args="], { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 })
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line))
    .flatMap((match) => (match && Number(match[2]) === leader && !match[3]?.startsWith("Z") ? [match] : []))
    .map(([, pid, , , command = ""]) => ({ pid: Number(pid), command }));
}

/**
 * When a process started, which tells it from a later one under the same id; undefined when it is gone, also where nobody has collected its
 * end.
 */
export function startOf(pid: number): string | undefined {
  try {
    const said = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    const [, state, started] = /^\s*(\S+)\s+(.*\S)\s*$/.exec(said) ?? [];
    return state?.startsWith("Z") ? undefined : started;
  } catch {
    return undefined;
  }
}

/**
 * Whether a process lives. It costs next to nothing, where `startOf` starts a program; a later process under the same id counts as the
 * same.
 */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

export function send(signal: "SIGTERM" | "SIGKILL", processes: readonly Process[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal);
    } catch {
      // Gone already.
    }
  }
}

/** Ends a group: asks, waits until the last of it is gone, and kills what stays. Until then its port and its state are not free. */
export async function endGroup(leader: number): Promise<void> {
  send("SIGTERM", groupOf(leader));
  if (await gone(leader)) return;
  send("SIGKILL", groupOf(leader));
  await gone(leader);
}

async function gone(leader: number): Promise<boolean> {
  const deadline = Date.now() + CLOSING_MS;
  while (groupOf(leader).length > 0) {
    if (Date.now() > deadline) return false;
    await sleep(LOOK_EVERY_MS);
  }
  return true;
}
