import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { untilDeaf } from "../../src/cli/local/watchdog.ts";

const soon = { lookEveryMs: 1, patienceMs: 1 };
const quiet = () => sleep(100).then(() => "quiet");

it("an engine that answers no more is called deaf", async () => {
  const answers = [true, true, false];
  const engine = { answers: async () => answers.shift() ?? false, ended: new Promise(() => undefined) };
  expect(await untilDeaf(engine, new AbortController().signal, soon)).toBe("deaf");
  expect(answers).toEqual([]);
});

it("one that answers, one that has ended and one that is being stopped are not", async () => {
  const never = new Promise(() => undefined);
  const over = new AbortController();
  const fine = untilDeaf({ answers: async () => true, ended: never }, over.signal, soon);
  expect(await Promise.race([fine, quiet()])).toBe("quiet");
  over.abort();
  const gone = untilDeaf({ answers: async () => false, ended: Promise.resolve() }, new AbortController().signal, soon);
  const stopped = untilDeaf({ answers: async () => false, ended: never }, AbortSignal.abort(), soon);
  expect(await Promise.race([gone, stopped, quiet()])).toBe("quiet");
});
