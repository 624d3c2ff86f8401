import { readFileSync } from "node:fs";
import { type AskWorker, median, repeat, round, say } from "./figures.ts";

/** The measured operations: the request path of each, which repeats it. */
const PATHS = {
  plain: { path: "/intake/plain?", count: 1000 },
  consumer: { path: "/intake/engine?", count: 10_000 },
  api: { path: "/accept?", count: 2000 },
  recorder: { path: "/recorder?shards=1&", count: 4000 },
};

/** Linux counts processor time in hundredths of a second. */
const TICK_US = 10_000;

/**
 * Microseconds of the runtime's processor time, including D1's: a message in the usual pattern and in the engine's consumer, a command
 * in `POST /v1/commands`, an outcome in the recorder. The time to create as many messages is subtracted. Undefined without
 * /proc.
 */
export async function processorFigures(ask: AskWorker, runtime: () => number[], rounds: number) {
  if (takenBy(runtime()) === undefined) {
    say("processor time", "measured on Linux alone");
    return undefined;
  }
  const taken = async (path: string, count: number) => {
    const before = takenBy(runtime()) ?? 0;
    await ask(`${path}count=${count}`);
    return ((takenBy(runtime()) ?? 0) - before) / count;
  };
  const each = async ({ path, count }: { path: string; count: number }) => {
    await ask(`${path}count=${count}`);
    const rest = await repeat(rounds, async () => (await taken(path, count)) - (await taken("/nothing?", count)));
    return round(median(rest));
  };
  const plain = await each(PATHS.plain);
  const consumer = await each(PATHS.consumer);
  const api = await each(PATHS.api);
  const recorder = await each(PATHS.recorder);
  say(
    "processor time",
    `plain ${plain} µs a message`,
    `consumer ${consumer} µs a message`,
    `API ${api} µs a command`,
    `recorder ${recorder} µs an outcome`,
  );
  return { processor_us: { plain, consumer, api, recorder } };
}

/** Processor time of some processes with all their threads so far, in microseconds. */
function takenBy(pids: readonly number[]): number | undefined {
  try {
    const ticks = pids.map((pid) => {
      // The fields after the name, which may contain anything: the 12th is user time, the 13th kernel time.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
      return Number(fields[11]) + Number(fields[12]);
    });
    return TICK_US * ticks.reduce((sum, one) => sum + one, 0);
  } catch {
    return undefined;
  }
}
