import { expect, it } from "vitest";
import { retryAfterMs } from "../../../packages/millrace/src/contract/duration.ts";

const NOW = Date.parse("2026-10-01T09:30:00.000Z");

it.each([
  ["120", 120_000],
  [" 7 ", 7000],
  ["0", 0],
  ["Thu, 01 Oct 2026 09:31:00 GMT", 60_000],
  ["Thursday, 01-Oct-26 09:31:00 GMT", 60_000],
  ["Thu Oct  1 09:31:00 2026", 60_000],
  ["Thu, 01 Oct 2026 09:00:00 GMT", 0],
  ["Thu, 01 Oct 2026 25:00:00 GMT", undefined],
  ["2026-10-01T09:31:00Z", undefined],
  ["Oct 2026", undefined],
  ["soon", undefined],
  ["20s", undefined],
  ["1.5", undefined],
  ["2.0", undefined],
  ["-5", undefined],
  ["+5", undefined],
  ["1e3", undefined],
  ["0x10", undefined],
  ["1, 2", undefined],
  ["", undefined],
  [null, undefined],
])("the header Retry-After: %o delays a call by %o ms", (field, ms) => {
  expect(retryAfterMs(field, NOW)).toBe(ms);
});
