import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const LOOK_EVERY_MS = 200;

/** Watches how much memory processes hold. Linux remembers each one's highest by itself; elsewhere it is the highest that was seen. */
export function watchMemory(pids: () => number[]): { peakMb: () => number; stop: () => void } {
  let peak = 0;
  const look = () => {
    for (const pid of pids()) peak = Math.max(peak, residentKb(pid));
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    peakMb() {
      look();
      return Math.round(peak / 1024);
    },
    stop: () => clearInterval(timer),
  };
}

/** Kilobytes; 0 for a process that is gone. */
function residentKb(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    try {
      return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
    } catch {
      return 0;
    }
  }
}
