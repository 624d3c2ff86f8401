import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the CRM demo syncs contacts through a kill of the whole engine, takes a person's change, echoes nothing, and proves it by the CRM's evidence", async () => {
  const out = await tellDemo(["crm", "--contacts", "1000", "--kills", "1"]);
  expect(out.match(/kill -9 at/g)).toHaveLength(1);
  expect(out).toContain("996 done, 2 merged, 2 refused");
  expect(out).toMatch(/refused {2}c0000500 {2}CONFLICT \(Contact already exists\. Existing ID: \d+\), correlation id [0-9a-f-]{36}\./);
  expect(out).toContain("has the job title “Captain” here too: revision 2");
  expect(out).toMatch(/nearly all our own: 1 became work/);
  expect(out).toContain("A second sync: 0 sent, 2 refused again");
  expect(out).toContain("of 100 allowed; 0 answers of 429.");
  expect(out).toContain("✓ Every contact is in the CRM once, through 1 kill, and its limit was never passed.");
});
