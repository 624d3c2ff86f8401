import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the demo of webhooks shows failure, patience, rotation, 410 and a hostile URL, proves it, and ends within a minute", async () => {
  const out = await tellDemo(["webhooks"]);
  expect(out).toMatch(/refused {2}https:\/\/169\.254\.169\.254/);
  expect(out).toMatch(/attempt 1 .* 429 .*asked for 12 seconds.*\n.*attempt 2 .* 204 /);
  expect(out).toContain("2 signatures; the old secret verifies: true, the new one: true.");
  expect(out).toContain("/payouts is disabled: The receiver answered 410 Gone.");
  expect(out).toContain("The receiver: 8 requests, all verified; 6 deliveries taken, each under one id.");
  expect(out).toContain("✓ Every delivery was taken once");
  expect(out).not.toMatch(/whsec_[A-Za-z0-9+/]/);
});
