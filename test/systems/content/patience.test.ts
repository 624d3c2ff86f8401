import { expect, it } from "vitest";
import { DEFAULT_RETRIES } from "../../../packages/millrace/src/guard/step.ts";
import { announceOn } from "../../../src/steps/announce.ts";
import { putPage } from "../../../src/steps/put-page.ts";
import { searchWeb } from "../../../src/steps/search-web.ts";
import { writeArticle } from "../../../src/steps/write-article.ts";

/** Three retries after 30 seconds, one minute and two minutes: as long as the queues from which the commands of these steps come. */
const QUEUES_WAIT_SECONDS = 30 + 60 + 120;

const seconds = (duration: unknown): number => {
  const [, count, unit] = /^(\d+) (second|minute)s?$/.exec(String(duration)) ?? [];
  return Number(count) * (unit === "minute" ? 60 : 1);
};

it.each(Object.entries({ searchWeb, writeArticle, "putPage (repeatable)": putPage({} as Cloudflare.Env, "store"), ...announceOn }))(
  "the step %s waits for an unavailable upstream for as long as its queue would",
  (_, { retries = DEFAULT_RETRIES }) => {
    expect(retries.backoff).toBe("exponential");
    const pauses = Array.from({ length: retries.limit }, (__, nth) => seconds(retries.delay) * 2 ** nth);
    expect(pauses.reduce((sum, pause) => sum + pause, 0)).toBeGreaterThanOrEqual(QUEUES_WAIT_SECONDS);
  },
);
