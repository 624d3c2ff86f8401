import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../../command.ts";
import { paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { LanesApi } from "./api.ts";
import type { Called, Outside } from "./outside.ts";

/** Callers, each of which wants one call a second; the limit allows 20 in all, and half of it is too little for them. */
const CALLERS = 14;
const EVERY_MS = 1000;
/** The carrier is tired for so many seconds. */
const TIRED_S = 1;
/** Half of what the limit allows is 10 a second at first and grows: so many at most in three seconds, calls that were late included. */
const NARROW = { seconds: 3, most: 37 };
/** Calls that may have been under way when the carrier refused the first. */
const UNDER_WAY = 7;
/** Calls of all callers in two seconds; one of each second may come late and belong to the next. */
const FULL = 2 * (CALLERS - 1);
/** By then the limit has been whole for long. */
const RECOVERS_S = 45;

/** Callers at work. */
interface Callers {
  /** Tells each second until the traffic is what it was before the 429. */
  tell(): Promise<void>;
  stop(): Promise<void>;
}

/** Lets many callers share one limit, and has the carrier refuse a call as soon as all of them have called for two seconds. */
export function startCallers(api: LanesApi, { calls, tire }: Outside, until: Until, signal: AbortSignal): Callers {
  const over = new AbortController();
  const stop = AbortSignal.any([over.signal, signal]);
  const beganAt = Date.now();
  const work = Promise.all(Array.from({ length: CALLERS }, (_, caller) => callOnAndOn(api, caller, beganAt, stop)));
  const refused = (async () => {
    await until(() => isFull(calls, Date.now() - 2000, 0), "all callers call the carrier");
    tire(TIRED_S);
    await until(() => refusalIn(calls) !== undefined, "the carrier refuses a call");
  })();
  // Who tells of it meets the error.
  for (const one of [refused, work]) one.catch(() => {});
  return {
    async tell() {
      await Promise.race([refused, work]);
      const at = refusalIn(calls) ?? 0;
      say(paint("dim", "  second  calls that the carrier took"));
      let second = -2;
      for (; second <= TIRED_S + NARROW.seconds || !isFull(calls, at, second - 2); second++) {
        if (second > RECOVERS_S) throw new Refusal(`${RECOVERS_S} s after the 429 the callers are slower than before it.`);
        await Promise.race([sleep(Math.max(0, at + (second + 1) * 1000 - Date.now()), undefined, { signal: stop }), work]);
        tellSecond(second, takenIn(calls, at, second));
      }
      const wrong = notHeeded(calls);
      if (wrong.length > 0) throw new Refusal(wrong.join(" "));
      const count = calls.filter((one) => one.refused).length;
      const met = count === 1 ? "One call met the 429" : `${count} calls met the 429, because they were under way`;
      say(`  ${paint("green", "✓")} ${met}; all ${CALLERS} callers slowed down, and ${second - 1} s later call as often as before.`);
      say(paint("dim", "    Half of the limit at once, and then more of it each second. No caller needs to know of another."));
    },
    async stop() {
      over.abort();
      await work.catch(() => {});
    },
  };
}

/** One caller: a call a second, or less where the limit makes it wait. */
async function callOnAndOn(api: LanesApi, caller: number, beganAt: number, stop: AbortSignal): Promise<void> {
  const end = () => undefined;
  for (let next = beganAt + (caller * EVERY_MS) / CALLERS; !stop.aborted; next = Math.max(Date.now(), next + EVERY_MS)) {
    await sleep(Math.max(0, next - Date.now()), undefined, { signal: stop }).catch(end);
    if (!stop.aborted) await api.call(caller);
  }
}

function tellSecond(second: number, count: number): void {
  if (second === 0) say(`  ${paint("red", "        429, Retry-After: 1")}`);
  say(`  ${`${second}`.padStart(6)}  ${`${count}`.padStart(2)} ${paint(count < CALLERS - 1 ? "yellow" : "green", "█".repeat(count))}`);
}

function refusalIn(calls: readonly Called[]): number | undefined {
  return calls.find(({ refused }) => refused)?.at;
}

/** Calls taken in a second, counted from a moment. */
function takenIn(calls: readonly Called[], from: number, second: number): number {
  return calls.filter(({ at, refused }) => !refused && Math.floor((at - from) / 1000) === second).length;
}

/** True where all callers came in a second and in the next, counted from a moment. */
function isFull(calls: readonly Called[], from: number, second: number): boolean {
  return takenIn(calls, from, second) + takenIn(calls, from, second + 1) >= FULL;
}

/** Where callers did not heed the 429, each as a sentence. */
export function notHeeded(calls: readonly Called[]): string[] {
  const from = refusalIn(calls);
  if (from === undefined) return ["No call was refused."];
  const refused = calls.filter((one) => one.refused).length;
  const resumed = calls.find((one) => one.at > from && !one.refused)?.at ?? from;
  const narrow = calls.filter(({ at }) => at >= resumed && at < resumed + NARROW.seconds * 1000).length;
  return [
    ...(refused <= UNDER_WAY ? [] : [`${refused} calls were refused: the others did not hear of the first one's 429.`]),
    ...(narrow <= NARROW.most ? [] : [`In the ${NARROW.seconds} s after the pause ${narrow} calls went: that is no half of the limit.`]),
  ];
}
