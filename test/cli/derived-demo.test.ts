import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the demo of derived facts shows charges, budgets and contacts, and that nothing changes when all comes twice", async () => {
  const out = await tellDemo(["derived"]);
  expect(out).toContain("charge    20.00  for sale-3, by “large sale”");
  expect(out).toContain("order-3 asks for 60.00: refused");
  expect(out).toContain("400 granted, 600 refused");
  expect(out).toContain("ann      is known as anna.smith");
  expect(out).toContain("No new fact, no new charge, no new hold.");
  expect(out).toContain("✓ Each outcome was charged once");
});
