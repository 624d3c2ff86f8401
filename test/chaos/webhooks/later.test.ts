import { expect, it } from "vitest";
import { deliverLater } from "./later.ts";

/**
 * To send 10,000 facts through more kills: MILLRACE_FULL_SIZE=true MILLRACE_TEST_LOGS=1 npx vitest run --project node test/chaos/webhooks
 */
const { facts, kills } = process.env.MILLRACE_FULL_SIZE === "true" ? { facts: 10_000, kills: 6 } : { facts: 60, kills: 1 };

it(`${facts} facts that were recorded while an endpoint was disabled are each delivered under one id, through ${kills} kills`, async () => {
  const later = await deliverLater({ facts, kills, perSecond: 10, say: (line) => console.log(line) });
  expect(later).toMatchObject({ state: "complete", matched: facts, kills, facts, ids: facts, doubles: 0, unsigned: 0 });
  console.log(JSON.stringify(later));
}, 3_000_000);
