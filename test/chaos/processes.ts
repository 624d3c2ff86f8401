import { execFileSync } from "node:child_process";

interface Process {
  pid: number;
  parent: number;
  command: string;
}

/** The processes under one we started, its own included. Only these are ever killed, by their ids. */
export function processTree(root: number): Process[] {
  const all = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 })
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line))
    .flatMap((match) => (match ? [{ pid: Number(match[1]), parent: Number(match[2]), command: match[3] ?? "" }] : []));
  const tree = all.filter(({ pid }) => pid === root);
  for (const { pid } of tree) tree.push(...all.filter(({ parent }) => parent === pid));
  return tree;
}

/** `kill -9`: no handler runs, nothing is flushed, as in a crash. One that is gone already is as dead as we want it. */
export function kill9(processes: readonly Process[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // Gone already.
    }
  }
}
