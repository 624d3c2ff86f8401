import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the batch demo imports a file through a kill of the whole engine, and proves that each row is there once", async () => {
  const out = await tellDemo(["batch", "--rows", "12000", "--kills", "1"]);
  expect(out.match(/kill -9 at/g)).toHaveLength(1);
  expect(out).toContain("11,988 contacts, each written once (its revision is 1); 12 rows reported, by their lines.");
  expect(out).toContain("✓ No row was lost and none was written twice, through 1 kill.");
});
