import { expect, it } from "vitest";
import { wordOf } from "../../../packages/millrace/src/limits/upstream.ts";

const NOW = Date.parse("2026-11-23T12:00:00Z");
const say = (status: number, headers: Record<string, string> = {}) => wordOf({ status, headers }, NOW);

it.each([
  ["a 429 without a time", 429, {}, { refusedForMs: null }],
  ["Retry-After in seconds", 429, { "retry-after": "7" }, { refusedForMs: 7_000 }],
  ["Retry-After as a date", 429, { "retry-after": "Mon, 23 Nov 2026 12:00:09 GMT" }, { refusedForMs: 9_000 }],
  ["Retry-After as a past date", 429, { "retry-after": "Mon, 23 Nov 2026 11:00:00 GMT" }, { refusedForMs: null }],
  ["Retry-After of 0", 429, { "retry-after": "0" }, { refusedForMs: null }],
  ["Retry-After in one of the obsolete forms", 429, { "retry-after": "Monday, 23-Nov-26 12:00:09 GMT" }, { refusedForMs: 9_000 }],
  ["a 429 with a past reset", 429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(NOW / 1000 - 5) }, { refusedForMs: null }],
  ["a 503 with Retry-After: 0", 503, { "retry-after": "0" }, { refusedForMs: null }],
  ["Retry-After as an invalid text", 429, { "retry-after": "soon" }, { refusedForMs: null }],
  ["Retry-After as a fraction", 429, { "retry-after": "1.5" }, { refusedForMs: null }],
  ["two values of Retry-After", 429, { "retry-after": "2, 3" }, { refusedForMs: null }],
  ["a negative Retry-After", 429, { "retry-after": "-5" }, { refusedForMs: null }],
  [
    "two quotas that are nearly used up",
    200,
    { "ratelimit-policy": '"burst";q=10;w=1, "day";q=1000;w=86400', ratelimit: '"burst";r=0;t=1, "day";r=2;t=60' },
    {
      left: [
        { count: 0, forMs: 1_000 },
        { count: 2, forMs: 60_000 },
      ],
    },
  ],
  ["a 503 with Retry-After", 503, { "retry-after": "30" }, { refusedForMs: 30_000 }],
  ["a 503 without", 503, {}, undefined],
  ["a 429 with nothing left until a reset", 429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "12" }, { refusedForMs: 12_000 }],
  ["an answer without rate-limit headers", 200, {}, undefined],
  ["the field RateLimit with little left", 200, { ratelimit: '"default";r=3;t=30' }, { left: [{ count: 3, forMs: 30_000 }] }],
  ["the field RateLimit with plenty left", 200, { ratelimit: '"default";r=50;t=30' }, undefined],
  [
    "a quota of its policy that is nearly used up",
    200,
    {
      "ratelimit-policy": '"burst";q=1000;w=10;qu="requests", "day";q=100000;w=86400',
      ratelimit: '"burst";r=80;t=4, "day";r=99000;t=80000',
    },
    { left: [{ count: 80, forMs: 4_000 }] },
  ],
  [
    "the policy with the smallest remaining share",
    200,
    { "ratelimit-policy": '"burst";q=100;w=10, "day";q=1000;w=86400', ratelimit: '"burst";r=100;t=4, "day";r=2;t=80000;pk=:cHsdsRa894==:' },
    { left: [{ count: 2, forMs: 80_000_000 }] },
  ],
  ["the fields of the earlier drafts", 200, { "ratelimit-remaining": "0", "ratelimit-reset": "5" }, { left: [{ count: 0, forMs: 5_000 }] }],
  [
    "a reset as a time in seconds",
    200,
    { "x-ratelimit-limit": "60", "x-ratelimit-remaining": "6", "x-ratelimit-reset": String(NOW / 1000 + 8) },
    { left: [{ count: 6, forMs: 8_000 }] },
  ],
  [
    "a reset as a time in milliseconds",
    200,
    { "x-rate-limit-remaining": "1", "x-rate-limit-reset": String(NOW + 50) },
    { left: [{ count: 1, forMs: 50 }] },
  ],
  ["a quota with half left", 200, { "x-ratelimit-limit": "60", "x-ratelimit-remaining": "30", "x-ratelimit-reset": "8" }, undefined],
  [
    "fields that are not numbers",
    200,
    { ratelimit: "default;r=few;t=1, ,;;=", "x-ratelimit-remaining": "-1", "x-ratelimit-reset": "8" },
    undefined,
  ],
])("the rate limit of an upstream is read from %s", (_, status, headers, word) => {
  expect(say(status, headers as Record<string, string>)).toEqual(word);
});

it("the rate limit of an upstream is read from a Response, and without delay from a header of 100,000 characters", () => {
  expect(wordOf(new Response(null, { status: 429, headers: { "Retry-After": "1" } }))).toEqual({ refusedForMs: 1_000 });
  const began = Date.now();
  say(200, { ratelimit: `"${"a;".repeat(50_000)}` });
  say(200, { ratelimit: '"a";r=1;'.repeat(12_000) });
  expect(Date.now() - began).toBeLessThan(2_000);
});
