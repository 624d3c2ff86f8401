import { readFileSync } from "node:fs";
import { type AskWorker, median, repeat, round, say } from "./figures.ts";

/** The measured operations. A request to the path of an operation repeats the operation `count` times. */
const PATHS = {
  plain: { path: "/intake/plain?", count: 1000 },
  consumer: { path: "/intake/engine?", count: 10_000 },
  insert: { path: "/intake/insert?", count: 10_000, prepare: "/rows?" },
  api: { path: "/accept?", count: 2000 },
  recorder: { path: "/recorder?shards=1&", count: 4000 },
};

/** Linux counts processor time in units of 10 ms. */
const TICK_US = 10_000;

/**
 * Microseconds of the runtime's processor time, including the time of D1, for each operation. Two operations are a message in the usual
 * consumer and in the engine's consumer. The others are D1's plain insert of a message's row, a command in `POST /v1/commands`, and an
 * outcome in the recorder. The time to create the messages or rows is subtracted. The result is undefined on systems without /proc.
 */
export async function processorFigures(ask: AskWorker, runtime: () => number[], rounds: number) {
  if (takenBy(runtime()) === undefined) {
    say("processor time", "measured on Linux only");
    return undefined;
  }
  const taken = async (path: string, count: number) => {
    const before = takenBy(runtime()) ?? 0;
    await ask(`${path}count=${count}`);
    return ((takenBy(runtime()) ?? 0) - before) / count;
  };
  const each = async ({ path, count, prepare = "/nothing?" }: { path: string; count: number; prepare?: string }) => {
    await ask(`${path}count=${count}`);
    const rest = await repeat(rounds, async () => (await taken(path, count)) - (await taken(prepare, count)));
    return round(median(rest));
  };
  const plain = await each(PATHS.plain);
  const consumer = await each(PATHS.consumer);
  const insert = await each(PATHS.insert);
  const api = await each(PATHS.api);
  const recorder = await each(PATHS.recorder);
  say(
    "processor time",
    `usual consumer ${plain} µs per message`,
    `the engine's consumer ${consumer} µs per message`,
    `D1's insert of the consumer's rows ${insert} µs per message`,
    `API ${api} µs per command`,
    `recorder ${recorder} µs per outcome`,
  );
  return { processor_us: { plain, consumer, insert, api, recorder } };
}

/** The processor time in microseconds that these processes and their threads have used so far. */
export function takenBy(pids: readonly number[]): number | undefined {
  try {
    const ticks = pids.map((pid) => {
      // The process name may contain any character, so only the fields after the name are split. Field 12 of these is the user time, field
      // 13 the kernel time.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
      return Number(fields[11]) + Number(fields[12]);
    });
    return TICK_US * ticks.reduce((sum, one) => sum + one, 0);
  } catch {
    return undefined;
  }
}
