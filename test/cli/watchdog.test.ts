import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Watchdog } from "../../packages/millrace/cli/local/watchdog.ts";

const soon = { askEveryMs: 1, patienceMs: { first: 30_000, most: 100_000 } };
const quiet = () => sleep(100).then(() => "quiet");
const never = new Promise(() => undefined);
const living = () => new AbortController().signal;

it("an engine that no longer responds is reported as unresponsive", async () => {
  const answers = [true, true, false];
  const engine = { answers: async () => answers.shift() ?? false, ended: never };
  expect(await new Watchdog(soon).untilUnresponsive(engine, living())).toBe(30_000);
  expect(answers).toEqual([]);
});

it("an engine that is unresponsive again gets twice the timeout, and the first timeout after a prompt response", async () => {
  const watchdog = new Watchdog(soon);
  const deafAfter = (answers: boolean[]) =>
    watchdog.untilUnresponsive({ answers: async () => answers.shift() ?? false, ended: never }, living());
  expect([await deafAfter([]), await deafAfter([]), await deafAfter([]), await deafAfter([])]).toEqual([30_000, 60_000, 100_000, 100_000]);
  expect(await deafAfter([true])).toBe(30_000);
});

it("an engine that responds late does not get a shorter timeout", async () => {
  const watchdog = new Watchdog({ ...soon, promptMs: -1 });
  const answers = [false, true, false];
  const engine = { answers: async () => answers.shift() ?? false, ended: never };
  expect(await watchdog.untilUnresponsive(engine, living())).toBe(30_000);
  expect(await watchdog.untilUnresponsive(engine, living())).toBe(60_000);
});

it("an engine that responds, has ended, or is being stopped is not reported as unresponsive", async () => {
  const watchdog = new Watchdog(soon);
  const over = new AbortController();
  const fine = watchdog.untilUnresponsive({ answers: async () => true, ended: never }, over.signal);
  expect(await Promise.race([fine, quiet()])).toBe("quiet");
  over.abort();
  const gone = watchdog.untilUnresponsive({ answers: async () => false, ended: Promise.resolve() }, living());
  const stopped = watchdog.untilUnresponsive({ answers: async () => false, ended: never }, AbortSignal.abort());
  expect(await Promise.race([gone, stopped, quiet()])).toBe("quiet");
});
