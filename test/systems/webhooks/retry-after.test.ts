import { expect, it } from "vitest";
import { putOffMs } from "../../../src/systems/webhooks/retry-after.ts";

const now = Date.parse("2026-10-01T09:30:00.000Z");

it.each([
  ["120", 120_000],
  [" 7 ", 7000],
  ["0", 1000],
  ["86400", 3_600_000],
  ["99999999999999999999", 3_600_000],
  ["Thu, 01 Oct 2026 09:31:00 GMT", 60_000],
  ["Thu, 01 Oct 2026 09:00:00 GMT", 1000],
  ["Sat, 01 Jan 2050 00:00:00 GMT", 3_600_000],
  ["soon", undefined],
  ["-5", undefined],
  ["1.5", undefined],
  ["", undefined],
  [null, undefined],
])("Retry-After %o asks for %o ms", (value, ms) => {
  expect(putOffMs(value, now)).toBe(ms);
});
