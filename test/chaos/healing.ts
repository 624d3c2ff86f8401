import { setTimeout as sleep } from "node:timers/promises";
import { getJson } from "./http.ts";
import type { Account, Progress } from "./worker.ts";

/** Longest that healing may take: invariant I1. */
const HEALING_MS = 60_000;

/** Statuses in which an instance still has something to do by itself. */
const OPEN = ["accepted", "queued", "running", "waiting", "paused"];

/** Waits until nothing is open. Answers how long after `since` that was; what is still open after the allowed time is the judge's to name. */
export async function heal(url: string, since: number, say: (line: string) => void): Promise<number> {
  let told = "";
  for (;;) {
    const progress = await getJson<Progress>(`${url}/progress`);
    const healedMs = Date.now() - since;
    const open = OPEN.reduce((total, status) => total + (progress.statuses[status] ?? 0), 0);
    if ((open === 0 && progress.outbox === 0) || healedMs > HEALING_MS) return healedMs;
    const line = `healing: ${open} instances and ${progress.outbox} messages are still open`;
    if (line !== told) say(line);
    told = line;
    await sleep(250);
  }
}

/** The database's account once it holds still: beside a parked effect, others of its instance may still be at work. */
export async function settledAccount(url: string): Promise<Account> {
  let account = await getJson<Account>(`${url}/account`);
  for (let look = 1; look <= 10; look++) {
    await sleep(1000);
    const next = await getJson<Account>(`${url}/account`);
    if (JSON.stringify(next) === JSON.stringify(account)) break;
    account = next;
  }
  return account;
}
