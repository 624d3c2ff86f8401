import { expect, it } from "vitest";
import { killBulk } from "./kill.ts";

/** To run more instances through more kills: MILLRACE_FULL_SIZE=true MILLRACE_TEST_LOGS=1 npx vitest run --project node test/chaos/bulk */
const { instances, kills } = process.env.MILLRACE_FULL_SIZE === "true" ? { instances: 600, kills: 8 } : { instances: 20, kills: 1 };

it(`a bulk action over ${instances} instances that is killed ${kills} times as it retries, and as it cancels, continues and processes each instance once`, async () => {
  const { retried, cancelled } = await killBulk({ instances, kills, say: (line) => console.log(line) });
  const bulk = { state: "complete", why: null, matched: instances, done: instances, skipped: 0, failed: 0, remaining: 0 };
  const once = { 1: instances };
  expect(retried).toMatchObject({ bulk, kills, audited: once, happened: once, stand: { "complete, run 2": instances } });
  expect(cancelled).toMatchObject({ bulk, kills, audited: once, happened: once, stand: { "terminated, run 2": instances } });
}, 600_000);
